//! The statistics of links, as `ethtool -S` shows them.

use std::fmt::Write;

use ethtool::EthtoolSocket;

use crate::NodeFacts;

/// The maximum number of links: a node has a dozen ports. Statistics of each queue make up most of them.
const MAX_LINKS: usize = 64;

/// Returns the names of the links of RDMA devices and of PFs.
pub(super) fn links(facts: &NodeFacts) -> Vec<String> {
    let of_devices =
        facts.devices.iter().flat_map(|device| &device.ports).filter_map(|port| port.link.clone());
    let of_pfs = facts.functions.iter().filter(|function| function.pf.is_none());
    let of_pfs = of_pfs.flat_map(|function| function.links.iter().cloned());
    let mut links: Vec<String> = of_pfs.chain(of_devices).collect();
    links.sort();
    links.dedup();
    links.truncate(MAX_LINKS);
    links
}

/// Reads the statistics of links. An error is a line of the text.
pub(super) fn text(links: &[String]) -> String {
    let socket = match EthtoolSocket::open() {
        Ok(socket) => socket,
        Err(error) => return format!("{error}\n"),
    };
    let mut text = String::new();
    for link in links {
        let _ = writeln!(text, "NIC statistics of {link}:");
        let statistics = link.parse().map_err(|error| format!("{error}"));
        let statistics =
            statistics.and_then(|link| socket.statistics(&link).map_err(|error| error.to_string()));
        match statistics {
            Ok(statistics) => statistics.iter().for_each(|(name, value)| {
                let _ = writeln!(text, "     {name}: {value}");
            }),
            Err(error) => {
                let _ = writeln!(text, "     {error}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_without_statistics_and_one_that_is_gone_are_listed() {
        let text = text(&["lo".into(), "gone0".into(), "not a link".into()]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "NIC statistics of lo:");
        let gone = lines.iter().position(|line| *line == "NIC statistics of gone0:").unwrap();
        assert!(lines[gone + 1].contains("gone0"), "{text}");
        let wrong = lines.iter().position(|line| *line == "NIC statistics of not a link:").unwrap();
        assert!(lines.len() > wrong + 1, "{text}");
    }
}
