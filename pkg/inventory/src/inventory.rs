//! Reads the inventory of a node.

use identifiers::{LinkName, PciAddress, VfIndex};
use rtnl::{Link, LinkLayer, VfSettings};
use serde::Serialize;
use sysfs::{Function, Sysfs};

use crate::{
    Error, NodePaths, PciIds, Pf, PfLink, ProtectionReason, Vf,
    links::HostLinks,
    vf_users::{FunctionView, UsageEvidence, kernel_users},
};

/// The PFs of a node, in the order of their PCI addresses.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Inventory {
    /// The PFs.
    pub pfs: Vec<Pf>,
}

impl Inventory {
    /// Reads the inventory. The caller must be in the node's network namespace.
    ///
    /// # Errors
    /// [`Error`] if anything cannot be read: a VF must not be taken for free without all evidence.
    pub fn read(node: &NodePaths) -> Result<Self, Error> {
        let sysfs = node.sysfs();
        let (links, evidence) = (HostLinks::read()?, UsageEvidence::read(node)?);
        let reader = InventoryReader { node, sysfs: &sysfs, links: &links, evidence: &evidence };
        let mut pfs = Vec::new();
        for function in sysfs.network_functions()? {
            if sysfs.pf_of(function)?.is_none() {
                pfs.push(reader.pf(function)?);
            }
        }
        Ok(Self { pfs })
    }

    /// Finds a PF by the name of its link, its PCI address, or the name of its RDMA device.
    pub fn find(&self, name: &str) -> Option<&Pf> {
        let address: Option<PciAddress> = name.parse().ok();
        self.pfs.iter().find(|pf| {
            Some(pf.pci) == address
                || pf.link.as_ref().is_some_and(|link| link.name.as_str() == name)
                || pf.rdma.iter().any(|device| device == name)
        })
    }
}

/// Reads one function at a time.
struct InventoryReader<'a> {
    node: &'a NodePaths,
    sysfs: &'a Sysfs,
    links: &'a HostLinks,
    evidence: &'a UsageEvidence,
}

impl InventoryReader<'_> {
    fn pf(&self, pci: PciAddress) -> Result<Pf, Error> {
        let (sysfs, function) = (self.sysfs, Function::Pci(pci));
        let name = match sysfs.pf_link(pci) {
            Ok(name) => Some(name),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let (driver, rdma) = (sysfs.driver(&function)?, sysfs.rdma_devices(&function)?);
        let seen = FunctionView { pci, driver: driver.as_deref(), link: name.as_ref(), rdma: &rdma };
        let users = self.evidence.of_pf(&seen)?;
        let link = name.and_then(|name| self.links.find(&name).map(|link| PfLink::of(name, link)));
        Ok(Pf {
            pci,
            ids: sysfs.pci_id(pci)?.map(PciIds::from),
            driver,
            guid: self.guid(&rdma)?,
            total_vfs: sysfs.total_vfs(pci)?,
            num_vfs: sysfs.num_vfs(pci)?,
            autoprobe: sysfs.autoprobe(pci)?,
            protections: self.protections(link.as_ref(), &rdma)?,
            vfs: self.vfs(pci, link.as_ref())?,
            link,
            rdma,
            users,
        })
    }

    fn guid(&self, rdma: &[String]) -> Result<Option<u64>, Error> {
        let text = rdma.first().map(|device| self.sysfs.node_guid(device)).transpose()?.flatten();
        let number = text.and_then(|text| u64::from_str_radix(&text.replace(':', ""), 16).ok());
        Ok(number.filter(|guid| *guid != 0))
    }

    fn protections(&self, link: Option<&PfLink>, rdma: &[String]) -> Result<Vec<ProtectionReason>, Error> {
        let mut found = Vec::new();
        if let Some(PfLink { index, name, .. }) = link {
            if self.links.default_routes.contains(index) {
                found.push(ProtectionReason::DefaultRoute { link: name.clone() });
            }
            if let Some(master) = self.sysfs.master(name)? {
                // The default route may use the bond or bridge.
                found.push(ProtectionReason::Member { link: name.clone(), master });
            }
        }
        found.extend(kernel_users(self.node, rdma)?);
        Ok(found)
    }

    fn vfs(&self, pf: PciAddress, link: Option<&PfLink>) -> Result<Vec<Vf>, Error> {
        let settings = match link {
            Some(link) if self.sysfs.num_vfs(pf)? > 0 => self.links.handle.vfs(link.index)?,
            _ => Vec::new(),
        };
        let of = |index| settings.iter().find(|(number, _)| *number == index).map(|(_, vf)| vf.clone());
        let representors = self.sysfs.representors(pf)?;
        let mut vfs = Vec::new();
        for index in (0..self.sysfs.num_vfs(pf)?).map(VfIndex) {
            let Some(pci) = self.sysfs.vf(pf, index)? else { continue };
            let mut vf = self.vf(pci, index, of(index))?;
            for (_, link) in representors.iter().filter(|(number, _)| *number == index) {
                let master = self.sysfs.master(link)?;
                vf.users
                    .extend(master.map(|master| crate::VfUser::Representor { link: link.clone(), master }));
            }
            vfs.push(vf);
        }
        Ok(vfs)
    }

    fn vf(&self, pci: PciAddress, index: VfIndex, settings: Option<VfSettings>) -> Result<Vf, Error> {
        let function = Function::Pci(pci);
        let name = self.sysfs.links(&function)?.into_iter().next();
        let link = name.as_ref().and_then(|name| self.links.find(name));
        let rdma = self.sysfs.rdma_devices(&function)?.into_iter().next();
        let node_guid = rdma.as_ref().map(|device| self.sysfs.node_guid(device)).transpose()?.flatten();
        let mut vf = Vf {
            index,
            pci,
            driver: self.sysfs.driver(&function)?,
            mac: link.and_then(|link| link.mac),
            mtu: link.map(|link| link.mtu),
            link: name,
            rdma,
            node_guid,
            settings,
            users: Vec::new(),
        };
        vf.users = self.evidence.of(&vf, self.links)?;
        Ok(vf)
    }
}

impl PfLink {
    fn of(name: LinkName, link: &Link) -> Self {
        let infiniband = link.layer() == LinkLayer::InfiniBand;
        let permanent_mac = link.permanent_mac.filter(|mac| !mac.is_zero());
        Self { index: link.index, name, mac: link.mac, permanent_mac, mtu: link.mtu, up: link.up, infiniband }
    }
}

impl From<sysfs::PciId> for PciIds {
    fn from(id: sysfs::PciId) -> Self {
        Self { vendor: format!("{:04x}", id.vendor), device: format!("{:04x}", id.device) }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use identifiers::Attachment;

    use super::*;
    use crate::{VfUser, test_fixture::InventoryFixture};

    fn read(tree: &InventoryFixture) -> Pf {
        let node = NodePaths {
            root: tree.root().to_owned(),
            state: state::StateDir::at(tree.root().join("run/silkrail")),
        };
        let mut pfs = Inventory::read(&node).unwrap().pfs;
        assert_eq!(pfs.len(), 1, "VFs are not listed as PFs");
        pfs.remove(0)
    }

    #[test]
    fn a_pf_has_its_vfs_and_they_are_free() {
        let pf = read(&InventoryFixture::new());
        assert_eq!((pf.total_vfs, pf.num_vfs, pf.autoprobe), (8, 2, Some(true)));
        assert_eq!(pf.vfs.iter().map(|vf| vf.index).collect::<Vec<_>>(), [VfIndex(0), VfIndex(1)]);
        assert_eq!(pf.used_vfs().count(), 0);
    }

    #[test]
    fn a_pf_whose_link_is_in_a_pod_is_used() {
        let tree = InventoryFixture::new();
        let mut expected = vec![VfUser::LinkElsewhere { driver: "mlx5_core".into() }];
        assert_eq!(read(&tree).users, expected);
        fs::create_dir_all(tree.dir("0000:af:00.0").join("infiniband_verbs/uverbs0")).unwrap();
        expected.push(VfUser::RdmaElsewhere { uverbs: "uverbs0".into() });
        assert_eq!(read(&tree).users, expected);
        fs::create_dir_all(tree.dir("0000:af:00.0").join("infiniband/mlx5_0")).unwrap();
        fs::create_dir_all(tree.dir("0000:af:00.0").join("net/silkrail-none9")).unwrap();
        assert!(read(&tree).users.is_empty());
    }

    #[test]
    fn a_vf_whose_link_is_in_another_namespace_is_used() {
        let tree = InventoryFixture::new();
        fs::remove_dir_all(tree.dir("0000:af:00.3").join("net")).unwrap();
        assert_eq!(read(&tree).vfs[1].users, [VfUser::LinkElsewhere { driver: "mlx5_core".into() }]);
        for driver in ["vfio-pci", "mlx5_vfio_pci", "uio_pci_generic", "igb_uio", "pci-stub"] {
            tree.bind("0000:af:00.3", driver);
            assert!(
                read(&tree).vfs[1].is_free(),
                "{driver}: no process has it open, and no link is expected"
            );
        }
    }

    #[test]
    fn a_vf_whose_rdma_device_is_in_another_namespace_is_used() {
        let tree = InventoryFixture::new();
        fs::create_dir_all(tree.dir("0000:af:00.2").join("infiniband_verbs/uverbs7")).unwrap();
        assert_eq!(read(&tree).vfs[0].users, [VfUser::RdmaElsewhere { uverbs: "uverbs7".into() }]);
        fs::create_dir_all(tree.dir("0000:af:00.2").join("infiniband/mlx5_7")).unwrap();
        assert!(read(&tree).vfs[0].is_free());
    }

    #[test]
    fn a_link_on_top_of_a_vf_uses_it() {
        let tree = InventoryFixture::new();
        let link = tree.root().join("sys/class/net/silkrail-none0");
        fs::create_dir_all(&link).unwrap();
        symlink("../mac0", link.join("upper_mac0")).unwrap();
        let expected = VfUser::Upper { link: "silkrail-none0".parse().unwrap(), upper: "mac0".into() };
        assert_eq!(read(&tree).vfs[0].users, [expected]);
    }

    #[test]
    fn a_pf_that_belongs_to_a_bond_is_protected_and_not_used_by_it() {
        let tree = InventoryFixture::new();
        fs::create_dir_all(tree.dir("0000:af:00.0").join("net/lo")).unwrap();
        let link = tree.root().join("sys/class/net/lo");
        fs::create_dir_all(&link).unwrap();
        for name in ["master", "upper_bond0", "upper_macvlan0"] {
            symlink(format!("../{}", name.replace("upper_", "").replace("master", "bond0")), link.join(name))
                .unwrap();
        }
        let (pf, name) = (read(&tree), || "lo".parse().unwrap());
        assert_eq!(pf.protections, [ProtectionReason::Member { link: name(), master: "bond0".into() }]);
        assert_eq!(pf.users, [VfUser::Upper { link: name(), upper: "macvlan0".into() }]);
    }

    #[test]
    fn a_pod_on_a_vlan_of_a_bridge_with_a_bond_of_a_vf_uses_the_vf() {
        let tree = InventoryFixture::new();
        let class = tree.root().join("sys/class/net");
        let chain = ["silkrail-none1", "silkrail-bond", "silkrail-br", "silkrail-b.7"];
        for (link, upper) in chain.into_iter().zip(&chain[1..]) {
            fs::create_dir_all(class.join(link)).unwrap();
            symlink(format!("../{upper}"), class.join(link).join(format!("upper_{upper}"))).unwrap();
        }
        let attachment: Attachment = "pod@net1".parse().unwrap();
        let mut entry = podmap::Entry::new("macvlan", attachment.clone());
        entry.rdma.master = Some("silkrail-b.7".into());
        state::StateDir::at(tree.root().join("run/silkrail")).podmap().write(&attachment, &entry).unwrap();
        let [first, second] = &read(&tree).vfs[..] else { panic!("two VFs") };
        assert!(first.is_free() && second.users.contains(&VfUser::Attachment { attachment }), "{second:?}");
    }

    #[test]
    fn a_pf_is_found_by_any_of_its_names() {
        let tree = InventoryFixture::new();
        let mut pf = read(&tree);
        pf.rdma = vec!["mlx5_0".into(), "mlx5_1".into()];
        pf.link = Some(PfLink {
            index: 7,
            name: "ens6f0np0".parse().unwrap(),
            mac: None,
            permanent_mac: None,
            mtu: 1500,
            up: true,
            infiniband: false,
        });
        let other = Pf { pci: "0000:b0:00.0".parse().unwrap(), link: None, rdma: Vec::new(), ..pf.clone() };
        let inventory = Inventory { pfs: vec![other, pf] };
        for name in ["0000:af:00.0", "ens6f0np0", "mlx5_0", "mlx5_1"] {
            let found = inventory.find(name).map(|pf| pf.pci.to_string());
            assert_eq!(found.as_deref(), Some("0000:af:00.0"), "{name}");
        }
        assert!(inventory.find("mlx5_2").is_none() && inventory.find("0000:af:00.2").is_none());
    }

    #[test]
    fn a_vf_lacks_a_guid_while_it_is_zero() {
        let mut vf = read(&InventoryFixture::new()).vfs.remove(0);
        for (guid, lacks) in
            [(None, false), (Some("0000:0000:0000:0000"), true), (Some("0000:0000:0000:0100"), false)]
        {
            vf.node_guid = guid.map(str::to_owned);
            assert_eq!(vf.lacks_guid(), lacks, "{guid:?}");
        }
    }

    #[test]
    fn a_vf_whose_representor_is_in_a_bridge_is_used() {
        let tree = InventoryFixture::new();
        for (name, port) in [("p0", "p0\n"), ("rep1", "pf0vf1\n")] {
            fs::create_dir_all(tree.dir("0000:af:00.0").join("net").join(name)).unwrap();
            let class = tree.root().join("sys/class/net").join(name);
            fs::create_dir_all(&class).unwrap();
            fs::write(class.join("phys_port_name"), port).unwrap();
        }
        assert!(read(&tree).vfs[1].is_free());
        symlink("../br-ext", tree.root().join("sys/class/net/rep1/master")).unwrap();
        let expected = VfUser::Representor { link: "rep1".parse().unwrap(), master: "br-ext".into() };
        assert_eq!(read(&tree).vfs[1].users, [expected]);
    }
}
