//! The RDMA device that a pod shares with the node.
//!
//! In shared mode every RDMA device of the node is visible in every namespace. A macvlan or ipvlan link has
//! no RDMA device of its own; the kernel puts its addresses into the GID table of the device of its parent
//! (below a VLAN: of the VLAN's parent; below a bond: of a member, or of the bond itself). On InfiniBand the GIDs are those of
//! the port.

use std::{net::IpAddr, thread, time::Duration};

use cni::{AddResult, Error as CniError};
use plugin_runtime::{Error, Node};
use podmap::{AttachMode, GidInfo, RdmaInfo};
use rdma::PortState;
use rtnl::LinkLayer;
use sysfs::NoRoceV2;
use tracing::{info, warn};

use crate::{
    conf::SharedRdmaRequirement,
    error::ChildError,
    parent::Parent,
    ports::{self, SharedPort},
};

/// How long a pod waits for its GIDs if RDMA is not required: the time that an idle kernel needs.
const OPTIONAL_GID_TIMEOUT: Duration = Duration::from_millis(100);

/// The delay before a port that seems to have no RoCE v2 is checked again, if RDMA is required. The kernel adds the first
/// GIDs of a port one after the other, each by a firmware command.
const RECHECK_DELAY: Duration = Duration::from_millis(50);

/// The result of a wait.
struct GidWait<'a> {
    /// The port with the most of the addresses.
    port: &'a SharedPort,
    gids: Vec<GidInfo>,
    /// Why there will never be more GIDs.
    never: Option<NoRoceV2>,
    waited: Duration,
}

/// The ports whose GID tables get the pod's addresses.
pub(crate) struct SharedPorts {
    ports: Vec<SharedPort>,
    need: SharedRdmaRequirement,
    parent: String,
    layer: LinkLayer,
}

impl SharedPorts {
    /// Finds the RDMA ports below a parent; `None` if there are none and none are required.
    ///
    /// # Errors
    /// If RDMA is required and the node has none below the parent, or is in exclusive mode.
    pub(crate) fn find(
        node: &Node,
        parent: &Parent,
        need: SharedRdmaRequirement,
    ) -> Result<Option<Self>, Error> {
        let parent_name = parent.link.name.clone();
        let found = ports::shared_ports(node, parent);
        match (found, need) {
            (Ok(ports), _) if !ports.is_empty() => Ok(Some(Self { ports, need, parent: parent_name, layer: parent.link.layer() })),
            (Ok(_), SharedRdmaRequirement::Required(_)) => Err(ChildError::NoRdma(format!(
                "no RDMA device belongs to master {parent_name} (see `rdma link`): is its driver's RDMA part loaded?"
            ))
            .into()),
            (Err(error), SharedRdmaRequirement::Required(_)) => Err(ChildError::NoRdma(CniError::from(error).msg).into()),
            (Err(error), SharedRdmaRequirement::Optional) => {
                warn!(%error, "the pod starts without RDMA");
                Ok(None)
            }
            (Ok(_), SharedRdmaRequirement::Optional) => Ok(None),
        }
    }

    /// Waits until the pod's addresses are GIDs, and fills the pod map's entry.
    ///
    /// # Errors
    /// If RDMA is required and they do not become GIDs in time.
    pub(crate) fn wait_and_describe(
        &self,
        node: &Node,
        result: &AddResult,
        entry: &mut RdmaInfo,
    ) -> Result<(), Error> {
        if self.layer == LinkLayer::InfiniBand {
            return self.describe_infiniband(node, entry);
        }
        let addresses: Vec<IpAddr> = result.ips.iter().map(|ip| ip.address.ip()).collect();
        let found = match self.need {
            SharedRdmaRequirement::Optional => self.wait_for_gids(node, &addresses, OPTIONAL_GID_TIMEOUT)?,
            SharedRdmaRequirement::Required(timeout) => self.wait_for_gids(node, &addresses, timeout)?,
        };
        if found.gids.len() < addresses.len() {
            self.check_missing(&found, &addresses)?;
        }
        let GidWait { port, gids, .. } = found;
        entry.mode = AttachMode::Shared;
        entry.ibdev = Some(port.device.clone());
        entry.port = Some(port.number);
        entry.gids = gids;
        Ok(())
    }

    /// Waits until the port is active, if RDMA is required, and fills the pod map's entry. The GIDs of an InfiniBand port
    /// are its own: no address becomes one.
    fn describe_infiniband(&self, node: &Node, entry: &mut RdmaInfo) -> Result<(), Error> {
        let Some(port) = self.ports.first() else { return Ok(()) };
        if let SharedRdmaRequirement::Required(timeout) = self.need {
            self.wait_until_active(node, port, timeout)?;
        }
        let table = node.sysfs.gid_table(&port.device, port.number)?;
        let gids = table.entries.iter().map(|entry| GidInfo {
            index: entry.index,
            kind: entry.kind.name().into(),
            gid: entry.gid.to_string(),
        });
        entry.mode = AttachMode::Shared;
        entry.ibdev = Some(port.device.clone());
        entry.port = Some(port.number);
        entry.gids = gids.collect();
        Ok(())
    }

    fn wait_until_active(&self, node: &Node, port: &SharedPort, timeout: Duration) -> Result<(), Error> {
        let deadline = node.budget.until("the InfiniBand port to be active", timeout);
        loop {
            let state = node.rdma()?.find_device(&port.device)?;
            let ports = state.map(|device| node.rdma()?.ports(&device)).transpose()?.unwrap_or_default();
            let Some(now) = ports.into_iter().find(|now| now.port == port.number) else {
                return Err(ChildError::NoRdma(format!("RDMA device {} is gone", port.device)).into());
            };
            if now.state == PortState::Active {
                return Ok(());
            }
            if deadline.has_passed() {
                let waited = plugin_runtime::seconds(deadline.waited());
                return Err(ChildError::NoRdma(format!(
                    "port {} of {} (the RDMA device of master {}) is {:?} and did not become active within {waited}: \
                     is a subnet manager running?",
                    port.number, port.device, self.parent, now.state
                ))
                .into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the port that currently has the most of the addresses, and their GIDs.
    fn best_port(&self, node: &Node, addresses: &[IpAddr]) -> Result<(&SharedPort, Vec<GidInfo>), Error> {
        let mut best: Option<(&SharedPort, Vec<GidInfo>)> = None;
        for port in &self.ports {
            let gids = gids(node, port, addresses)?;
            if best.as_ref().is_none_or(|(_, most)| gids.len() > most.len()) {
                best = Some((port, gids));
            }
        }
        best.ok_or_else(|| {
            ChildError::NoRdma(format!("master {} has no RDMA device any more", self.parent)).into()
        })
    }

    /// Waits until every address is a GID, the deadline passes, or no address can become one. Returns the GIDs found.
    ///
    /// The kernel notifies only open uverbs contexts of the device about a new GID, and opening one needs the driver's
    /// library. So this polls the table, first often, then every 20 ms.
    fn wait_for_gids(
        &self,
        node: &Node,
        addresses: &[IpAddr],
        timeout: Duration,
    ) -> Result<GidWait<'_>, Error> {
        let deadline = node.budget.until("the GIDs of the pod's addresses", timeout);
        let (mut delay, mut suspected) = (Duration::from_micros(200), false);
        loop {
            let (port, gids) = self.best_port(node, addresses)?;
            if gids.len() >= addresses.len() {
                return Ok(GidWait { port, gids, never: None, waited: deadline.waited() });
            }
            let never = self.reason_unavailable(node)?;
            let is_sure = never.is_some() && (suspected || self.need == SharedRdmaRequirement::Optional);
            if is_sure || deadline.has_passed() {
                return Ok(GidWait { port, gids, never, waited: deadline.waited() });
            }
            suspected = never.is_some();
            thread::sleep(if suspected { RECHECK_DELAY } else { delay });
            delay = (delay * 2).min(Duration::from_millis(20));
        }
    }

    /// Returns why no address can become a GID of any of the ports; `None` if one can.
    fn reason_unavailable(&self, node: &Node) -> Result<Option<NoRoceV2>, Error> {
        let mut never = None;
        for port in &self.ports {
            match node.sysfs.lacks_roce_v2(&port.device, port.number)? {
                None => return Ok(None),
                reason => never = reason,
            }
        }
        Ok(never)
    }

    /// Reports the addresses that are not GIDs: as an error if RDMA is required, else in the log.
    fn check_missing(&self, found: &GidWait<'_>, addresses: &[IpAddr]) -> Result<(), Error> {
        let has = |address: &IpAddr| found.gids.iter().any(|gid| gid.gid == as_gid(*address).to_string());
        let missing: Vec<String> = addresses.iter().filter(|a| !has(a)).map(ToString::to_string).collect();
        let (missing, device, number, master) =
            (missing.join(", "), &found.port.device, found.port.number, &self.parent);
        match (self.need, found.never) {
            (SharedRdmaRequirement::Required(_), None) => {}
            (SharedRdmaRequirement::Required(_), Some(never)) => {
                return Err(ChildError::NoRdma(format!(
                    "address {missing} cannot become a RoCE v2 GID of {device} port {number} (the RDMA device of \
                     master {master}): {never}"
                ))
                .into());
            }
            (SharedRdmaRequirement::Optional, Some(never)) => {
                info!(%device, "no address of the pod is a GID of the shared RDMA device: {never}");
                return Ok(());
            }
            (SharedRdmaRequirement::Optional, None) => {
                warn!(%missing, %device, "an address of the pod is not a GID of the shared RDMA device (yet)");
                return Ok(());
            }
        }
        let (device, port, master) = (device.clone(), number, master.clone());
        let waited = plugin_runtime::seconds(found.waited);
        Err(ChildError::NoGid { missing, device, port, master, waited }.into())
    }
}

/// Returns the RoCE v2 GIDs of a port that are addresses of the pod.
fn gids(node: &Node, port: &SharedPort, addresses: &[IpAddr]) -> Result<Vec<GidInfo>, Error> {
    let mut gids = Vec::new();
    for address in addresses {
        if let Some(index) = node.sysfs.find_gid(&port.device, port.number, *address)? {
            let gid = as_gid(*address).to_string();
            gids.push(GidInfo { index, kind: "RoCE v2".into(), gid });
        }
    }
    Ok(gids)
}

/// Returns an address as a GID; IPv4 as an IPv4-mapped IPv6 address.
fn as_gid(address: IpAddr) -> std::net::Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

#[cfg(test)]
mod tests;
