//! The result of a test: the measurement, the two ends with the growth of their counters, and the verdict.

use serde::{Deserialize, Serialize};

use crate::{
    RdmaOperation, TestKind, TestSpec, TrafficOptions, gid_selection, perftest::Measurement,
    port_counters::PortCounters, port_selection::SelectedPort, sanitized_text::SanitizedText,
    verdict::Verdict,
};

/// The result of a test, in the form of the JSON output and of the history file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestResult {
    /// The ID in the history of this node; 0 if the result is not stored.
    #[serde(default)]
    pub id: u64,
    /// The Unix time at which the test ended.
    pub time: u64,
    /// The requested test.
    #[serde(flatten)]
    pub test: TestSpec,
    /// The measurement.
    #[serde(flatten)]
    pub measurement: Measurement,
    /// Whether the measurement reaches the threshold.
    pub verdict: Verdict,
    /// The end that initiated the transfers.
    pub client: TestEnd,
    /// The other end.
    pub server: TestEnd,
}

/// One end of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestEnd {
    /// The hostname of the node.
    pub node: SanitizedText,
    /// The RDMA device, for example `mlx5_0`.
    pub device: SanitizedText,
    /// The port of the device.
    pub port: u32,
    /// The link of the port; `None` for InfiniBand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<SanitizedText>,
    /// The index of the GID in the port's table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u32>,
    /// The GID as an IP address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<std::net::IpAddr>,
    /// The reason why this GID was selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_why: Option<SanitizedText>,
    /// The port's speed, in Mb/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u64>,
    /// The MTU of the link, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The version of perftest, for example `6.06`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perftest: Option<SanitizedText>,
    /// The growth of the port's counters during the test.
    #[serde(default)]
    pub counters: PortCounters,
}

impl TestEnd {
    /// Returns the end of this node, without counters.
    pub fn of(selected: &SelectedPort, perftest: Option<String>) -> Self {
        let node = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        let gid = selected.gid.as_ref();
        Self {
            node: node.unwrap_or_default().into(),
            device: selected.device.as_str().into(),
            port: selected.port.get().into(),
            link: selected.facts.link.clone().map(SanitizedText::from),
            gid_index: gid.map(|gid| gid.entry.index),
            gid: gid.map(|gid| gid_selection::address(gid.entry.gid)),
            gid_why: gid.map(|gid| gid.why.as_str().into()),
            speed_mbps: selected.facts.speed_mbps,
            mtu: selected.facts.mtu,
            perftest: perftest.map(SanitizedText::from),
            counters: PortCounters::new(),
        }
    }

    /// Returns the name `node device/port`, for example `node-a mlx5_0/1`.
    pub fn name(&self) -> String {
        format!("{} {}/{}", self.node, self.device, self.port)
    }
}

impl TestResult {
    /// Returns the average: Gb/s for bandwidth, microseconds for latency.
    pub fn value(&self) -> Option<f64> {
        match self.test.kind {
            TestKind::Bandwidth => self.measurement.bandwidth.map(|bandwidth| bandwidth.average_gbps),
            TestKind::Latency => self.measurement.latency.map(|latency| latency.average_us),
        }
    }

    /// Describes a difference of the MTUs of the two ends. perftest uses the smaller one; other programs can fail.
    pub fn mismatch(&self) -> Option<String> {
        let (client, server) =
            self.client.mtu.zip(self.server.mtu).filter(|(client, server)| client != server)?;
        Some(format!("the MTUs of the links differ: {client} at the client, {server} at the server"))
    }

    /// Returns the key of the series: results with the same key can be compared.
    pub fn series(&self) -> (TestKind, RdmaOperation, u32, u16, TrafficOptions, String, String) {
        let TestSpec { kind, operation, size, queue_pairs, options, .. } = self.test;
        (kind, operation, size.get(), queue_pairs.get(), options, self.client.name(), self.server.name())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::perftest::{Bandwidth, Measurement};

    /// Returns the result of a bandwidth test between two nodes.
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
            test: TestSpec::new(
                TestKind::Bandwidth,
                RdmaOperation::Write,
                65536u64.try_into().unwrap(),
                8u64.try_into().unwrap(),
                10u64.try_into().unwrap(),
            ),
            measurement: Measurement { iterations: Some(1000), bandwidth: Some(bandwidth), latency: None },
            verdict: Verdict {
                passed: Some(gbps >= 80.0),
                expected: Some(80.0),
                expected_p99: None,
                why: "80 %".into(),
            },
            client: end("node-a", "10.0.0.1"),
            server: end("node-b", "10.0.0.2"),
        }
    }

    #[test]
    fn ends_with_different_mtus_are_reported() {
        let mut record = record(1.0);
        assert_eq!(record.mismatch(), None);
        record.server.mtu = Some(1500);
        assert_eq!(
            record.mismatch().unwrap(),
            "the MTUs of the links differ: 9000 at the client, 1500 at the server"
        );
        record.server.mtu = None;
        assert_eq!(record.mismatch(), None, "an unknown MTU is not a difference");
    }

    #[test]
    fn a_result_is_flat_json_and_is_read_back_unchanged() {
        let value = serde_json::to_value(record(94.3)).unwrap();
        assert_eq!(value["kind"], "bandwidth");
        assert_eq!(value["bandwidth"]["averageGbps"], 94.3);
        assert_eq!(value["client"]["gidIndex"], 3);
        assert_eq!(serde_json::from_value::<TestResult>(value).unwrap(), record(94.3));
    }
}
