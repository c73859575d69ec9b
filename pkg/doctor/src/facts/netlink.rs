//! Facts that are only available over netlink: the RDMA mode, RDMA drivers, the links of ports, addresses.

use std::collections::BTreeMap;

use identifiers::LinkName;
use ipnetwork::IpNetwork;
use rdma::{Handle, NetnsMode};
use sysfs::Sysfs;

use super::ExaminationScope;
use crate::host_root::HostRoot;

/// The data from netlink; all empty if netlink could not be queried.
#[derive(Debug, Default)]
pub(crate) struct NetlinkFacts {
    pub(crate) mode: Option<Result<NetnsMode, rdma::Error>>,
    /// RDMA device → driver.
    pub(crate) drivers: BTreeMap<String, String>,
    /// RDMA device and port → link.
    pub(crate) links: BTreeMap<(String, u32), String>,
    rtnl: Option<rtnl::Handle>,
}

impl NetlinkFacts {
    pub(crate) fn query(tree: &HostRoot, look: &ExaminationScope) -> Self {
        if !look.can_query_netlink() {
            let why = if look.this_machine {
                "this process is not in the host's network namespace"
            } else {
                "the root directory does not belong to the running kernel"
            };
            tree.note_unexamined("data from netlink (addresses, drivers of software devices)", why);
            return Self::default();
        }
        let mut facts = Self::default();
        match rdma::Handle::open(&Sysfs::at(tree.path("sys"))) {
            Ok(rdma) => facts.query_rdma(tree, &rdma),
            Err(rdma::Error::NoRdma) => {}
            Err(error) => tree.note_unexamined("RDMA devices", error),
        }
        match rtnl::Handle::open() {
            Ok(handle) => facts.rtnl = Some(handle),
            Err(error) => tree.note_unexamined("addresses of links", error),
        }
        facts
    }

    fn query_rdma(&mut self, tree: &HostRoot, rdma: &Handle) {
        let mode = rdma.netns_mode();
        if let Err(error) = &mode {
            tree.note_unexamined("the RDMA mode", error);
        }
        self.mode = Some(mode);
        let devices = rdma.devices().unwrap_or_else(|error| {
            tree.note_unexamined("RDMA devices", error);
            Vec::new()
        });
        for device in devices {
            // An error is ignored: a device without a uverbs device has no driver to report.
            if let Ok(Some(driver)) = rdma.driver(&device) {
                self.drivers.insert(device.name.clone(), driver.to_owned());
            }
            match rdma.ports(&device) {
                Ok(ports) => self.links.extend(
                    ports
                        .into_iter()
                        .filter_map(|port| Some(((port.device_name, port.port), port.link_name?))),
                ),
                Err(error) if error.is_not_found() => {} // moved to a pod in the meantime
                Err(error) => tree.note_unexamined(format!("ports of {}", device.name), error),
            }
        }
    }

    /// Returns the addresses of a link, and those of them for which duplicate address detection failed.
    pub(crate) fn addresses(&self, link: &str) -> Option<(Vec<IpNetwork>, Vec<IpNetwork>)> {
        let (handle, index) = self.link(link)?;
        let (_, duplicates) = handle.unchecked_addresses(index).ok()?;
        Some((handle.addresses(index).ok()?, duplicates))
    }

    /// Returns the addresses of a link that an administrator assigned.
    pub(crate) fn permanent_addresses(&self, link: &str) -> Vec<IpNetwork> {
        self.link(link).and_then(|(handle, index)| handle.permanent_addresses(index).ok()).unwrap_or_default()
    }

    /// Returns the altnames of a link.
    pub(crate) fn altnames(&self, link: &str) -> Vec<String> {
        self.find(link).map(|(_, link)| link.altnames).unwrap_or_default()
    }

    fn link(&self, link: &str) -> Option<(&rtnl::Handle, u32)> {
        self.find(link).map(|(handle, link)| (handle, link.index))
    }

    fn find(&self, link: &str) -> Option<(&rtnl::Handle, rtnl::Link)> {
        let handle = self.rtnl.as_ref()?;
        let name: LinkName = link.parse().ok()?;
        Some((handle, handle.link(&name).ok()?))
    }
}
