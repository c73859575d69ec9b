//! Selection of the port and the GID that one end of a test uses.

use std::net::IpAddr;

use rdma::{LinkLayer, PortState};

use crate::{
    DeviceName, Error, PortNumber, PortSelector,
    candidate_port::CandidatePort,
    gid_selection::{self, SelectedGid},
};

/// The port selected for one end.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedPort {
    /// The RDMA device, for example `mlx5_0`.
    pub device: DeviceName,
    /// The port number.
    pub port: PortNumber,
    /// The GID; `None` for InfiniBand.
    pub gid: Option<SelectedGid>,
    /// The properties of the port.
    pub facts: CandidatePort,
}

/// The rank of an InfiniBand port: equal to a GID in the peer's subnet.
const INFINIBAND_RANK: u8 = 1;

/// Selects the best port for traffic to `peer` among those that match `wanted`: the port with the best GID
/// ([`gid_selection::choose`]). Of equal ports, it selects the one that has `local`, the local address of the connection,
/// and otherwise the first. Rails in one subnet, or in separate subnets behind a router, are equal, so that the address in
/// the command selects the rail.
///
/// # Errors
/// [`Error::NoPort`], [`Error::NoGid`]: why the requested port, or the first one, is not usable.
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
                let rank = found.gid.as_ref().map_or(INFINIBAND_RANK, |gid| gid.rank);
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
    port.gids.iter().any(|entry| entry.ours && gid_selection::address(entry.gid) == address)
}

fn fits(port: &CandidatePort, wanted: &PortSelector) -> bool {
    wanted.device.as_ref().is_none_or(|device| device.as_str() == port.device)
        && wanted.port.is_none_or(|number| u32::from(number.get()) == port.number)
}

fn usable(port: &CandidatePort, wanted: &PortSelector, peer: Option<IpAddr>) -> Result<SelectedPort, Error> {
    let no_port = |why: String| Error::NoPort { why };
    let named = || format!("port {} of RDMA device {}", port.number, port.device);
    if port.state != PortState::Active {
        return Err(no_port(format!("{} is {:?}, expected Active: is its link up?", named(), port.state)));
    }
    let gid = match (wanted.gid_index, port.layer) {
        (Some(index), _) => {
            let taken = gid_selection::take(&port.gids, index.into());
            Some(taken.ok_or_else(|| no_port(format!("{} has no GID {index}", named())))?)
        }
        (None, LinkLayer::InfiniBand) => None,
        (None, LinkLayer::Ethernet) => {
            Some(gid_selection::choose(&port.gids, peer).map_err(|source| Error::NoGid {
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
    let available: Vec<String> =
        ports.iter().map(|port| format!("{}/{}", port.device, port.number)).collect();
    let available = if available.is_empty() {
        "this node has none".into()
    } else {
        format!("available: {}", available.join(", "))
    };
    let missing = match (&wanted.device, wanted.port) {
        (Some(device), Some(port)) => format!("no port {port} of an RDMA device {device}; "),
        (Some(device), None) => format!("no RDMA device {device}; "),
        (None, Some(port)) => format!("no RDMA device with a port {port}; "),
        (None, None) => String::new(),
    };
    Error::NoPort { why: format!("{missing}{available}") }
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
            gids: vec![gid_selection::GidCandidate {
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
    fn the_port_on_the_peers_rail_is_selected() {
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
    fn of_equal_rails_the_one_with_the_local_address_is_selected() {
        let device = |ports: &[CandidatePort], peer: &str, local: &str| {
            let found = select(ports, &PortSelector::default(), peer.parse().ok(), local.parse().ok());
            found.unwrap().device.to_string()
        };
        let one_subnet = [port("mlx5_0", "10.0.0.1/16"), port("mlx5_1", "10.0.1.1/16")];
        assert_eq!(device(&one_subnet, "10.0.0.2", "10.0.1.1"), "mlx5_1");
        assert_eq!(device(&one_subnet, "10.0.0.2", "192.0.2.1"), "mlx5_0");
        let routed = [port("mlx5_0", "10.0.0.1/31"), port("mlx5_1", "10.1.0.1/31")];
        assert_eq!(device(&routed, "10.1.0.3", "10.1.0.1"), "mlx5_1");
        // A better GID takes precedence.
        assert_eq!(device(&routed, "10.0.0.0", "10.1.0.1"), "mlx5_0");
    }

    #[test]
    fn a_requested_port_is_selected_or_refused() {
        let ports = [port("mlx5_0", "10.0.0.1/24"), port("mlx5_1", "10.0.1.1/24")];
        let peer = "10.0.0.2".parse().ok();
        assert_eq!(select(&ports, &wanted("mlx5_1"), peer, None).unwrap().device.as_str(), "mlx5_1");
        let error = select(&ports, &wanted("mlx5_7"), peer, None).unwrap_err().to_string();
        assert_eq!(error, "no usable RDMA port: no RDMA device mlx5_7; available: mlx5_0/1, mlx5_1/1");
        let index = PortSelector { gid_index: Some(9), ..wanted("mlx5_0") };
        let error = select(&ports, &index, peer, None).unwrap_err().to_string();
        assert_eq!(error, "no usable RDMA port: port 1 of RDMA device mlx5_0 has no GID 9");
        assert!(
            select(&[], &PortSelector::default(), None, None)
                .unwrap_err()
                .to_string()
                .ends_with("this node has none")
        );
    }

    #[test]
    fn an_inactive_port_is_skipped_and_named_in_the_error() {
        let mut ports = vec![port("mlx5_0", "10.0.0.1/24"), port("mlx5_1", "10.0.1.1/24")];
        ports[0].state = PortState::Down;
        assert_eq!(select(&ports, &PortSelector::default(), None, None).unwrap().device.as_str(), "mlx5_1");
        let error = select(&ports, &wanted("mlx5_0"), None, None).unwrap_err().to_string();
        assert!(error.contains("mlx5_0 is Down, expected Active"), "{error}");
    }

    #[test]
    fn the_number_of_a_port_is_one_of_the_requested_device() {
        let mut ports =
            vec![port("mlx5_0", "10.0.0.1/24"), port("mlx5_0", "10.0.1.1/24"), port("mlx5_1", "10.0.0.3/24")];
        ports[1].number = 2;
        let peer = "10.0.0.2".parse().ok();
        let number = |device: Option<&str>, number: u64| {
            let device = device.map(|device| device.parse().unwrap());
            PortSelector { device, port: number.try_into().ok(), gid_index: None }
        };
        let found = select(&ports, &number(Some("mlx5_0"), 2), peer, None).unwrap();
        assert_eq!((found.port.get(), found.facts.number, found.device.as_str()), (2, 2, "mlx5_0"));
        assert_eq!(
            select(&ports, &number(None, 2), peer, None).unwrap().port.get(),
            2,
            "although its GID is worse"
        );
        let error = |wanted| select(&ports, &wanted, peer, None).unwrap_err().to_string();
        assert!(error(number(Some("mlx5_1"), 2)).contains("no port 2 of an RDMA device mlx5_1; available"));
        assert!(error(number(None, 3)).contains("no RDMA device with a port 3; available"));
        // If none is usable, the reason is that of the first one.
        for port in &mut ports {
            port.state = PortState::Down;
        }
        let error = select(&ports[1..], &PortSelector::default(), peer, None).unwrap_err().to_string();
        assert!(error.contains("port 2 of RDMA device mlx5_0 is Down"), "{error}");
    }

    #[test]
    fn infiniband_needs_no_gid() {
        let mut infiniband = port("mlx5_0", "10.0.0.1/24");
        (infiniband.layer, infiniband.gids) = (LinkLayer::InfiniBand, Vec::new());
        assert_eq!(select(&[infiniband], &PortSelector::default(), None, None).unwrap().gid, None);
    }
}
