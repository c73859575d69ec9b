//! Findings and the report that contains them.

use serde::Serialize;

/// The severity of a finding, in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Pods do not get RDMA, or RDMA does not work in them.
    Error,
    /// RDMA works, but with reduced performance, or will stop working at the next boot.
    Warning,
    /// Information; no action is required.
    Info,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        })
    }
}

/// A kind of finding. Scripts select findings by its name, so names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindingId {
    /// The name, in kebab case: `link-down`.
    pub name: &'static str,
    /// The description that `silkrail doctor --list` prints, in one line.
    pub line: &'static str,
}

/// A problem of the node, or a piece of information about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of finding: [`FindingId::name`].
    pub id: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The affected object: a device, a PCI address, a file.
    pub object: String,
    /// The problem, in one sentence.
    pub summary: String,
    /// The observations that led to the finding, one per line.
    pub evidence: Vec<String>,
    /// The remedy; empty if there is nothing to do.
    pub fix: String,
}

/// All findings of one examination, in descending order of severity.
#[derive(Debug, Clone, Serialize)]
pub struct DoctorReport {
    /// The version of the program that examined the node.
    pub version: &'static str,
    /// The number of findings of each severity.
    pub counts: SeverityCounts,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The findings that the site file accepts; they are not counted.
    pub ignored: Vec<AcceptedFinding>,
}

/// A finding that the site file accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcceptedFinding {
    /// The kind of finding.
    pub id: &'static str,
    /// The affected object.
    pub object: String,
    /// Why it is accepted.
    pub reason: String,
    /// The last day on which it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// The number of findings of each severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SeverityCounts {
    /// The number of errors.
    pub error: usize,
    /// The number of warnings.
    pub warning: usize,
    /// The number of informational findings.
    pub info: usize,
}

impl FindingId {
    pub(crate) const fn new(name: &'static str, line: &'static str) -> Self {
        Self { name, line }
    }

    pub(crate) fn error(&self, object: impl ToString, summary: impl ToString) -> Finding {
        self.found(Severity::Error, object, summary)
    }

    pub(crate) fn warning(&self, object: impl ToString, summary: impl ToString) -> Finding {
        self.found(Severity::Warning, object, summary)
    }

    pub(crate) fn info(&self, object: impl ToString, summary: impl ToString) -> Finding {
        self.found(Severity::Info, object, summary)
    }

    pub(crate) fn found(&self, severity: Severity, object: impl ToString, summary: impl ToString) -> Finding {
        let (object, summary) = (object.to_string(), summary.to_string());
        Finding { id: self.name, severity, object, summary, evidence: Vec::new(), fix: String::new() }
    }
}

impl Finding {
    pub(crate) fn because(mut self, evidence: impl ToString) -> Self {
        self.evidence.push(evidence.to_string());
        self
    }

    pub(crate) fn because_all(mut self, evidence: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    pub(crate) fn fix(self, fix: impl ToString) -> Self {
        Self { fix: fix.to_string(), ..self }
    }
}

impl DoctorReport {
    /// Sorts the findings by severity, in the order of the rules within a severity, and counts them.
    pub fn of(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| finding.severity);
        let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        let counts = SeverityCounts {
            error: count(Severity::Error),
            warning: count(Severity::Warning),
            info: count(Severity::Info),
        };
        Self { version: env!("CARGO_PKG_VERSION"), counts, findings, ignored: Vec::new() }
    }
}
