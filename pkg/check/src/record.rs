//! The result of a test: what was measured between which ports, what their counters counted, and the verdict.

use serde::{Deserialize, Serialize};

use crate::{
    RdmaOperation, TestKind, TestSpec, counters::PortCounters, gid, label::SanitizedText,
    perftest::Measurement, select::SelectedPort, verdict::Verdict,
};

/// A result, as it is printed as JSON and kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    /// Its number among those that this node keeps; 0 if it is not kept.
    #[serde(default)]
    pub id: u64,
    /// When the test ended, in seconds since 1970.
    pub time: u64,
    /// What was asked for.
    #[serde(flatten)]
    pub test: TestSpec,
    /// What came out.
    #[serde(flatten)]
    pub measurement: Measurement,
    /// Whether that is enough.
    pub verdict: Verdict,
    /// The end that sent (write, send) or asked (read).
    pub client: TestEnd,
    /// The other end.
    pub server: TestEnd,
}

/// One end of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestEnd {
    /// The node's name.
    pub node: SanitizedText,
    /// The RDMA device.
    pub device: SanitizedText,
    /// Its port.
    pub port: u32,
    /// Its link, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<SanitizedText>,
    /// The place of the GID in the port's table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u32>,
    /// The GID, as an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<std::net::IpAddr>,
    /// Why this GID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_why: Option<SanitizedText>,
    /// The port's speed, in Mb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u64>,
    /// The largest packet of its link, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// perftest's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perftest: Option<SanitizedText>,
    /// By how much the port's counters grew during the test.
    #[serde(default)]
    pub counters: PortCounters,
}

impl TestEnd {
    /// This node's end.
    pub fn of(selected: &SelectedPort, perftest: Option<String>) -> Self {
        let node = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        let gid = selected.gid.as_ref();
        Self {
            node: node.unwrap_or_default().into(),
            device: selected.device.as_str().into(),
            port: selected.port.get().into(),
            link: selected.facts.link.clone().map(SanitizedText::from),
            gid_index: gid.map(|gid| gid.entry.index),
            gid: gid.map(|gid| gid::address(gid.entry.gid)),
            gid_why: gid.map(|gid| gid.why.as_str().into()),
            speed_mbps: selected.facts.speed_mbps,
            mtu: selected.facts.mtu,
            perftest: perftest.map(SanitizedText::from),
            counters: PortCounters::new(),
        }
    }

    /// `node device/port`.
    pub fn name(&self) -> String {
        format!("{} {}/{}", self.node, self.device, self.port)
    }
}

impl TestResult {
    /// The average: Gb/s, or microseconds.
    pub fn value(&self) -> Option<f64> {
        match self.test.kind {
            TestKind::Bandwidth => self.measurement.bandwidth.map(|bandwidth| bandwidth.average_gbps),
            TestKind::Latency => self.measurement.latency.map(|latency| latency.average_us),
        }
    }

    /// What is different at the two ends and should not be. perftest takes the smaller MTU of both and works on; other
    /// programs do not.
    pub fn mismatch(&self) -> Option<String> {
        let (ours, theirs) = self.client.mtu.zip(self.server.mtu).filter(|(ours, theirs)| ours != theirs)?;
        Some(format!("the MTUs of the links differ: {ours} at the client, {theirs} at the server"))
    }

    /// What results have in common that can be compared.
    pub fn series(&self) -> (TestKind, RdmaOperation, u32, u16, String, String) {
        let TestSpec { kind, operation, size, queue_pairs, .. } = self.test;
        (kind, operation, size.get(), queue_pairs.get(), self.client.name(), self.server.name())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::perftest::{Bandwidth, Measurement};

    /// A test of bandwidth between two nodes.
    pub(crate) fn record(gbps: f64) -> TestResult {
        let end = |node: &str, address: &str| TestEnd {
            node: node.into(),
            device: "mlx5_0".into(),
            port: 1,
            link: Some("ens6".into()),
            gid_index: Some(3),
            gid: address.parse().ok(),
            gid_why: Some("RoCE v2".into()),
            speed_mbps: Some(100_000),
            mtu: Some(9000),
            perftest: Some("6.06".into()),
            counters: [("hw_counters/rx_write_requests".into(), 7)].into(),
        };
        let bandwidth = Bandwidth { average_gbps: gbps, peak_gbps: None, message_rate_mpps: Some(0.18) };
        TestResult {
            id: 0,
            time: 1_795_200_000,
            test: TestSpec {
                kind: TestKind::Bandwidth,
                operation: RdmaOperation::Write,
                size: 65536u64.try_into().unwrap(),
                queue_pairs: 8u64.try_into().unwrap(),
                duration: 10u64.try_into().unwrap(),
            },
            measurement: Measurement { iterations: Some(1000), bandwidth: Some(bandwidth), latency: None },
            verdict: Verdict { passed: Some(gbps >= 80.0), expected: Some(80.0), why: "80 %".into() },
            client: end("node-a", "10.0.0.1"),
            server: end("node-b", "10.0.0.2"),
        }
    }

    #[test]
    fn ends_with_different_mtus_are_found() {
        let mut record = record(1.0);
        assert_eq!(record.mismatch(), None);
        record.server.mtu = Some(1500);
        assert_eq!(
            record.mismatch().unwrap(),
            "the MTUs of the links differ: 9000 at the client, 1500 at the server"
        );
        record.server.mtu = None;
        assert_eq!(record.mismatch(), None, "unknown is not different");
    }

    #[test]
    fn a_record_is_flat_json_and_comes_back() {
        let value = serde_json::to_value(record(94.3)).unwrap();
        assert_eq!(value["kind"], "bandwidth");
        assert_eq!(value["bandwidth"]["averageGbps"], 94.3);
        assert_eq!(value["client"]["gidIndex"], 3);
        assert_eq!(serde_json::from_value::<TestResult>(value).unwrap(), record(94.3));
    }
}
