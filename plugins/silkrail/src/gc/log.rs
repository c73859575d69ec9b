//! The log of `silkrail gc --every`, with a line for each run.

use std::io::{self, Write};

use ::gc::{FindingState, StaleFinding};

/// Logs what was reverted or left, then the numbers. What is only listed would be repeated by each run.
pub(super) fn run(findings: &[StaleFinding], out: &mut dyn Write) -> io::Result<()> {
    let (mut reverted, mut left) = (0, 0);
    for finding in findings {
        match finding.verdict {
            FindingState::Reverted => reverted += 1,
            FindingState::Left => left += 1,
            FindingState::Stale | FindingState::InProgress | FindingState::Kept => continue,
        }
        log_finding(finding, out)?;
    }
    writeln!(out, "time={} level=info msg=\"run ended\" reverted={reverted} left={left}", utc::now())?;
    out.flush()
}

fn log_finding(finding: &StaleFinding, out: &mut dyn Write) -> io::Result<()> {
    let StaleFinding { verdict, what, attachment, object, evidence, why_left, .. } = finding;
    let level = if why_left.is_some() { "warning" } else { "info" };
    let (what, attachment) = (what.to_string(), attachment.as_deref().unwrap_or_default());
    write!(
        out,
        "time={} level={level} msg=\"{verdict}\" what={what:?} attachment={attachment:?}",
        utc::now()
    )?;
    write!(out, " object={object:?} evidence={evidence:?}")?;
    match why_left {
        Some(why) => writeln!(out, " error={why:?}"),
        None => writeln!(out),
    }
}
