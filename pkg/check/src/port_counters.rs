//! The counters of a port during a test. Retransmissions, for example, explain a low bandwidth.

use std::{collections::BTreeMap, fs};

use sysfs::Sysfs;

use crate::{port_selection::SelectedPort, sanitized_text::SanitizedText};

/// Counters by name: `hw_counters/…` of the driver, read over netlink, and `counters/…` of the port, read from sysfs.
pub type PortCounters = BTreeMap<SanitizedText, u64>;

/// Reads the current counters of a port. Omits those that cannot be read, which is not an error of the test.
pub fn read(sysfs: &Sysfs, port: &SelectedPort) -> PortCounters {
    let mut counters = hardware(sysfs, port).unwrap_or_default();
    let dir = sysfs.root().join(format!("class/infiniband/{}/ports/{}/counters", port.device, port.port));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let value = fs::read_to_string(entry.path()).ok().and_then(|text| text.trim().parse().ok());
        counters.extend(
            value.map(|value| (format!("counters/{}", entry.file_name().to_string_lossy()).into(), value)),
        );
    }
    counters
}

fn hardware(sysfs: &Sysfs, port: &SelectedPort) -> Result<PortCounters, rdma::Error> {
    let rdma = rdma::Handle::open(sysfs)?;
    let Some(device) = rdma.find_device(port.device.as_str())? else {
        return Ok(PortCounters::new());
    };
    let counters = rdma.hw_counters(&device, port.port.get().into())?;
    Ok(counters
        .into_iter()
        .map(|counter| (format!("hw_counters/{}", counter.name).into(), counter.value))
        .collect())
}

/// Returns the growth of the counters. Omits those that did not grow and those that were reset.
pub fn growth(before: &PortCounters, after: &PortCounters) -> PortCounters {
    let grew = |(name, now): (&SanitizedText, &u64)| {
        let more = now.checked_sub(*before.get(name)?).filter(|more| *more > 0)?;
        Some((name.clone(), more))
    };
    after.iter().filter_map(grew).collect()
}

/// Whether the growth of this counter indicates a problem: loss, congestion or retransmission.
pub fn is_trouble(name: &str) -> bool {
    const SIGNS: [&str; 15] = [
        "retr",
        "timeout",
        "seq",
        "err",
        "discard",
        "drop",
        "out_of_buffer",
        "rnr",
        "cnp",
        "ecn",
        "downed",
        "pause",
        "wait",
        "congest",
        "duplicate",
    ];
    let name = name.rsplit('/').next().unwrap_or(name);
    SIGNS.iter().any(|sign| name.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counters_that_grew_are_returned() {
        let counters = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|(name, n)| ((*name).into(), *n)).collect::<PortCounters>()
        };
        let before = counters(&[("a", 1), ("b", 5), ("c", 9)]);
        let after = counters(&[("a", 4), ("b", 5), ("c", 2), ("new", 7)]);
        assert_eq!(growth(&before, &after), counters(&[("a", 3)]));
    }

    #[test]
    fn the_counters_of_the_port_are_read_and_others_omitted() {
        let node = crate::simulated_node::SimulatedNode::new();
        for device in ["mlx5_0", "mlx5_1"] {
            node.port(device, &format!("0000:18:00.{}", &device[5..]), "127.0.0.1");
            for (name, text) in [("port_xmit_wait", "7\n"), ("port_rcv_errors", "0\n"), ("odd", "n/a\n")] {
                let text = if device == "mlx5_0" { text } else { "99\n" };
                fs::write(node.path(&format!("sys/class/infiniband/{device}/ports/1/counters/{name}")), text)
                    .unwrap();
            }
        }
        let ports = crate::candidate_port::ports(&node.sysfs()).unwrap();
        let selected = crate::port_selection::select(&ports[..1], &Default::default(), None, None).unwrap();
        let counters = read(&node.sysfs(), &selected);
        let expected = [("counters/port_rcv_errors".into(), 0), ("counters/port_xmit_wait".into(), 7)];
        assert_eq!(counters, PortCounters::from(expected));
    }

    #[test]
    fn counters_of_problems_are_distinguished_from_traffic() {
        for bad in [
            "hw_counters/packet_seq_err",
            "hw_counters/local_ack_timeout_err",
            "hw_counters/out_of_sequence",
            "hw_counters/rnr_nak_retry_err",
            "hw_counters/np_cnp_sent",
            "hw_counters/completer_retry_err",
            "counters/port_xmit_wait",
            "counters/port_rcv_errors",
            "hw_counters/duplicate_request",
        ] {
            assert!(is_trouble(bad), "{bad}");
        }
        for good in ["counters/port_xmit_data", "hw_counters/rx_write_requests", "hw_counters/sent_pkts"] {
            assert!(!is_trouble(good), "{good}");
        }
    }
}
