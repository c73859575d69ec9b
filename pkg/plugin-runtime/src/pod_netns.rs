//! The pod: the network namespace in which attachments end.

use std::{
    cell::RefCell,
    io,
    path::{Path, PathBuf},
};

use identifiers::LinkName;
use netns::{LiveNetns, NetNs, NetNsId, NotOnNode};
use rtnl::{Handle, Link};
use tracing::{info, warn};

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

thread_local! {
    /// The namespace that the call of this thread opened last. A plugin that is called in the same process has the same pod.
    static OPENED: RefCell<Option<(PathBuf, NetNsId)>> = const { RefCell::new(None) };
}

/// Returns the ID of the namespace that `CNI_NETNS` names; `None` if it is gone.
pub(crate) fn id_of(path: &Path) -> Option<NetNsId> {
    let opened = OPENED.with_borrow(|opened| opened.as_ref().filter(|(at, _)| at == path).map(|(_, id)| *id));
    opened.or_else(|| NetNs::open(path).and_then(NetNs::identified).ok().map(|netns| netns.id()))
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
        Ok(_) | Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => find_held(id),
        Err(error) => Err(error.into()),
    }
}

/// Opens a namespace that its path does not lead to any more: the path may be that of a process, of which others still run,
/// or may not be visible to this process. `None` if nothing holds the namespace, or if not all processes are visible: DEL
/// must not fail for ever in a container, and the runtime that calls it says that the pod has ended.
///
/// # Errors
/// [`Error::UnknownPod`] if it may exist.
fn find_held(id: NetNsId) -> Result<Option<NetNs>, Error> {
    match NetNs::find_held(Path::new("/"), id) {
        Err(error) if error.is_not_permitted() => {
            info!(%error, netns = %id, "the pod's namespace is not at its path, and counts as gone");
            Ok(None)
        }
        found => Ok(found?),
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
        let pod = Self::open_links(netns, host)?;
        OPENED.set(Some((path.to_owned(), pod.id())));
        Ok(pod)
    }

    fn open_links(netns: NetNs, host: NetNs) -> Result<Self, Error> {
        let (netns, links) = netns.identified_with(&host, Handle::open)?;
        Ok(Self { netns, links: links?, host })
    }

    /// Opens the namespace of a journal, at its path or wherever it is held; `None` if it is gone.
    ///
    /// # Errors
    /// If it exists and cannot be entered.
    pub fn find(path: &Path, id: NetNsId) -> Result<Option<Self>, Error> {
        match NetNs::open(path) {
            Ok(netns) if netns.id() == id => {
                let pod = Self::of(netns)?;
                if pod.id().is(id) {
                    return Ok(Some(pod));
                }
            }
            // The path is gone, or names another namespace or file: the pod's namespace is not there.
            Ok(_) | Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        find_held(id)?.map(Self::of).transpose()
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

#[cfg(test)]
mod tests {
    use testkit::{Observe, TestNode};

    use super::*;

    #[test]
    fn a_name_is_free_unless_a_link_has_it_as_its_name_or_an_altname() {
        let node = TestNode::new();
        node.run_ip("link add net2 index 77 type veth peer name far");
        for altname in ["first", "net1"] {
            node.run_ip(&format!("link property add dev net2 altname {altname}"));
        }
        let pod = PodNetns::of(NetNs::current().unwrap()).unwrap();
        let check = |name: &str| pod.require_name_free(&name.parse().unwrap());
        let highest = pod.links.links().unwrap().iter().map(|link| link.index).max().unwrap();
        assert!(highest >= 77);
        assert_eq!(check("net3").unwrap(), highest);
        let taken = check("net2").unwrap_err().to_string();
        assert!(taken.contains("it is a veth link with index 77"), "{taken}");
        let altname = check("net1").unwrap_err().to_string();
        assert!(altname.contains("it is an altname of net2, a veth link with index 77"), "{altname}");
    }

    #[test]
    fn a_sysctl_that_cannot_be_written_does_not_keep_the_others_from_it() {
        let _node = TestNode::new();
        let pod = PodNetns::of(NetNs::current().unwrap()).unwrap();
        let both = |value| ["missing", "ip_forward"].map(|name| (format!("net/ipv4/{name}"), value));
        assert!(pod.write_sysctls(&both("1")).unwrap().is_err());
        assert_eq!(pod.read_sysctl("net/ipv4/ip_forward").unwrap().unwrap(), "1");
        assert!(pod.ensure_sysctls(&both("0")).unwrap().is_err());
        assert_eq!(pod.read_sysctl("net/ipv4/ip_forward").unwrap().unwrap(), "0");
        assert!(pod.ensure_sysctls(&both("0")[1..]).unwrap().is_ok());
    }
}
