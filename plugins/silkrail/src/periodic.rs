//! Commands that repeat (`--every`): runs in one process, until it is asked to exit.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use check::Interrupt;

use crate::exit::{CommandError, CommandExit};

/// Calls `run` at the start and after each interval, until SIGTERM, SIGINT or SIGHUP. A run in progress ends first.
///
/// # Errors
/// The first error of a run.
pub(crate) fn repeat(
    interval: Duration,
    mut run: impl FnMut() -> Result<(), CommandError>,
) -> Result<CommandExit, CommandError> {
    let interrupt = Interrupt::install()?;
    loop {
        run()?;
        if interrupt.wait(interval + random_delay(interval))? {
            return Ok(CommandExit::Done);
        }
    }
}

/// Returns up to a fifth of the interval: the nodes of a cluster do not call the same server at the same time.
fn random_delay(interval: Duration) -> Duration {
    const STEPS: u32 = 1000;
    let random = RandomState::new().hash_one(()) % u64::from(STEPS);
    interval / 5 / STEPS * u32::try_from(random).unwrap_or_default()
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
