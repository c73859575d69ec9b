//! Traffic between two pods with several rails each, and the packets that each rail counts.

use std::process::Stdio;

use serde_json::Value;
use serde_json::json;
use testkit::{Observe, TestPod};

/// How the rails of the fabric are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All rails are in one subnet.
    OneSubnet,
    /// Each rail is a subnet, with a gateway to the others.
    Subnets,
}

impl Layout {
    /// Returns the addresses of a pod, numbered from 1, on a rail: IPv4 and IPv6, with their prefix lengths.
    pub fn addresses(self, pod: usize, rail: usize) -> [String; 2] {
        match self {
            Self::OneSubnet => [format!("10.80.{pod}.{rail}/16"), format!("fd80::{pod}:{rail}/64")],
            Self::Subnets => [format!("10.80.{rail}.{pod}/24"), format!("fd80:{rail}::{pod}/64")],
        }
    }

    /// Returns the gateways of a rail.
    pub fn gateways(self, rail: usize) -> [Value; 2] {
        match self {
            Self::OneSubnet => [Value::Null, Value::Null],
            Self::Subnets => [json!(format!("10.80.{rail}.254")), json!(format!("fd80:{rail}::fe"))],
        }
    }
}

/// Two pods with the links `net1` to `net8`, or less.
#[derive(Debug)]
pub struct RailPods {
    /// The pods, numbered from 1.
    pub pods: [TestPod; 2],
    /// How the rails are connected.
    pub layout: Layout,
    /// The number of rails.
    pub rails: usize,
}

impl RailPods {
    /// Checks that packets of each rail's addresses, to all addresses of the other pod, and the replies to them, are sent and
    /// received over that rail only, as both pods count them.
    ///
    /// # Panics
    /// If a packet was lost, or another rail sent or received it.
    pub fn each_source_uses_its_own_rail(&self) {
        // Neighbours are found first: that is not counted.
        (1..=self.rails).for_each(|rail| self.ping_all(rail));
        for rail in 1..=self.rails {
            let before = self.pods.each_ref().map(|pod| Counters::of(pod, self.rails));
            self.ping_all(rail);
            let after = self.pods.each_ref().map(|pod| Counters::of(pod, self.rails));
            let [near, far] = [0, 1].map(|pod| after[pod].since(&before[pod]));
            for other in 0..self.rails {
                // Each rail of the other pod gets requests of each family from this one, and replies to them.
                let expected = if other + 1 == rail { 2 * self.rails as u64 } else { 0 };
                assert_eq!(near.data(other), [expected, expected], "rail {rail}, net{} of pod a", other + 1);
                assert_eq!(far.data(other), [2, 2], "rail {rail}, net{} of pod b", other + 1);
            }
        }
    }

    /// Sends large ICMP requests from each address of a rail of pod a to each address of pod b, of the same family.
    fn ping_all(&self, rail: usize) {
        let sources = self.layout.addresses(1, rail);
        let mut pings = Vec::new();
        for to in 1..=self.rails {
            for (source, destination) in sources.iter().zip(self.layout.addresses(2, to)) {
                let ip = |address: &str| address.split('/').next().unwrap().to_owned();
                let mut ping = self.pods[0].command("busybox");
                ping.args([
                    "ping",
                    "-c",
                    COUNT,
                    "-i",
                    "0.1",
                    "-W5",
                    "-s",
                    SIZE,
                    "-I",
                    &ip(source),
                    &ip(&destination),
                ]);
                ping.stdout(Stdio::piped()).stderr(Stdio::piped());
                pings.push(ping.spawn().unwrap());
            }
        }
        for ping in pings {
            let output = ping.wait_with_output().unwrap();
            assert!(output.status.success(), "rail {rail}: {output:?}");
        }
    }
}

/// The size of an ICMP message's data. Other messages are much smaller.
const SIZE: &str = "1400";

/// The number of requests to each address. More than one, so that few other packets make no difference.
const COUNT: &str = "4";

/// The size of their packets on the link: 1442 bytes each with IPv4, 1462 with IPv6.
const BYTES: u64 = 4 * 1452;

/// The bytes that each rail's link of a pod has sent and received.
struct Counters(Vec<[u64; 2]>);

impl Counters {
    fn of(pod: &TestPod, rails: usize) -> Self {
        let links = pod.ip("-statistics link show");
        let bytes = |rail: usize| {
            let link = links.iter().find(|link| link["ifname"] == format!("net{}", rail + 1)).unwrap();
            ["tx", "rx"].map(|way| link["stats64"][way]["bytes"].as_u64().unwrap())
        };
        Self((0..rails).map(bytes).collect())
    }

    fn since(&self, before: &Self) -> Self {
        let difference = |(now, before): (&[u64; 2], &[u64; 2])| [now[0] - before[0], now[1] - before[1]];
        Self(self.0.iter().zip(&before.0).map(difference).collect())
    }

    /// Returns how many times [`COUNT`] large packets a link has sent and received, by their total size with headers.
    fn data(&self, rail: usize) -> [u64; 2] {
        self.0[rail].map(|bytes| (bytes + BYTES / 2) / BYTES)
    }
}
