//! A node whose devices are files, a link, and a kind of link, for tests.

use std::{fs, os::unix::fs::symlink};

use cni::{CallContext, Error};
use identifiers::{HardwareAddr, LinkName, MacAddr};
use plugin_runtime::{Node, policy::ResourceUses};
use rtnl::{Link, LinkMessage, LinkSettings};
use state::StateDir;
use sysfs::Sysfs;
use tempfile::TempDir;

use crate::ChildLinkKind;

/// A node with RDMA in shared mode, and no devices.
pub(crate) struct NodeFixture {
    pub(crate) node: Node,
    root: TempDir,
}

impl NodeFixture {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(StateDir::at(root.path().join("state")), Vec::new(), None);
        node.sysfs = Sysfs::at(root.path());
        let this = Self { node, root };
        this.file("module/ib_core/parameters/netns_mode", "Y");
        fs::create_dir_all(this.root.path().join("class/infiniband")).unwrap();
        this
    }

    pub(crate) fn file(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    pub(crate) fn symlink(&self, target: &str, path: &str) {
        symlink(target, self.root.path().join(path)).unwrap();
    }

    /// Adds a link of a function.
    pub(crate) fn link(&self, name: &str, function: &str) {
        let device = format!("bus/pci/devices/{function}");
        self.file(&format!("{device}/net/{name}/ifindex"), "7");
        fs::create_dir_all(self.root.path().join("class/net").join(name)).unwrap();
        let _ = symlink("../../../bus/pci", self.root.path().join(&device).join("subsystem"));
        let target = format!("../../../{device}");
        symlink(target, self.root.path().join(format!("class/net/{name}/device"))).unwrap();
    }

    /// Puts a link on others.
    pub(crate) fn lowers(&self, upper: &str, lowers: &[&str]) {
        for lower in lowers {
            self.file(&format!("class/net/{upper}/lower_{lower}/any"), "");
        }
    }

    /// Adds an RDMA device of a function, with a port of each number.
    pub(crate) fn device(&self, name: &str, function: &str, ports: &[u32]) {
        self.file(&format!("bus/pci/devices/{function}/infiniband/{name}/any"), "");
        for port in ports {
            self.file(&format!("class/infiniband/{name}/ports/{port}/link_layer"), "Ethernet");
        }
    }

    /// Writes the GID table of port 1 of a device: GIDs with the types of sysfs.
    pub(crate) fn gids(&self, device: &str, gids: &[(&str, &str)]) {
        for (index, (gid, kind)) in gids.iter().enumerate() {
            self.file(&format!("class/infiniband/{device}/ports/1/gids/{index}"), gid);
            self.file(&format!("class/infiniband/{device}/ports/1/gid_attrs/types/{index}"), kind);
        }
    }
}

/// Returns a physical Ethernet link.
pub(crate) fn link(index: u32, name: &str) -> Link {
    Link {
        index,
        name: name.into(),
        altnames: Vec::new(),
        kind: None,
        hardware: rtnl::ETHERNET,
        address: HardwareAddr::default(),
        mac: None,
        permanent_mac: None,
        mtu: 1500,
        up: true,
        running: true,
        parent: None,
        parent_netns: None,
        controller: None,
        device: None,
        settings: LinkSettings::default(),
    }
}

/// A kind of link that needs addresses and can follow another plugin.
pub(crate) struct ChainedKind;

impl ChildLinkKind for ChainedKind {
    const NAME: &'static str = "chained";
    const CONFLICTING: Option<&'static str> = None;
    const LAYER_2: bool = false;
    const CHAINED: bool = true;
    type Mode = ();

    fn mode(&self, _: &CallContext<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn add_uses((): &(), _: &mut ResourceUses) {}

    fn has_own_mac((): &()) -> bool {
        false
    }

    fn mac(&self, _: &CallContext<'_>) -> Result<Option<MacAddr>, Error> {
        Ok(None)
    }

    fn message(&self, _: &LinkName, _: &Link, (): &()) -> LinkMessage {
        LinkMessage::default()
    }

    fn is(_: &Link) -> bool {
        true
    }

    fn difference(&self, _: &Link, (): &()) -> Option<String> {
        None
    }
}
