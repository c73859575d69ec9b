//! The RDMA device that a pod shares with the node.
//!
//! In shared mode every RDMA device of the node is visible in every namespace. A macvlan or ipvlan link has
//! no RDMA device of its own; the kernel puts its addresses into the GID table of the device of its parent
//! (below a VLAN: of the VLAN's parent; below a bond: of a member, or of the bond itself).

use std::{
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

use cni::{AddResult, Code, Error as CniError};
use plugin::{Error, Node};
use podmap::{Gid, Mode, Rdma};
use rdma::{NetnsMode, Port, Socket};
use rtnl::{Kind as LinkKind, Link};

use tracing::warn;

use crate::{conf::RdmaNeed, parent::Parent};

/// How long a pod waits for its GIDs when RDMA is not required: as long as an idle kernel needs.
const BRIEFLY: Duration = Duration::from_millis(100);

/// The ports whose GID tables get the pod's addresses.
pub(crate) struct Sharing {
    ports: Vec<Port>,
    need: RdmaNeed,
    parent: String,
}

impl Sharing {
    /// Finds the RDMA ports below a parent; `None` if there are none and none are required.
    ///
    /// # Errors
    /// If RDMA is required and the node has none below the parent, or is in exclusive mode.
    pub(crate) fn find(node: &Node, parent: &Parent, need: RdmaNeed) -> Result<Option<Self>, Error> {
        let parent_name = parent.link.name.clone();
        let found = shared_ports(node, parent);
        match (found, need) {
            (Ok(ports), _) if !ports.is_empty() => Ok(Some(Self { ports, need, parent: parent_name })),
            (Ok(_), RdmaNeed::Required(_)) => Err(refusal(format!(
                "no RDMA device belongs to master {parent_name} (see `rdma link`): is its driver's RDMA part loaded?"
            ))),
            (Err(error), RdmaNeed::Required(_)) => Err(refusal(CniError::from(error).msg)),
            (Err(error), RdmaNeed::Optional) => {
                warn!(%error, "the pod will have no RDMA");
                Ok(None)
            }
            (Ok(_), RdmaNeed::Optional) => Ok(None),
        }
    }

    /// Waits until the pod's addresses are GIDs, and fills the pod map's entry.
    ///
    /// # Errors
    /// If RDMA is required and they do not become GIDs in time.
    pub(crate) fn describe(&self, node: &Node, result: &AddResult, entry: &mut Rdma) -> Result<(), Error> {
        let addresses: Vec<IpAddr> = result.ips.iter().map(|ip| ip.address.ip()).collect();
        let (port, gids) = match self.need {
            RdmaNeed::Optional => self.wait(node, &addresses, BRIEFLY)?,
            RdmaNeed::Required(timeout) => self.wait(node, &addresses, timeout)?,
        };
        if gids.len() < addresses.len() {
            self.late(port, &addresses, &gids)?;
        }
        entry.mode = Mode::Shared;
        entry.ibdev = Some(port.device_name.clone());
        entry.port = Some(port.port);
        entry.gids = gids;
        Ok(())
    }

    /// The port that has the most of the addresses now, and their GIDs.
    fn look(&self, node: &Node, addresses: &[IpAddr]) -> Result<(&Port, Vec<Gid>), Error> {
        let mut best: Option<(&Port, Vec<Gid>)> = None;
        for port in &self.ports {
            let gids = gids(node, port, addresses)?;
            if best.as_ref().is_none_or(|(_, most)| gids.len() > most.len()) {
                best = Some((port, gids));
            }
        }
        best.ok_or_else(|| refusal(format!("master {} has lost its RDMA device", self.parent)))
    }

    /// Waits until every address is a GID, or the time is over; returns those that are.
    ///
    /// The kernel tells nobody but open uverbs contexts of the device about a new GID, and opening one takes
    /// a driver's own library: so the table itself is asked, first often, then every 20 ms.
    fn wait(&self, node: &Node, addresses: &[IpAddr], timeout: Duration) -> Result<(&Port, Vec<Gid>), Error> {
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            let (port, gids) = self.look(node, addresses)?;
            if gids.len() >= addresses.len() || started.elapsed() >= timeout {
                return Ok((port, gids));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Not every address is a GID: that is an error only where RDMA is required.
    fn late(&self, port: &Port, addresses: &[IpAddr], gids: &[Gid]) -> Result<(), Error> {
        let has = |address: &IpAddr| gids.iter().any(|gid| gid.gid == as_gid(*address).to_string());
        let missing: Vec<String> = addresses.iter().filter(|a| !has(a)).map(ToString::to_string).collect();
        let (missing, device, number, master) =
            (missing.join(", "), &port.device_name, port.port, &self.parent);
        let RdmaNeed::Required(timeout) = self.need else {
            warn!(%missing, %device, "an address of the pod is not a GID of the shared RDMA device (yet)");
            return Ok(());
        };
        let msg = format!(
            "address {missing} did not become a RoCE v2 GID of {device} port {number} (the RDMA device of master \
             {master}) within {:.1} s",
            timeout.as_secs_f64()
        );
        let details = "the pod requires RDMA (rdma.require) and was not started without it; is the GID table full \
                       (`silkrail pods`, /sys/class/infiniband/*/ports/*/gids), is the master up?";
        Err(CniError::new(Code::NO_RDMA, msg).with_details(details).into())
    }
}

fn refusal(msg: String) -> Error {
    let details = "the pod requires RDMA (rdma.require) and was not started without it";
    CniError::new(Code::NO_RDMA, msg).with_details(details).into()
}

/// The ports that serve a parent. A node without RDMA has none, and a node in exclusive mode shares none.
fn shared_ports(node: &Node, parent: &Parent) -> Result<Vec<Port>, Error> {
    if !node.sysfs.has_rdma()? {
        return Ok(Vec::new());
    }
    let mut socket = rdma::open(&node.sysfs)?;
    let ports = ports_of(node, &mut socket, &below(node, &parent.link)?)?;
    if ports.is_empty() || rdma::netns_mode(&mut socket)? == NetnsMode::Shared {
        return Ok(ports);
    }
    let msg = format!(
        "the node is in exclusive RDMA mode, so a pod's link on {} shares no RDMA device; \
         run `silkrail mode set shared --persist`, or use sriov and rdma",
        parent.link.name
    );
    Err(CniError::new(Code::NO_RDMA, msg).into())
}

/// The ports of the links' RDMA devices.
///
/// A link's function says which devices may be its own; to ask every device of a node with a hundred VFs
/// would take as many requests. Devices without a function (rxe) are found by asking all.
fn ports_of(node: &Node, socket: &mut Socket, links: &[Link]) -> Result<Vec<Port>, Error> {
    let indexes: Vec<u32> = links.iter().map(|link| link.index).collect();
    let mut ports = Vec::new();
    for link in links {
        let Ok(name) = link.name.parse() else { continue };
        let Some(function) = node.sysfs.function_of(&name)? else { continue };
        for device in rdma::devices_of(socket, &node.sysfs, &function)? {
            ports.extend(rdma::ports(socket, &device)?);
        }
    }
    ports.retain(|port: &Port| port.link.is_some_and(|link| indexes.contains(&link)));
    if ports.is_empty() { Ok(rdma::ports_on(socket, &indexes)?) } else { Ok(ports) }
}

/// The parent and the links below it, nearest first.
fn below(node: &Node, parent: &Link) -> Result<Vec<Link>, Error> {
    let links = node.links()?;
    let (mut found, mut link) = (vec![parent.clone()], parent.clone());
    // A VLAN on a VLAN on a bond is as deep as anybody builds; a loop cannot be built.
    while link.kind == Some(LinkKind::Vlan)
        && let Some(lower) = link.parent.map(|index| links.find_link_by_index(index)).transpose()?.flatten()
    {
        found.push(lower.clone());
        link = lower;
    }
    if link.kind == Some(LinkKind::Bond) {
        found.extend(links.links()?.into_iter().filter(|member| member.controller == Some(link.index)));
    }
    Ok(found)
}

/// The RoCE v2 GIDs of a port that are addresses of the pod.
fn gids(node: &Node, port: &Port, addresses: &[IpAddr]) -> Result<Vec<Gid>, Error> {
    let mut gids = Vec::new();
    for address in addresses {
        if let Some(index) = node.sysfs.find_gid(&port.device_name, port.port, *address)? {
            let gid = as_gid(*address).to_string();
            gids.push(Gid { index, kind: "RoCE v2".into(), gid });
        }
    }
    Ok(gids)
}

/// An address as a GID: IPv4 is mapped.
fn as_gid(address: IpAddr) -> std::net::Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}
