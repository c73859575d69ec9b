//! The log of `silkrail doctor --every`: findings that began or ended, and a line for each examination.

use std::io::{self, Write};

use doctor_record::{DoctorRecord, RecordedFinding};

pub(super) fn run(former: &DoctorRecord, now: &DoctorRecord, out: &mut dyn Write) -> io::Result<()> {
    let was = |finding: &RecordedFinding| {
        former.findings.iter().any(|other| (&other.id, &other.object) == (&finding.id, &finding.object))
    };
    for finding in now.findings.iter().filter(|finding| !was(finding)) {
        write_finding("found", finding, out)?;
    }
    let ended = now.ended.iter().take_while(|ended| ended.until == now.time);
    for ended in ended.filter(|ended| was(&ended.finding)) {
        write_finding("ended", &ended.finding, out)?;
    }
    let count = |severity: &str| now.findings.iter().filter(|finding| finding.severity == severity).count();
    writeln!(
        out,
        "time={} level=info msg=\"examined\" errors={} warnings={}",
        utc::now(),
        count("error"),
        count("warning")
    )?;
    out.flush()
}

fn write_finding(what: &str, finding: &RecordedFinding, out: &mut dyn Write) -> io::Result<()> {
    let RecordedFinding { id, severity, object, summary, .. } = finding;
    writeln!(
        out,
        "time={} level={severity} msg={what:?} id={id} object={object:?} summary={summary:?}",
        utc::now()
    )
}
