//! What was found.

use serde::Serialize;

/// How bad it is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Pods will not get RDMA, or get it broken.
    Error,
    /// It works now, but not well, or not after the next boot.
    Warning,
    /// Good to know.
    Info,
}

/// The stable name of a kind of finding, in kebab-case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindingId {
    /// The name.
    pub name: &'static str,
    /// What it means, in one line.
    pub line: &'static str,
}

/// Something that is not as it should be, or good to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its kind: [`FindingId::name`].
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a device, a PCI address, a file.
    pub object: String,
    /// What is.
    pub summary: String,
    /// Where that shows.
    pub evidence: Vec<String>,
    /// What to do.
    pub fix: String,
}

/// All findings of one look, the worst first.
#[derive(Debug, Clone, Serialize)]
pub struct DoctorReport {
    /// The version of the program that looked.
    pub version: &'static str,
    /// How many there are of each severity.
    pub counts: SeverityCounts,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// How many findings there are of each severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SeverityCounts {
    /// Errors.
    pub error: usize,
    /// Warnings.
    pub warning: usize,
    /// Infos.
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
    /// The findings, the worst first, and in the order of the rules among equals.
    pub fn of(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| finding.severity);
        let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        let counts = SeverityCounts {
            error: count(Severity::Error),
            warning: count(Severity::Warning),
            info: count(Severity::Info),
        };
        Self { version: env!("CARGO_PKG_VERSION"), counts, findings }
    }
}
