//! The condition that a record of the doctor stands for.

use std::fmt::Write;

use doctor_record::{DoctorRecord, DoctorRecordError, RecordedFinding};
use serde::Serialize;

/// The type of the condition.
pub(crate) const TYPE: &str = "RDMAHealthy";

/// The status of a condition, as the Kubernetes API writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ConditionStatus {
    /// No error was found.
    True,
    /// At least one error was found.
    False,
    /// The record is missing, unreadable or too old.
    Unknown,
}

/// The condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    /// The status.
    pub status: ConditionStatus,
    /// A word: of an error the ID of the worst finding in upper camel case.
    pub reason: String,
    /// A text with the errors and the warnings.
    pub message: String,
}

/// A record that is older, in seconds, tells nothing about the node, as in the alert RDMADoctorStale.
const MAX_AGE_SECONDS: u64 = 3600;
/// The API allows 32 KiB. Every watcher of nodes gets the message.
const MAX_MESSAGE_CHARS: usize = 2048;

impl NodeCondition {
    /// Returns the condition for a record, at a time in seconds since 1970.
    pub fn of(record: &Result<Option<DoctorRecord>, DoctorRecordError>, now: u64) -> Self {
        let unknown = |reason: &str, message: String| Self {
            status: ConditionStatus::Unknown,
            reason: reason.to_owned(),
            message: limited(message),
        };
        let record = match record {
            Ok(Some(record)) => record,
            Ok(None) => {
                return unknown("NotExamined", "silkrail doctor --record has not run since the boot".into());
            }
            Err(error) => return unknown("RecordUnreadable", error.to_string()),
        };
        if record.time + MAX_AGE_SECONDS < now {
            let text = format!("silkrail doctor --record has not run since {}", utc::rfc3339(record.time));
            return unknown("ExaminationStale", text);
        }
        let of = |severity: &str| -> Vec<&RecordedFinding> {
            record.findings.iter().filter(|finding| finding.severity == severity).collect()
        };
        let (errors, warnings) = (of("error"), of("warning"));
        let message = limited(message(&errors, &warnings, record.omitted));
        match errors.first() {
            Some(worst) => {
                Self { status: ConditionStatus::False, reason: upper_camel_case(&worst.id), message }
            }
            None => Self { status: ConditionStatus::True, reason: "NoErrors".to_owned(), message },
        }
    }
}

fn message(errors: &[&RecordedFinding], warnings: &[&RecordedFinding], omitted: usize) -> String {
    let count = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let mut text = format!("{}, {}", count(errors.len(), "error"), count(warnings.len(), "warning"));
    for (number, finding) in errors.iter().chain(warnings).enumerate() {
        let RecordedFinding { id, object, summary, .. } = finding;
        let _ = write!(text, "{} {id} {object}: {summary}", if number == 0 { ":" } else { ";" });
    }
    if omitted > 0 {
        let _ = write!(text, "; {omitted} findings are not recorded");
    }
    text
}

fn limited(text: String) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        None => text,
        // With the ellipsis.
        Some(_) => text.chars().take(MAX_MESSAGE_CHARS - 1).chain(['…']).collect(),
    }
}

/// Returns `LinkDown` for `link-down`.
fn upper_camel_case(id: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    };
    id.split('-').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(id: &str, severity: &str, object: &str) -> RecordedFinding {
        RecordedFinding {
            id: id.into(),
            severity: severity.into(),
            object: object.into(),
            summary: "text".into(),
            since: 0,
        }
    }

    fn condition(findings: Vec<RecordedFinding>) -> NodeCondition {
        NodeCondition::of(
            &Ok(Some(DoctorRecord { time: 10_000, findings, ..DoctorRecord::default() })),
            10_300,
        )
    }

    #[test]
    fn an_error_makes_the_node_unhealthy_and_a_warning_does_not() {
        let unhealthy = condition(vec![
            finding("ib-no-subnet-manager", "error", "mlx5_0 port 1"),
            finding("link-down", "error", "eth0"),
            finding("firmware-mixed", "warning", "mlx5_0"),
            finding("gid-table-full", "info", "mlx5_0"),
        ]);
        assert_eq!((unhealthy.status, &*unhealthy.reason), (ConditionStatus::False, "IbNoSubnetManager"));
        assert_eq!(
            unhealthy.message,
            "2 errors, 1 warning: ib-no-subnet-manager mlx5_0 port 1: text; link-down eth0: text; firmware-mixed mlx5_0: text"
        );
        let healthy = condition(vec![finding("firmware-mixed", "warning", "mlx5_0")]);
        assert_eq!((healthy.status, &*healthy.reason), (ConditionStatus::True, "NoErrors"));
        assert_eq!(healthy.message, "0 errors, 1 warning: firmware-mixed mlx5_0: text");
        assert_eq!(condition(vec![]).message, "0 errors, 0 warnings");
        let record = DoctorRecord { time: 10_000, omitted: 1, ..DoctorRecord::default() };
        let omitted = NodeCondition::of(&Ok(Some(record)), 10_000).message;
        assert_eq!(omitted, "0 errors, 0 warnings; 1 findings are not recorded");
    }

    #[test]
    fn without_a_recent_record_the_status_is_unknown() {
        let record = || Ok(Some(DoctorRecord { time: 10_000, ..DoctorRecord::default() }));
        let of = |record: Result<_, _>, now| {
            let condition = NodeCondition::of(&record, now);
            (condition.status, condition.reason)
        };
        assert_eq!(of(record(), 13_600).0, ConditionStatus::True);
        assert_eq!(of(record(), 13_601), (ConditionStatus::Unknown, "ExaminationStale".into()));
        assert_eq!(of(record(), 5_000).0, ConditionStatus::True, "the clock was set back");
        assert_eq!(of(Ok(None), 1), (ConditionStatus::Unknown, "NotExamined".into()));
        let malformed = serde_json::from_str::<DoctorRecord>("{").unwrap_err();
        assert_eq!(of(Err(malformed.into()), 1), (ConditionStatus::Unknown, "RecordUnreadable".into()));
    }

    #[test]
    fn a_message_is_bounded() {
        let many: Vec<_> =
            (0..256).map(|number| finding("link-down", "error", &format!("ethé{number}"))).collect();
        let message = condition(many).message;
        assert_eq!(message.chars().count(), MAX_MESSAGE_CHARS);
        assert!(
            message.starts_with("256 errors, 0 warnings: link-down") && message.ends_with('…'),
            "{message}"
        );
    }
}
