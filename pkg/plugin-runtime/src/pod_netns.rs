//! The pod: the network namespace in which attachments end.

use std::{io, path::Path};

use identifiers::LinkName;
use netns::{LiveNetns, NetNs, NetNsId, NotOnNode};
use rtnl::{Handle, Link};
use tracing::warn;

use crate::{Error, sysctl};

/// The pod's side of a call: its namespace and the links in it.
#[derive(Debug)]
pub struct PodNetns {
    /// The pod's network namespace.
    pub netns: NetNs,
    /// An rtnetlink socket in it, for its links, addresses and routes.
    pub links: Handle,
    /// The namespace that this thread is in.
    host: NetNs,
}

/// Opens the namespace that `CNI_NETNS` names, for callers that do not need its links.
///
/// # Errors
/// As [`PodNetns::open`].
pub fn netns_of(path: &Path, own_allowed: bool) -> Result<NetNs, Error> {
    let netns = NetNs::open(path)?;
    if !own_allowed && netns.id() == NetNs::current()?.id() {
        return Err(Error::OwnNetNs { path: path.to_owned() });
    }
    Ok(netns.identified()?)
}

/// Opens the namespace of a journal if it still exists, for callers that do not need its links.
///
/// # Errors
/// As [`PodNetns::find`].
pub fn find_netns(path: &Path, id: NetNsId) -> Result<Option<NetNs>, Error> {
    match NetNs::open(path) {
        Ok(netns) if netns.is(id)? => Ok(Some(netns)),
        // The path is gone, or names another namespace or file: the pod's namespace is not there.
        Ok(_) | Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens all network namespaces in use, except the node's own. A device that a pod moved to a namespace of its own is in
/// one of them. Empty if this process cannot see all processes.
///
/// # Errors
/// If the thread's own namespace cannot be opened.
pub fn other_netns() -> Result<Vec<NetNs>, Error> {
    let own = NetNs::current()?.id();
    let all = LiveNetns::scan(Path::new("/")).and_then(|living| living.open_all());
    let mut all = all.unwrap_or_else(|error| {
        warn!(%error, "cannot open the network namespaces that pods created");
        Vec::new()
    });
    all.retain(|netns| netns.id() != own);
    Ok(all)
}

/// Opens the same namespaces as [`other_netns`], for callers that must not overlook one.
///
/// # Errors
/// Outer: as [`other_netns`]. Inner: why a namespace that may be in use cannot be opened.
pub fn every_other_netns() -> Result<Result<Vec<NetNs>, NotOnNode>, Error> {
    let own = NetNs::current()?.id();
    let all = LiveNetns::scan(Path::new("/")).and_then(|living| living.require_all());
    Ok(all.map(|all| all.into_iter().filter(|netns| netns.id() != own).collect()))
}

impl PodNetns {
    /// Opens the links of a namespace that is open already.
    ///
    /// # Errors
    /// If it cannot be entered.
    pub fn of(netns: NetNs) -> Result<Self, Error> {
        Self::open_links(netns, NetNs::current()?)
    }

    /// Opens the namespace that `CNI_NETNS` names. It is checked before anything is changed: a stale path like
    /// `/proc/1234/ns/net` may now refer to the node's own.
    ///
    /// # Errors
    /// [`Error::OwnNetNs`] unless `own_allowed`; [`Error::NetNs`] if it is gone or not a namespace.
    pub fn open(path: &Path, own_allowed: bool) -> Result<Self, Error> {
        let netns = NetNs::open(path)?;
        let host = NetNs::current()?;
        if !own_allowed && netns.id() == host.id() {
            return Err(Error::OwnNetNs { path: path.to_owned() });
        }
        Self::open_links(netns, host)
    }

    fn open_links(netns: NetNs, host: NetNs) -> Result<Self, Error> {
        let (netns, links) = netns.identified_with(&host, Handle::open)?;
        Ok(Self { netns, links: links?, host })
    }

    /// Opens the namespace of a journal; `None` if it is gone or if its path names another namespace.
    ///
    /// # Errors
    /// If it exists and cannot be entered.
    pub fn find(path: &Path, id: NetNsId) -> Result<Option<Self>, Error> {
        match NetNs::open(path) {
            Ok(netns) if netns.id() == id => {
                let pod = Self::open_links(netns, NetNs::current()?)?;
                Ok(Some(pod).filter(|pod| pod.id().is(id)))
            }
            // The path is gone, or names another namespace or file: the pod's namespace is not there.
            Ok(_) | Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the device, inode and cookie that identify this pod's namespace.
    pub fn id(&self) -> NetNsId {
        self.netns.id()
    }

    /// Checks that no link of the pod has this name or altname, and returns the highest index of its links.
    ///
    /// # Errors
    /// [`Error::NameInUse`], with the link that has the name.
    pub fn require_name_free(&self, ifname: &LinkName) -> Result<u32, Error> {
        let links = self.links.links()?;
        let has_it = |link: &&Link| {
            link.name == ifname.as_str() || link.altnames.iter().any(|name| name == ifname.as_str())
        };
        let Some(link) = links.iter().find(has_it) else {
            return Ok(links.iter().map(|link| link.index).max().unwrap_or_default());
        };
        let what = link.kind.as_ref().map_or_else(|| "a".to_owned(), |kind| format!("a {kind}"));
        let of = if link.name == ifname.as_str() { "" } else { &format!("an altname of {}, ", link.name) };
        Err(Error::NameInUse { ifname: ifname.clone(), what: format!("{of}{what}"), index: link.index })
    }

    /// Sets sysctls in the pod, given as in [`PodNetns::write_sysctls`]. One that has its value already is not written.
    ///
    /// # Errors
    /// As [`PodNetns::write_sysctls`].
    pub fn ensure_sysctls(&self, sysctls: &[(String, &str)]) -> Result<io::Result<()>, Error> {
        let is_set = |(name, value): &(String, &str)| sysctl::read(name).is_ok_and(|is| is == *value);
        let others = self.run(|| sysctls.iter().filter(|it| !is_set(it)).cloned().collect::<Vec<_>>())?;
        if others.is_empty() { Ok(Ok(())) } else { self.write_sysctls(&others) }
    }

    /// Writes sysctls in the pod, given as `net/ipv4/…` and value. A failure does not keep the others from being written.
    ///
    /// # Errors
    /// Outer: if the namespace cannot be entered. Inner: the first write that failed.
    pub fn write_sysctls(&self, sysctls: &[(String, &str)]) -> Result<io::Result<()>, Error> {
        let write = || {
            let mut result = Ok(());
            for (name, value) in sysctls {
                result = result.and(sysctl::write(name, value));
            }
            result
        };
        Ok(self.run(write)?)
    }

    /// Reads a sysctl in the pod, without the newline at its end.
    ///
    /// # Errors
    /// Outer: if the namespace cannot be entered. Inner: if the file cannot be read.
    pub fn read_sysctl(&self, name: &str) -> Result<io::Result<String>, Error> {
        Ok(self.run(|| sysctl::read(name))?)
    }

    /// Runs `work` inside the pod's namespace: see [`NetNs::run_from`].
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, netns::Error> {
        self.netns.run_from(&self.host, work)
    }
}
