//! Reads devices from sysfs.

use std::collections::BTreeSet;

use identifiers::{LinkName, PciAddress, VfIndex};
use sysfs::{AuxiliaryName, Error, Function, Sysfs};

use crate::{LinkType, NodeDevice, PciPath, PhysicalFunction, PortState};

/// `ARPHRD_ETHER` and `ARPHRD_INFINIBAND` of `linux/if_arp.h`.
const ETHERNET: u32 = 1;
const INFINIBAND: u32 = 32;

/// `IB_PORT_ACTIVE` of `enum ib_port_state`.
const RDMA_ACTIVE: u32 = 4;

/// Reads one device after the other.
pub(crate) struct DeviceReader<'a> {
    pub(crate) sysfs: &'a Sysfs,
    /// The links that the node's default routes use.
    pub(crate) default_routes: &'a BTreeSet<LinkName>,
}

impl DeviceReader<'_> {
    /// Reads a PF or a VF.
    pub(crate) fn network_function(&self, pci: PciAddress) -> Result<NodeDevice, Error> {
        let pf = self.sysfs.pf_of(pci)?;
        let index = pf.map(|_| self.sysfs.vf_index(pci)).transpose()?;
        let links = match pf {
            Some(_) => self.sysfs.links(&pci.into())?,
            None => self.pf_link(pci)?.into_iter().collect(),
        };
        let device = self.function(&pci.into(), pci, links, pf.map(|pci| (pci, index)))?;
        let port = self.port(pf.unwrap_or(pci))?;
        Ok(NodeDevice { num_vfs: self.sysfs.num_vfs(pci)?, port, ..device })
    }

    /// Reads a scalable function.
    pub(crate) fn scalable_function(&self, name: &AuxiliaryName) -> Result<Option<NodeDevice>, Error> {
        let Some(card) = self.sysfs.pf_of_scalable(name)? else { return Ok(None) };
        let function = Function::Auxiliary(name.clone());
        let number = self.sysfs.scalable_function_number(name)?.map(VfIndex);
        let device = self.function(&function, card, self.sysfs.links(&function)?, Some((card, number)))?;
        let port = self.port(card)?;
        let auxiliary_type = name.device_type().map(str::to_owned);
        let card_driver = self.sysfs.driver(&card.into())?;
        Ok(Some(NodeDevice { auxiliary_type, card_driver, port, ..device }))
    }

    /// Reads a software RDMA device.
    pub(crate) fn software_device(&self, rdma: String) -> Result<NodeDevice, Error> {
        let link = self.sysfs.rdma_link(&rdma)?.and_then(|link| link.parse::<LinkName>().ok());
        let links: Vec<_> = link.into_iter().collect();
        Ok(NodeDevice {
            id: rdma.clone(),
            function: None,
            pci_id: None,
            driver: self.sysfs.rdma_driver(&rdma)?,
            card_driver: None,
            bond: self.bond(&links)?,
            link_type: self.link_type(&links)?,
            has_default_route: self.has_default_route(&links)?,
            links,
            pf: None,
            rail: None,
            index: None,
            num_vfs: 0,
            char_devices: self.sysfs.software_char_devices(&rdma)?,
            rdma: vec![rdma],
            numa_node: None,
            path: None,
            auxiliary_type: None,
            acpi_index: None,
            pkey: None,
            port: None,
            user_space: None,
            unreadable: None,
            selector: None,
            is_unselected: false,
        })
    }

    fn function(
        &self,
        function: &Function,
        card: PciAddress,
        links: Vec<LinkName>,
        parent: Option<(PciAddress, Option<VfIndex>)>,
    ) -> Result<NodeDevice, Error> {
        let sysfs = self.sysfs;
        let pf = parent
            .map(|(pci, _)| self.pf_link(pci).map(|link| PhysicalFunction { pci, link }))
            .transpose()?;
        let rdma = sysfs.rdma_devices(function)?;
        // A link in a pod has the layer of the port, and so has its PF.
        let pf_link: Vec<_> = pf.iter().filter_map(|pf| pf.link.clone()).collect();
        let link_type =
            self.link_type(&links)?.map_or_else(|| self.link_type(&pf_link), |it| Ok(Some(it)))?;
        // RoCE devices have a table of partitions too, with the default one only.
        let infiniband = rdma.first().filter(|_| link_type == Some(LinkType::InfiniBand));
        let pkey = infiniband.map(|device| sysfs.default_pkey(device, 1)).transpose()?.flatten();
        Ok(NodeDevice {
            id: function.to_string(),
            function: Some(function.clone()),
            pci_id: sysfs.pci_id(card)?,
            driver: sysfs.driver(function)?,
            card_driver: None,
            user_space: sysfs.user_space_nodes(function)?,
            unreadable: None,
            selector: None,
            is_unselected: false,
            bond: self.bond(&links)?,
            link_type,
            has_default_route: self.has_default_route(&links)?,
            links,
            pf,
            index: parent.and_then(|(_, index)| index),
            num_vfs: 0,
            char_devices: sysfs.char_devices(function)?.into_iter().map(|(name, _)| name).collect(),
            rdma,
            rail: None,
            numa_node: sysfs
                .numa_node(function)?
                .map_or_else(|| sysfs.numa_node(&card.into()), |it| Ok(Some(it)))?,
            path: sysfs.directory(function)?.and_then(|path| PciPath::of(&path)),
            auxiliary_type: None,
            acpi_index: sysfs.acpi_index(function)?,
            port: None,
            pkey: pkey.and_then(|text| text.parse().ok()),
        })
    }

    /// Returns the state of a PF's port: that of its RDMA device, or else that of its bond or link. VFs share it.
    ///
    /// mlx5 has one RDMA device for the ports of a LAG (`mlx5_do_bond` in lag/lag.c), and VFs use those that are up. Its RDMA
    /// devices report the state of the bond (`mlx5_query_port_roce` in main.c).
    fn port(&self, pf: PciAddress) -> Result<Option<PortState>, Error> {
        if let [device, ..] = &self.sysfs.rdma_devices(&pf.into())?[..]
            && let Some(state) = self.sysfs.rdma_port_state(device, 1)?
        {
            return Ok(Some(PortState { name: device.clone(), is_up: state == RDMA_ACTIVE }));
        }
        let Some(link) = self.pf_link(pf)? else { return Ok(None) };
        let master = self.sysfs.master(&link)?.and_then(|master| master.parse::<LinkName>().ok());
        let link = match master {
            Some(bond) if self.sysfs.is_bond(&bond)? => bond,
            _ => link,
        };
        let state = self.sysfs.operational_state(&link)?;
        let is_up = state.filter(|state| state != "unknown").map(|state| state == "up");
        Ok(is_up.map(|is_up| PortState { name: link.to_string(), is_up }))
    }

    fn pf_link(&self, pci: PciAddress) -> Result<Option<LinkName>, Error> {
        match self.sysfs.pf_link(pci) {
            Ok(link) => Ok(Some(link)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn link_type(&self, links: &[LinkName]) -> Result<Option<LinkType>, Error> {
        let Some(link) = links.first() else { return Ok(None) };
        Ok(match self.sysfs.hardware_type(link)? {
            Some(ETHERNET) => Some(LinkType::Ethernet),
            Some(INFINIBAND) => Some(LinkType::InfiniBand),
            _ => None,
        })
    }

    /// Returns the bonds of links and their other members.
    fn bond(&self, links: &[LinkName]) -> Result<Vec<LinkName>, Error> {
        let mut bond = Vec::new();
        for link in links {
            let Some(master) = self.sysfs.master(link)?.and_then(|master| master.parse::<LinkName>().ok())
            else {
                continue;
            };
            let members = self.sysfs.lowers(&master)?.into_iter().filter_map(|name| name.parse().ok());
            bond.extend(members.filter(|member| member != link));
            bond.push(master);
        }
        Ok(bond)
    }

    fn has_default_route(&self, links: &[LinkName]) -> Result<bool, Error> {
        Ok(links.iter().chain(&self.bond(links)?).any(|link| self.default_routes.contains(link)))
    }
}
