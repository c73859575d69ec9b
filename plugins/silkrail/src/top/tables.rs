//! The rates as two tables: devices and pods.

use std::io;

use super::{
    rates::Rates,
    usage::{DeviceUsage, NodeUsage, PodUsage},
};
use crate::table;

const DEVICES: [&str; 12] = [
    "DEVICE",
    "RX-B/S",
    "TX-B/S",
    "RX-PKT/S",
    "TX-PKT/S",
    "ERR/S",
    "CNP/S",
    "RX-PAUSE/S",
    "TX-PAUSE/S",
    "DROP/S",
    "QP",
    "POD",
];
const PODS: [&str; 8] = ["POD", "RX-B/S", "TX-B/S", "RX-PKT/S", "TX-PKT/S", "ERR/S", "QP", "DEVICES"];
/// The prefixes of powers of 1000.
const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// Returns the lines of both tables, with at most `most` rows each.
pub(super) fn lines(usage: &NodeUsage, most: [usize; 2]) -> io::Result<Vec<String>> {
    let mut text = Vec::new();
    let devices: Vec<_> = usage.devices.iter().take(most[0]).map(device).collect();
    table::print(&mut text, DEVICES, &devices)?;
    text.push(b'\n');
    let pods: Vec<_> = usage.pods.iter().take(most[1]).map(pod).collect();
    table::print(&mut text, PODS, &pods)?;
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

fn device(device: &DeviceUsage) -> [String; DEVICES.len()] {
    let (rates, pod) = (&device.per_second, device.pod.as_ref());
    let [receive, transmit, receive_packets, transmit_packets, errors] = common(rates);
    [
        plain(&device.name),
        receive,
        transmit,
        receive_packets,
        transmit_packets,
        errors,
        short(rates.notifications()),
        short(rates.receive_pause_frames),
        short(rates.transmit_pause_frames),
        short(rates.discards),
        device.queue_pairs.map(|count| count.to_string()).unwrap_or_default(),
        pod.map(|pod| plain(&format!("{}/{}", pod.namespace, pod.name))).unwrap_or_default(),
    ]
}

fn pod(pod: &PodUsage) -> [String; PODS.len()] {
    let [receive, transmit, receive_packets, transmit_packets, errors] = common(&pod.per_second);
    [
        plain(&format!("{}/{}", pod.label.namespace, pod.label.name)),
        receive,
        transmit,
        receive_packets,
        transmit_packets,
        errors,
        pod.queue_pairs.map(|count| count.to_string()).unwrap_or_default(),
        plain(&pod.devices.join(",")),
    ]
}

fn common(rates: &Rates) -> [String; 5] {
    let values = [rates.receive_bytes, rates.transmit_bytes, rates.receive_packets, rates.transmit_packets];
    let [a, b, c, d] = values.map(short);
    [a, b, c, d, short(rates.all_errors())]
}

/// Formats a rate with three digits and a prefix of the SI; nothing if it is not known.
fn short(rate: Option<f64>) -> String {
    let Some(mut value) = rate else { return String::new() };
    let mut prefixes = PREFIXES.iter().peekable();
    let mut prefix = "";
    while let Some(next) = prefixes.next() {
        prefix = next;
        // 999.5 would be printed as 1000.
        if value < 999.5 || prefixes.peek().is_none() {
            break;
        }
        value /= 1000.0;
    }
    let decimals = match value {
        _ if prefix.is_empty() && value.fract() == 0.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{prefix}")
}

/// Returns a text that cannot control a terminal, and in which each character has the width of one column.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii() && !identifiers::is_unprintable(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::usage::PodLabel;

    #[test]
    fn rates_have_three_digits_and_a_prefix() {
        let cases = [
            (0.0, "0"),
            (0.5, "0.50"),
            (7.0, "7"),
            (12.34, "12.3"),
            (999.0, "999"),
            (999.6, "1.00k"),
            (1500.0, "1.50k"),
            (99_960.0, "100k"),
            (2_500_000.0, "2.50M"),
            (48.6e9, "48.6G"),
            (5e23, "500000E"),
        ];
        for (rate, text) in cases {
            assert_eq!(short(Some(rate)), text, "{rate}");
        }
        assert_eq!(short(None), "");
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        let name = "a\u{1b}[2J\nb\u{9b}c\u{202e}d\u{7f}e\u{4e2d}";
        assert_eq!(plain(name), "a?[2J?b?c?d?e?");
        let label = PodLabel { namespace: "n\r".into(), name: name.into() };
        let usage = NodeUsage {
            time: 0.0,
            interval: 1.0,
            devices: vec![DeviceUsage {
                name: name.into(),
                pod: Some(label.clone()),
                queue_pairs: Some(3),
                per_second: Rates { receive_bytes: Some(2e6), ..Rates::default() },
            }],
            pods: vec![PodUsage {
                label,
                devices: vec![name.into()],
                queue_pairs: None,
                per_second: Rates::default(),
            }],
            problems: Vec::new(),
        };
        let lines = lines(&usage, [9, 9]).unwrap();
        assert!(lines.iter().all(|line| line.is_ascii() && !line.chars().any(char::is_control)), "{lines:?}");
        let row = "a?[2J?b?c?d?e?  2.00M   -       -         -         -      -      -           -           -       3   n?/a?[2J?b?c?d?e?";
        assert_eq!(lines[1], row);
        assert_eq!(lines.len(), 5);
        assert!(lines[4].starts_with("n?/a?[2J?b?c?d?e?  -"), "{lines:?}");
    }
}
