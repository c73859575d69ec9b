//! The RDMA ports of this network namespace, as candidates for a test.

use std::{collections::BTreeMap, fs, net::IpAddr};

use identifiers::LinkName;
use ipnetwork::IpNetwork;
use nix::ifaddrs::getifaddrs;
use rdma::{LinkLayer, PortState};
use sysfs::Sysfs;

use crate::{
    DeviceName, Error,
    error::io,
    gid_selection::{self, GidCandidate},
    sysfs_copy,
};

/// An RDMA port with the properties that [`crate::port_selection`] uses.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidatePort {
    /// The RDMA device, for example `mlx5_0`.
    pub device: String,
    /// The port number, starting at 1.
    pub number: u32,
    /// The logical state; a test needs an active port.
    pub state: PortState,
    /// The link layer: Ethernet (RoCE) or InfiniBand.
    pub layer: LinkLayer,
    /// The name of the port's link; `None` for InfiniBand.
    pub link: Option<String>,
    /// The speed in Mb/s; `None` if it is unknown.
    pub speed_mbps: Option<u64>,
    /// The MTU of the link, in bytes.
    pub mtu: Option<u32>,
    /// The entries of the port's GID table.
    pub gids: Vec<GidCandidate>,
}

/// The IP networks of each link in this network namespace; empty for a link without addresses.
type Networks = BTreeMap<String, Vec<IpNetwork>>;

/// Returns the ports that are visible in this network namespace, or those of a copy of a sysfs tree.
///
/// # Errors
/// [`Error::Rdma`], also if this node has no RDMA devices; [`Error::Io`].
pub fn ports(sysfs: &Sysfs) -> Result<Vec<CandidatePort>, Error> {
    ports_of(sysfs, None)
}

/// Returns the ports of one device, or all if there is none of this name: a GID table has hundreds of files, which a test of
/// eight rails would otherwise read for each of them.
///
/// # Errors
/// Those of [`ports`].
pub fn ports_of(sysfs: &Sysfs, device: Option<&DeviceName>) -> Result<Vec<CandidatePort>, Error> {
    let networks = networks()?;
    let mut found = if sysfs_copy::is_copy(sysfs) {
        sysfs_copy::ports(sysfs)
    } else {
        rdma::Handle::open(sysfs)?.all_ports()?
    };
    let is_of_device = |port: &rdma::Port| device.is_some_and(|device| device.as_str() == port.device_name);
    if found.iter().any(is_of_device) {
        found.retain(is_of_device);
    }
    found.into_iter().filter_map(|port| describe(sysfs, &networks, port).transpose()).collect()
}

/// Reads the GIDs, the speed and the MTU of a port. Returns `None` if the port has disappeared in the meantime.
fn describe(sysfs: &Sysfs, networks: &Networks, port: rdma::Port) -> Result<Option<CandidatePort>, Error> {
    let gids = match sysfs.gid_table(&port.device_name, port.port) {
        Ok(table) => table.entries,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let entry = |gid: sysfs::GidEntry| {
        let on_link = gid.link.as_ref().and_then(|link| networks.get(link));
        let address = gid_selection::address(gid.gid);
        let network = on_link.and_then(|all| all.iter().find(|network| network.ip() == address).copied());
        GidCandidate {
            index: gid.index,
            gid: gid.gid,
            kind: gid.kind,
            ours: on_link.is_some(),
            link: gid.link,
            network,
        }
    };
    Ok(Some(CandidatePort {
        speed_mbps: speed(sysfs, &port),
        mtu: mtu(sysfs, &port),
        gids: gids.into_iter().map(entry).collect(),
        device: port.device_name,
        number: port.port,
        state: port.state,
        layer: port.link_layer,
        link: port.link_name,
    }))
}

/// Returns the speed in Mb/s: of the link for RoCE, whose `rate` in sysfs is rounded to an InfiniBand rate, or 2.5 Gb/s if
/// the speed is unknown.
fn speed(sysfs: &Sysfs, port: &rdma::Port) -> Option<u64> {
    match port.link_layer {
        LinkLayer::Ethernet if !sysfs_copy::is_copy(sysfs) => {
            let link: LinkName = port.link_name.as_deref()?.parse().ok()?;
            ethtool::EthtoolSocket::open().ok()?.speed(&link).ok()?.map(u64::from)
        }
        LinkLayer::Ethernet | LinkLayer::InfiniBand => {
            let path = format!("class/infiniband/{}/ports/{}/rate", port.device_name, port.port);
            rate(&fs::read_to_string(sysfs.root().join(path)).ok()?)
        }
    }
}

fn mtu(sysfs: &Sysfs, port: &rdma::Port) -> Option<u32> {
    let link: LinkName = port.link_name.as_deref()?.parse().ok()?;
    let path = sysfs.root().join(format!("class/net/{}/mtu", link.as_str()));
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Parses the sysfs file `rate`, for example `100 Gb/sec (4X EDR)`, and returns Mb/s.
fn rate(text: &str) -> Option<u64> {
    let (number, _) = text.split_once(" Gb/sec")?;
    let (whole, tenths) = number.trim().split_once('.').unwrap_or((number.trim(), "0"));
    let tenths: u64 = tenths.get(..1)?.parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 1000 + tenths * 100).filter(|rate| *rate > 0)
}

fn networks() -> Result<Networks, Error> {
    let mut networks = Networks::new();
    for found in getifaddrs().map_err(|errno| io("list the addresses of this node")(errno.into()))? {
        let of_link = networks.entry(found.interface_name).or_default();
        let Some(address) = found.address.as_ref() else { continue };
        let mask = found.netmask.as_ref();
        let v4 = address.as_sockaddr_in().zip(mask.and_then(|mask| mask.as_sockaddr_in()));
        let v6 = address.as_sockaddr_in6().zip(mask.and_then(|mask| mask.as_sockaddr_in6()));
        let pair: Option<(IpAddr, IpAddr)> = match (v4, v6) {
            (Some((address, mask)), _) => Some((address.ip().into(), mask.ip().into())),
            (_, Some((address, mask))) => Some((address.ip().into(), mask.ip().into())),
            _ => None,
        };
        of_link.extend(pair.and_then(|(address, mask)| IpNetwork::with_netmask(address, mask).ok()));
    }
    Ok(networks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated_node::SimulatedNode;

    #[test]
    fn the_infiniband_rate_is_parsed() {
        assert_eq!(rate("100 Gb/sec (4X EDR)\n"), Some(100_000));
        assert_eq!(rate("2.5 Gb/sec (1X SDR)"), Some(2_500));
        assert_eq!(rate("0 Gb/sec"), None);
        assert_eq!(rate("fast"), None);
    }

    #[test]
    fn only_the_ports_of_a_known_device_are_described() {
        let node = SimulatedNode::new();
        node.port("mlx5_0", "0000:18:00.0", "127.0.0.1");
        node.port("mlx5_1", "0000:2a:00.0", "127.0.0.1");
        let names = |device: &str| -> Vec<String> {
            let found = ports_of(&node.sysfs(), device.parse().ok().as_ref()).unwrap();
            found.into_iter().map(|port| port.device).collect()
        };
        assert_eq!(names("mlx5_1"), ["mlx5_1"]);
        assert_eq!(names("mlx5_9"), ["mlx5_0", "mlx5_1"], "the error lists what there is");
    }

    #[test]
    fn loopback_has_its_networks() {
        let networks = networks().unwrap();
        assert!(networks["lo"].contains(&"127.0.0.1/8".parse().unwrap()), "{networks:?}");
        let has_ipv6 =
            fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| text.contains("01 01 80 10"));
        assert_eq!(networks["lo"].contains(&"::1/128".parse().unwrap()), has_ipv6, "{networks:?}");
    }
}
