//! The findings of the last `silkrail doctor --record`, when each of them began, and those that ended, for metrics.
//!
//! The file is below the state directory, which a reboot empties: after it, each finding has a new beginning.

#![forbid(unsafe_code)]

use std::{
    collections::VecDeque,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// The file, below the state directory.
const FILE: &str = "doctor.json";
/// Mode of the file: findings contain no secrets.
const MODE: u32 = 0o644;
/// Mode of the state directory.
const DIRECTORY_MODE: u32 = 0o755;
/// More findings are counted, and not recorded: each is a series of Prometheus.
const MAX_FINDINGS: usize = 256;
/// More ports, cards and GPUs are not recorded: each port is a series of Prometheus.
const MAX_PORTS: usize = 256;
/// The number of findings that ended which are kept.
const MAX_ENDED: usize = 256;
/// How long they are kept, in seconds.
const MAX_ENDED_AGE: u64 = 30 * 86_400;

/// The result of the last examination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorRecord {
    /// The end of the examination, in seconds since 1970.
    pub time: u64,
    /// The findings, errors first.
    pub findings: Vec<RecordedFinding>,
    /// The number of findings that are not recorded because there are too many.
    pub omitted: usize,
    /// Findings that ended, the latest first.
    pub ended: VecDeque<EndedFinding>,
    /// The ports of which the site file says whether they have a cable.
    #[serde(default)]
    pub ports: Vec<ExpectedPort>,
    /// What the node consists of.
    #[serde(default)]
    pub inventory: NodeInventory,
}

/// A port of which the site file says whether it has a cable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedPort {
    /// The RDMA device.
    pub device: String,
    /// The number of the port.
    pub port: u32,
    /// Whether it has a cable, and has to be up.
    pub is_up: bool,
}

/// What a node consists of, for comparisons with other nodes. What is not known is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeInventory {
    /// The release of the kernel: `6.12.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The RDMA devices of PFs.
    #[serde(default)]
    pub cards: Vec<CardInventory>,
    /// The GPUs.
    #[serde(default)]
    pub gpus: Vec<GpuInventory>,
}

/// The RDMA device of a PF.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardInventory {
    /// The RDMA device.
    pub device: String,
    /// The PCIe link: `32 GT/s x16`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<String>,
    /// The MTU of the link of its first port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

/// A GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuInventory {
    /// `vendor:device`, as PCI IDs.
    pub model: String,
    /// The lanes of its PCIe link. An idle GPU reduces its speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
}

/// What an examination found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    /// The findings, errors first.
    pub findings: Vec<RecordedFinding>,
    /// The ports of which the site file says whether they have a cable.
    pub ports: Vec<ExpectedPort>,
    /// What the node consists of.
    pub inventory: NodeInventory,
}

/// A finding. It is the same as a former one if kind and object are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFinding {
    /// The kind of finding: `link-down`.
    pub id: String,
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// The affected object: a device, a PCI address, a file.
    pub object: String,
    /// The problem, in one sentence.
    pub summary: String,
    /// When an examination found it first, in seconds since 1970.
    pub since: u64,
}

/// A finding that an examination did not find any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedFinding {
    /// The finding as it was.
    #[serde(flatten)]
    pub finding: RecordedFinding,
    /// When an examination did not find it any more, in seconds since 1970.
    pub until: u64,
}

/// The record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DoctorRecordError {
    /// The file cannot be accessed.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// The file has other contents.
    #[error("{FILE}: {0}; delete the file")]
    Malformed(#[from] serde_json::Error),
}

impl DoctorRecord {
    /// Reads the record below a state directory; `None` before the first examination.
    ///
    /// # Errors
    /// If the file cannot be read, or is malformed.
    pub fn read(state_dir: &Path) -> Result<Option<Self>, DoctorRecordError> {
        let content = statefile::read(&state_dir.join(FILE))?;
        Ok(content.map(|content| serde_json::from_slice(&content)).transpose()?)
    }

    /// Records an examination that has just ended. A malformed record is replaced. Returns the record.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn update(state_dir: &Path, examined: Examined) -> Result<Self, DoctorRecordError> {
        let former = match Self::read(state_dir) {
            Ok(record) => record.unwrap_or_default(),
            Err(DoctorRecordError::Malformed(_)) => Self::default(),
            Err(error) => return Err(error),
        };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let record = former.followed_by(examined, time);
        statefile::make_dir(state_dir, DIRECTORY_MODE)?;
        statefile::replace(&state_dir.join(FILE), MODE, &serde_json::to_vec(&record)?)?;
        Ok(record)
    }

    fn followed_by(self, examined: Examined, time: u64) -> Self {
        let Examined { mut findings, mut ports, mut inventory } = examined;
        ports.truncate(MAX_PORTS);
        inventory.cards.truncate(MAX_PORTS);
        inventory.gpus.truncate(MAX_PORTS);
        let omitted = findings.len().saturating_sub(MAX_FINDINGS);
        findings.truncate(MAX_FINDINGS);
        for finding in &mut findings {
            let former = self.findings.iter().find(|former| former.is_same(finding));
            finding.since = former.map_or(time, |former| former.since);
        }
        let mut ended = self.ended;
        for former in self.findings {
            if !findings.iter().any(|finding| finding.is_same(&former)) {
                ended.push_front(EndedFinding { finding: former, until: time });
            }
        }
        ended.retain(|ended| ended.until + MAX_ENDED_AGE >= time);
        ended.truncate(MAX_ENDED);
        Self { time, findings, omitted, ended, ports, inventory }
    }
}

impl RecordedFinding {
    fn is_same(&self, other: &Self) -> bool {
        (&self.id, &self.object) == (&other.id, &other.object)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn finding(id: &str, object: &str) -> RecordedFinding {
        RecordedFinding {
            id: id.into(),
            severity: "error".into(),
            object: object.into(),
            summary: "s".into(),
            since: 0,
        }
    }

    fn examined(findings: Vec<RecordedFinding>) -> Examined {
        Examined { findings, ..Examined::default() }
    }

    #[test]
    fn a_finding_keeps_its_beginning_and_an_ended_one_is_history() {
        let first = DoctorRecord::default()
            .followed_by(examined(vec![finding("link-down", "eth0"), finding("link-down", "eth1")]), 100);
        let second = first
            .followed_by(examined(vec![finding("link-down", "eth1"), finding("mtu-differs", "eth1")]), 200);
        let since: Vec<_> =
            second.findings.iter().map(|finding| (finding.id.as_str(), finding.since)).collect();
        assert_eq!(since, [("link-down", 100), ("mtu-differs", 200)]);
        let third = second.followed_by(Examined::default(), 300);
        let ended: Vec<_> = third
            .ended
            .iter()
            .map(|ended| (ended.finding.object.as_str(), ended.finding.since, ended.until))
            .collect();
        assert_eq!(ended, [("eth1", 200, 300), ("eth1", 100, 300), ("eth0", 100, 200)]);
        let again = third.followed_by(examined(vec![finding("link-down", "eth0")]), 400);
        assert_eq!(again.findings[0].since, 400);
        let milder = RecordedFinding { severity: "warning".into(), ..finding("link-down", "eth0") };
        let milder = again.followed_by(examined(vec![milder]), 500);
        assert_eq!(
            (milder.findings[0].since, &*milder.findings[0].severity, milder.ended.len()),
            (400, "warning", 3)
        );
    }

    #[test]
    fn what_ended_is_kept_for_thirty_days() {
        let first = DoctorRecord::default().followed_by(examined(vec![finding("link-down", "eth0")]), 100);
        let ended = first.followed_by(Examined::default(), 200);
        let after = |seconds: u64| ended.clone().followed_by(Examined::default(), 200 + seconds).ended.len();
        assert_eq!((after(30 * 86_400), after(30 * 86_400 + 1)), (1, 0));
    }

    #[test]
    fn the_number_of_findings_is_limited() {
        let many = (0..1000).map(|number| finding("link-down", &number.to_string())).collect();
        let record = DoctorRecord::default().followed_by(examined(many), 1);
        assert_eq!((record.findings.len(), record.omitted), (256, 744));
        let port = |port| ExpectedPort { device: "mlx5_0".into(), port, is_up: true };
        let inventory = NodeInventory {
            kernel: None,
            cards: vec![CardInventory::default(); 300],
            gpus: vec![GpuInventory::default(); 300],
        };
        let findings = vec![finding("new", "last")];
        let next =
            record.followed_by(Examined { findings, ports: (0..300).map(port).collect(), inventory }, 2);
        assert_eq!((next.ended.len(), next.ports.len()), (256, 256));
        assert_eq!((next.inventory.cards.len(), next.inventory.gpus.len()), (256, 256));
        let last = next.followed_by(Examined::default(), 3).ended;
        assert_eq!((last.len(), last[0].finding.id.as_str()), (256, "new"), "the oldest is dropped");
    }

    #[test]
    fn the_record_is_read_as_it_was_written_and_a_malformed_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        assert_eq!(DoctorRecord::read(&state).unwrap(), None);
        let written = DoctorRecord::update(
            &state,
            Examined {
                findings: vec![finding("link-down", "eth0")],
                ports: vec![ExpectedPort { device: "mlx5_0".into(), port: 1, is_up: false }],
                inventory: NodeInventory {
                    kernel: Some("6.12.0".into()),
                    cards: vec![CardInventory { device: "mlx5_0".into(), ..CardInventory::default() }],
                    gpus: vec![GpuInventory { model: "0x10de:0x2330".into(), lanes: Some(16) }],
                },
            },
        )
        .unwrap();
        assert_eq!(DoctorRecord::read(&state).unwrap(), Some(written));
        fs::write(state.join(FILE), "{").unwrap();
        assert!(matches!(DoctorRecord::read(&state), Err(DoctorRecordError::Malformed(_))));
        DoctorRecord::update(&state, Examined::default()).unwrap();
        assert_eq!(DoctorRecord::read(&state).unwrap().unwrap().findings, []);
    }

    #[test]
    fn a_record_of_a_former_version_has_no_ports() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), r#"{"time": 7, "findings": [], "omitted": 0, "ended": []}"#)
            .unwrap();
        let record = DoctorRecord::read(dir.path()).unwrap().unwrap();
        assert_eq!((record.time, record.ports.len()), (7, 0));
    }
}
