//! Which port, and which of its GIDs, an end of a test uses.

use std::net::IpAddr;

use rdma::{LinkLayer, PortState};

use crate::{
    DeviceName, Error, PortNumber, PortSelector,
    gid::{self, SelectedGid},
    node::CandidatePort,
};

/// The choice of one end.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedPort {
    /// The RDMA device.
    pub device: DeviceName,
    /// The port.
    pub port: PortNumber,
    /// The GID; InfiniBand needs none.
    pub gid: Option<SelectedGid>,
    /// What is known of the port.
    pub facts: CandidatePort,
}

/// InfiniBand is as good as a GID in the peer's subnet.
const INFINIBAND: u8 = 1;

/// The best of the ports for traffic to `peer`, among those that fit what is wanted: the port whose GID is the best
/// ([`gid::choose`]); of equals the one that has `local`, this end's address of the connection, and then the first. Rails in
/// one subnet, or each in one of its own behind a router, are all equal: who names a rail's address means that rail.
///
/// # Errors
/// [`Error::NoPort`], [`Error::NoGid`]: of the port that was asked for, or of the first.
pub fn select(
    ports: &[CandidatePort],
    wanted: &PortSelector,
    peer: Option<IpAddr>,
    local: Option<IpAddr>,
) -> Result<SelectedPort, Error> {
    let mut best: Option<((u8, bool), SelectedPort)> = None;
    let mut why_not = None;
    for port in ports.iter().filter(|port| fits(port, wanted)) {
        match usable(port, wanted, peer) {
            Ok(found) => {
                let rank = found.gid.as_ref().map_or(INFINIBAND, |gid| gid.rank);
                let rank = (rank, !local.is_some_and(|local| has(port, local)));
                if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                    best = Some((rank, found));
                }
            }
            Err(why) => why_not = why_not.or(Some(why)),
        }
    }
    best.map(|(_, found)| found).ok_or_else(|| why_not.unwrap_or_else(|| none_fits(ports, wanted)))
}

fn has(port: &CandidatePort, address: IpAddr) -> bool {
    port.gids.iter().any(|entry| entry.ours && gid::address(entry.gid) == address)
}

fn fits(port: &CandidatePort, wanted: &PortSelector) -> bool {
    wanted.device.as_ref().is_none_or(|device| device.as_str() == port.device)
        && wanted.port.is_none_or(|number| u32::from(number.get()) == port.number)
}

fn usable(port: &CandidatePort, wanted: &PortSelector, peer: Option<IpAddr>) -> Result<SelectedPort, Error> {
    let no_port = |why: String| Error::NoPort { why };
    let named = || format!("port {} of RDMA device {}", port.number, port.device);
    if port.state != PortState::Active {
        return Err(no_port(format!("{} is {:?}, not Active: is its link up?", named(), port.state)));
    }
    let gid = match (wanted.gid_index, port.layer) {
        (Some(index), _) => {
            let taken = gid::take(&port.gids, index.into());
            Some(taken.ok_or_else(|| no_port(format!("{} has no GID {index}", named())))?)
        }
        (None, LinkLayer::InfiniBand) => None,
        (None, LinkLayer::Ethernet) => {
            Some(gid::choose(&port.gids, peer).map_err(|source| Error::NoGid {
                device: port.device.clone(),
                port: port.number,
                source,
            })?)
        }
    };
    let invalid = |invalid: crate::InvalidTestSpec| no_port(invalid.to_string());
    Ok(SelectedPort {
        device: port.device.parse().map_err(invalid)?,
        port: u64::from(port.number).try_into().map_err(invalid)?,
        gid,
        facts: port.clone(),
    })
}

fn none_fits(ports: &[CandidatePort], wanted: &PortSelector) -> Error {
    let there: Vec<String> = ports.iter().map(|port| format!("{}/{}", port.device, port.number)).collect();
    let there =
        if there.is_empty() { "none is here".into() } else { format!("here are {}", there.join(", ")) };
    let asked = match (&wanted.device, wanted.port) {
        (Some(device), Some(port)) => format!("no port {port} of an RDMA device {device}; "),
        (Some(device), None) => format!("no RDMA device {device}; "),
        (None, Some(port)) => format!("no RDMA device with a port {port}; "),
        (None, None) => String::new(),
    };
    Error::NoPort { why: format!("{asked}{there}") }
}

#[cfg(test)]
mod tests {
    use sysfs::GidType;

    use super::*;

    fn port(device: &str, address: &str) -> CandidatePort {
        let network: ipnetwork::Ipv4Network = address.parse().unwrap();
        CandidatePort {
            device: device.into(),
            number: 1,
            state: PortState::Active,
            layer: LinkLayer::Ethernet,
            link: Some("eth0".into()),
            speed_mbps: Some(100_000),
            mtu: Some(9000),
            gids: vec![gid::GidCandidate {
                index: 3,
                gid: network.ip().to_ipv6_mapped(),
                kind: GidType::RoceV2,
                link: Some("eth0".into()),
                network: Some(network.into()),
                ours: true,
            }],
        }
    }

    fn wanted(device: &str) -> PortSelector {
        PortSelector { device: Some(device.parse().unwrap()), ..PortSelector::default() }
    }

    #[test]
    fn the_rail_of_the_peer_is_found() {
        let ports = [port("mlx5_0", "10.0.0.1/24"), port("mlx5_1", "10.0.1.1/24")];
        let device = |peer: &str| {
            select(&ports, &PortSelector::default(), peer.parse().ok(), None).unwrap().device.to_string()
        };
        assert_eq!(
            [device("10.0.1.2"), device("10.0.0.2"), device("8.8.8.8")],
            ["mlx5_1", "mlx5_0", "mlx5_0"]
        );
    }

    #[test]
    fn of_equal_rails_the_one_is_taken_whose_address_was_called() {
        let device = |ports: &[CandidatePort], peer: &str, local: &str| {
            let found = select(ports, &PortSelector::default(), peer.parse().ok(), local.parse().ok());
            found.unwrap().device.to_string()
        };
        let one_subnet = [port("mlx5_0", "10.0.0.1/16"), port("mlx5_1", "10.0.1.1/16")];
        assert_eq!(device(&one_subnet, "10.0.0.2", "10.0.1.1"), "mlx5_1");
        assert_eq!(device(&one_subnet, "10.0.0.2", "192.0.2.1"), "mlx5_0");
        let routed = [port("mlx5_0", "10.0.0.1/31"), port("mlx5_1", "10.1.0.1/31")];
        assert_eq!(device(&routed, "10.1.0.3", "10.1.0.1"), "mlx5_1");
        // A better GID goes before.
        assert_eq!(device(&routed, "10.0.0.0", "10.1.0.1"), "mlx5_0");
    }

    #[test]
    fn what_is_wanted_is_taken_or_refused() {
        let ports = [port("mlx5_0", "10.0.0.1/24"), port("mlx5_1", "10.0.1.1/24")];
        let peer = "10.0.0.2".parse().ok();
        assert_eq!(select(&ports, &wanted("mlx5_1"), peer, None).unwrap().device.as_str(), "mlx5_1");
        let error = select(&ports, &wanted("mlx5_7"), peer, None).unwrap_err().to_string();
        assert_eq!(error, "no usable RDMA port: no RDMA device mlx5_7; here are mlx5_0/1, mlx5_1/1");
        let index = PortSelector { gid_index: Some(9), ..wanted("mlx5_0") };
        let error = select(&ports, &index, peer, None).unwrap_err().to_string();
        assert_eq!(error, "no usable RDMA port: port 1 of RDMA device mlx5_0 has no GID 9");
        assert!(
            select(&[], &PortSelector::default(), None, None)
                .unwrap_err()
                .to_string()
                .ends_with("none is here")
        );
    }

    #[test]
    fn a_port_without_a_link_is_passed_over_and_named() {
        let mut ports = vec![port("mlx5_0", "10.0.0.1/24"), port("mlx5_1", "10.0.1.1/24")];
        ports[0].state = PortState::Down;
        assert_eq!(select(&ports, &PortSelector::default(), None, None).unwrap().device.as_str(), "mlx5_1");
        let error = select(&ports, &wanted("mlx5_0"), None, None).unwrap_err().to_string();
        assert!(error.contains("mlx5_0 is Down, not Active"), "{error}");
    }

    #[test]
    fn infiniband_needs_no_gid() {
        let mut infiniband = port("mlx5_0", "10.0.0.1/24");
        (infiniband.layer, infiniband.gids) = (LinkLayer::InfiniBand, Vec::new());
        assert_eq!(select(&[infiniband], &PortSelector::default(), None, None).unwrap().gid, None);
    }
}
