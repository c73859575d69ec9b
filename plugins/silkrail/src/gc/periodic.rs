//! `silkrail gc --every`: runs in one process, with a log line for each, until it is asked to exit.

use std::{
    hash::{BuildHasher, RandomState},
    io::{self, Write},
    time::Duration,
};

use ::gc::{FindingState, StaleFinding};
use check::Interrupt;

use crate::exit::{CommandError, CommandExit};

/// Calls `run` at the start and after each interval, until SIGTERM, SIGINT or SIGHUP. A run in progress ends first.
///
/// # Errors
/// The first error of a run.
pub(super) fn repeat(
    interval: Duration,
    out: &mut dyn Write,
    run: impl Fn() -> Result<Vec<StaleFinding>, CommandError>,
) -> Result<CommandExit, CommandError> {
    let interrupt = Interrupt::install()?;
    loop {
        log(&run()?, out)?;
        if interrupt.wait(interval + random_delay(interval))? {
            return Ok(CommandExit::Done);
        }
    }
}

/// Returns up to a fifth of the interval: the nodes of a cluster do not call the same IPAM server at the same time.
fn random_delay(interval: Duration) -> Duration {
    const STEPS: u32 = 1000;
    let random = RandomState::new().hash_one(()) % u64::from(STEPS);
    interval / 5 / STEPS * u32::try_from(random).unwrap_or_default()
}

/// Logs what was reverted or left, then the numbers. What is only listed would be repeated by each run.
fn log(findings: &[StaleFinding], out: &mut dyn Write) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_random_delay_is_at_most_a_fifth_and_differs() {
        let interval = Duration::from_secs(600);
        let delays: Vec<_> = (0..20).map(|_| random_delay(interval)).collect();
        assert!(delays.iter().all(|delay| *delay <= interval / 5), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
    }
}
