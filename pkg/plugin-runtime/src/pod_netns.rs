//! The pod: where attachments go.

use std::{fs, io, path::Path};

use identifiers::LinkName;
use netns::{LiveNetns, NetNs, NetNsId};
use rtnl::{Handle, Link};
use tracing::warn;

use crate::Error;

/// The pod's side of a call: its namespace and the links in it.
#[derive(Debug)]
pub struct PodNetns {
    /// The namespace.
    pub netns: NetNs,
    /// Its links, addresses and routes.
    pub links: Handle,
    /// The namespace that this thread is in.
    home: NetNs,
}

/// The namespace `CNI_NETNS` names, for who needs nothing of its links.
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

/// The namespace of a journal, if it still lives, for who needs nothing of its links.
///
/// # Errors
/// As [`PodNetns::find`].
pub fn find_netns(path: &Path, id: NetNsId) -> Result<Option<NetNs>, Error> {
    match NetNs::open(path) {
        Ok(netns) if netns.is(id)? => Ok(Some(netns)),
        // A path that names something else, or nothing, names no pod of ours.
        Ok(_) | Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The namespaces that something holds, but for the node's own: what a pod moved on, to a namespace of its own making, is in
/// one of them. None if this process does not see every process.
///
/// # Errors
/// If the thread's own namespace cannot be opened.
pub fn other_netns() -> Result<Vec<NetNs>, Error> {
    let own = NetNs::current()?.id();
    let all = LiveNetns::scan(Path::new("/")).and_then(|living| living.open_all());
    let mut all = all.unwrap_or_else(|error| {
        warn!(%error, "namespaces that pods made cannot be looked into");
        Vec::new()
    });
    all.retain(|netns| netns.id() != own);
    Ok(all)
}

impl PodNetns {
    /// The pod of a namespace.
    ///
    /// # Errors
    /// If it cannot be entered.
    pub fn of(netns: NetNs) -> Result<Self, Error> {
        Self::open_links(netns, NetNs::current()?)
    }

    /// Opens the namespace `CNI_NETNS` names. It is looked at before anything is touched: a stale path like
    /// `/proc/1234/ns/net` may have come to mean the node's own.
    ///
    /// # Errors
    /// [`Error::OwnNetNs`] unless `own_allowed`; [`Error::NetNs`] if it is gone or no namespace.
    pub fn open(path: &Path, own_allowed: bool) -> Result<Self, Error> {
        let netns = NetNs::open(path)?;
        let home = NetNs::current()?;
        if !own_allowed && netns.id() == home.id() {
            return Err(Error::OwnNetNs { path: path.to_owned() });
        }
        Self::open_links(netns, home)
    }

    fn open_links(netns: NetNs, home: NetNs) -> Result<Self, Error> {
        let (netns, links) = netns.identified_with(&home, Handle::open)?;
        Ok(Self { netns, links: links?, home })
    }

    /// The namespace of a journal, if it still lives. Another one under the same path is not it.
    ///
    /// # Errors
    /// If it is there and cannot be entered.
    pub fn find(path: &Path, id: NetNsId) -> Result<Option<Self>, Error> {
        match NetNs::open(path) {
            Ok(netns) if netns.id() == id => {
                let pod = Self::open_links(netns, NetNs::current()?)?;
                Ok(Some(pod).filter(|pod| pod.id().is(id)))
            }
            // A path that names something else, or nothing, names no pod of ours.
            Ok(_) | Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What tells this pod's namespace from others.
    pub fn id(&self) -> NetNsId {
        self.netns.id()
    }

    /// Refuses a name that a link of the pod has, be it as an altname, and returns the highest index of its links.
    ///
    /// # Errors
    /// That it is taken, and by what.
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

    /// Has sysctls in the pod be so, given as in [`PodNetns::write_sysctls`]. One that is so already need not be writable.
    ///
    /// # Errors
    /// As [`PodNetns::write_sysctls`].
    pub fn ensure_sysctls(&self, sysctls: &[(String, &str)]) -> Result<io::Result<()>, Error> {
        let is_so = |(name, value): &(String, &str)| {
            fs::read_to_string(format!("/proc/sys/{name}")).is_ok_and(|text| text.trim() == *value)
        };
        let others = self.run(|| sysctls.iter().filter(|it| !is_so(it)).cloned().collect::<Vec<_>>())?;
        if others.is_empty() { Ok(Ok(())) } else { self.write_sysctls(&others) }
    }

    /// Writes sysctls in the pod, given as `net/ipv4/…` and value, every one that can be written.
    ///
    /// # Errors
    /// Outer: if the namespace cannot be entered. Inner: the first that could not be written.
    pub fn write_sysctls(&self, sysctls: &[(String, &str)]) -> Result<io::Result<()>, Error> {
        let write = || {
            let mut result = Ok(());
            for (name, value) in sysctls {
                let written = fs::write(format!("/proc/sys/{name}"), value);
                result = result.and(written);
            }
            result
        };
        Ok(self.run(write)?)
    }

    /// Runs `work` inside the pod's namespace: see [`NetNs::run_from`].
    ///
    /// # Errors
    /// As [`NetNs::run`].
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, netns::Error> {
        self.netns.run_from(&self.home, work)
    }
}
