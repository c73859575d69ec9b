//! Claims of devices by attachments whose namespaces exist or are gone.

use std::{cell::RefCell, os::unix::fs::symlink};

use super::*;

const OWN_NETNS: &str = "/proc/self/ns/net";

/// The state of a node of files, on which only this process runs.
struct ClaimFixture {
    dir: tempfile::TempDir,
    state: StateDir,
}

impl ClaimFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path().join("state"));
        for process in ["1", "self"] {
            fs::create_dir_all(dir.path().join("proc").join(process).join("ns")).unwrap();
            fs::write(dir.path().join("proc").join(process).join("mountinfo"), "").unwrap();
        }
        symlink("pid:[4026531836]", dir.path().join("proc/self/ns/pid")).unwrap();
        symlink(OWN_NETNS, dir.path().join("proc/self/ns/net")).unwrap();
        Self { dir, state }
    }

    /// Adds a process in a namespace with the ID of [`claim`]s whose path is missing.
    fn add_process(&self) {
        let thread = self.dir.path().join("proc/77/task/77/ns");
        fs::create_dir_all(&thread).unwrap();
        symlink("net:[7]", thread.join("net")).unwrap();
    }

    /// Claims the device; returns the former owners that were reverted first.
    fn acquire(&self, claim: &DeviceClaim) -> Result<Vec<String>, Error> {
        let reverted = RefCell::new(Vec::new());
        claim.acquire_on(self.dir.path(), &self.state, &soon, |former| {
            reverted.borrow_mut().push(former.to_string());
            Ok::<_, Error>(true)
        })?;
        Ok(reverted.into_inner())
    }

    fn owner(&self, claim: &DeviceClaim) -> Option<String> {
        let owner = owner_of(&self.state, soon(), claim.part, &claim.function).unwrap();
        owner.map(|owner| owner.to_string())
    }

    fn is_claimed_by_other(&self, claim: &DeviceClaim) -> bool {
        is_claimed_by_other(&self.state, soon(), claim.part, &claim.function, &claim.owner).unwrap()
    }

    fn claimed_at(&self, claim: &DeviceClaim) -> Option<SystemTime> {
        claimed_at(&self.state, soon(), claim.part, &claim.function, &claim.owner).unwrap()
    }
}

fn soon() -> Instant {
    Instant::now() + std::time::Duration::from_secs(5)
}

fn claim(owner: &str, netns: &str) -> DeviceClaim {
    let id = NetNs::open(Path::new(netns)).map_or(NetNsId::new(4, 7), |netns| netns.id());
    let (function, owner) = ("0000:af:00.1".parse().unwrap(), owner.parse().unwrap());
    DeviceClaim::of(ClaimKind::Vf, function, &owner, netns.into(), id).unwrap()
}

fn of_earlier_boot(claim: DeviceClaim) -> DeviceClaim {
    DeviceClaim { boot_id: "00000000-0000-0000-0000-000000000000".to_owned(), ..claim }
}

#[test]
fn a_device_of_a_running_pod_is_in_use() {
    let node = ClaimFixture::new();
    let (ours, theirs) = (claim("a@net1", OWN_NETNS), claim("b@net1", OWN_NETNS));
    assert!(ours.verify(&node.state, soon()).is_err() && !ours.is_there(&node.state).unwrap());
    assert_eq!(node.acquire(&ours).unwrap(), [""; 0]);
    let error = node.acquire(&theirs).unwrap_err();
    assert!(
        matches!(&error, Error::InUse { device, owner, .. } if device == "pci address 0000:af:00.1" && *owner == ours.owner)
    );
    assert_eq!(node.owner(&theirs).as_deref(), Some("a@net1"));
    assert!(node.is_claimed_by_other(&theirs) && !node.is_claimed_by_other(&ours));
    assert!(node.is_claimed_by_other(&claim("a@net2", OWN_NETNS)), "another interface of the pod");
    assert!(node.claimed_at(&ours).is_some() && node.claimed_at(&theirs).is_none());
    assert!(ours.is_there(&node.state).unwrap() && !theirs.is_there(&node.state).unwrap());
    assert_eq!(ours.namespace().unwrap().unwrap().id(), ours.netns_id);
    let former = DeviceClaim { netns_id: NetNsId::new(4, 7), ..ours.clone() };
    assert!(former.namespace().unwrap().is_none(), "another namespace has its path");
    // A late revert of another attachment does not release it.
    theirs.revert(&node.state, soon()).unwrap();
    ours.verify(&node.state, soon()).unwrap();
    assert!(matches!(theirs.verify(&node.state, soon()), Err(Error::NotOwner { owner: Some(_), .. })));
    // The RDMA device is another part.
    let rdma = DeviceClaim { part: ClaimKind::Rdma, ..theirs };
    assert_eq!(node.acquire(&rdma).unwrap(), [""; 0]);
    assert_eq!(
        (node.owner(&ours).as_deref(), node.owner(&rdma).as_deref()),
        (Some("a@net1"), Some("b@net1"))
    );
    ours.revert(&node.state, soon()).unwrap();
    ours.revert(&node.state, soon()).unwrap();
    assert_eq!((node.owner(&ours), node.owner(&rdma).as_deref()), (None, Some("b@net1")));
}

#[test]
fn a_device_of_a_pod_that_is_gone_is_reverted_before_it_is_claimed() {
    let node = ClaimFixture::new();
    let (gone, ours) = (claim("gone@net1", "/nowhere/ns"), claim("b@net1", OWN_NETNS));
    node.acquire(&gone).unwrap();
    assert!(gone.namespace().unwrap().is_none());
    let failed = ours.acquire_on(node.dir.path(), &node.state, &soon, |_| {
        Err(Error::Contended { claim: "no".to_owned() })
    });
    assert!(failed.is_err() && node.owner(&ours).as_deref() == Some("gone@net1"), "it stays claimed");
    assert_eq!(node.acquire(&ours).unwrap(), ["gone@net1"]);
    assert_eq!(node.owner(&gone).as_deref(), Some("b@net1"));
    // The same attachment claims it again: there is nothing to revert.
    assert_eq!(node.acquire(&ours).unwrap(), [""; 0]);
    assert!(matches!(node.acquire(&gone), Err(Error::InUse { .. })));
}

#[test]
fn a_device_whose_owner_may_be_alive_is_in_use_although_the_path_of_its_namespace_is_missing() {
    let node = ClaimFixture::new();
    let (running, ours) = (claim("running@net1", "/proc/4711/ns/net"), claim("b@net1", OWN_NETNS));
    node.acquire(&running).unwrap();
    node.add_process();
    let Err(Error::InUse { evidence: Some(evidence), .. }) = node.acquire(&ours) else { panic!() };
    assert!(evidence.contains("/proc/4711/ns/net is gone, but"), "{evidence}");
    fs::remove_dir_all(node.dir.path().join("proc")).unwrap();
    let Err(Error::InUse { evidence: Some(evidence), .. }) = node.acquire(&ours) else { panic!() };
    assert!(evidence.contains("cannot determine which pods are running"), "{evidence}");
    assert_eq!(node.owner(&ours).as_deref(), Some("running@net1"));
}

#[test]
fn a_claim_of_an_earlier_boot_is_void() {
    let node = ClaimFixture::new();
    let unknown = Err(&NotOnNode::NotOnTheNode { is: String::new() });
    let (former, ours) = (of_earlier_boot(claim("a@net1", OWN_NETNS)), claim("b@net1", OWN_NETNS));
    assert!(former.reason_dead(unknown).is_some() && ours.reason_dead(unknown).is_none());
    node.acquire(&former).unwrap();
    assert!(node.owner(&former).is_none() && !node.is_claimed_by_other(&ours));
    assert!(node.claimed_at(&former).is_none());
    assert_eq!(node.acquire(&ours).unwrap(), [""; 0], "its settings are gone");
    assert_eq!(node.owner(&former).as_deref(), Some("b@net1"));
}

#[test]
fn files_that_are_no_claims_are_listed_apart() {
    let node = ClaimFixture::new();
    assert_eq!(list(&node.state, ClaimKind::Vf).unwrap(), (vec![], vec![]));
    let ours = claim("a@net1", OWN_NETNS);
    node.acquire(&ours).unwrap();
    let dir = node.state.root().join("vf");
    fs::copy(path(&node.state, ours.part, &ours.function), dir.join("0000:af:00.2")).unwrap();
    fs::write(dir.join("0000:af:00.3"), "{").unwrap();
    fs::create_dir(dir.join("0000:af:00.4")).unwrap();
    let (claims, mut others) = list(&node.state, ClaimKind::Vf).unwrap();
    others.sort();
    assert_eq!(claims, std::slice::from_ref(&ours));
    assert_eq!(others, ["0000:af:00.2", "0000:af:00.3", "0000:af:00.4"].map(|name| dir.join(name)));
    assert_eq!(list(&node.state, ClaimKind::Rdma).unwrap(), (vec![], vec![]));
    // A claim that cannot be parsed is quarantined, and the device can be claimed.
    let third = DeviceClaim { function: "0000:af:00.3".parse().unwrap(), ..ours };
    assert_eq!(node.acquire(&third).unwrap(), [""; 0]);
    assert_eq!(fs::read_to_string(dir.join("0000:af:00.3.bad")).unwrap(), "{");
    assert_eq!(node.owner(&third).as_deref(), Some("a@net1"));
}

#[test]
fn a_claim_is_removed_only_as_it_was_read() {
    let node = ClaimFixture::new();
    let (ours, later) = (claim("a@net1", "/nowhere/ns"), claim("a@net1", OWN_NETNS));
    assert!(ours.remove_when(&node.state, soon(), || panic!("there is no directory")).unwrap());
    node.acquire(&later).unwrap();
    // A later claim of the same attachment is another one.
    assert!(ours.remove_when(&node.state, soon(), || panic!("it is gone")).unwrap());
    assert!(!later.remove_when(&node.state, soon(), || Ok(false)).unwrap());
    assert!(later.is_there(&node.state).unwrap());
    assert!(later.remove_when(&node.state, soon(), || Ok(true)).unwrap());
    assert!(!later.is_there(&node.state).unwrap());
}
