//! Retries while a driver is temporarily busy.
//!
//! `iavf` returns `EBUSY` when its link is set up during a reset. Each VF setting by the PF starts a reset, and there is
//! no notification of its end. `i40e` and `ice` refuse a setting of any VF (`EAGAIN`, `EBUSY`) while they reset one. A
//! lock of the plugins would not help: the kernel already serializes the changes.

use std::{thread, time::Duration};

use nix::errno::Errno;

use crate::Budget;

/// How long the reset of a function may take.
const DRIVER_RESET_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay between two tries.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Repeats a change while the driver is busy (`EAGAIN`, `EBUSY`), for at most 10 s.
///
/// # Errors
/// The error of the last try.
pub fn retry_while_busy(change: impl FnMut() -> Result<(), rtnl::Error>) -> Result<(), rtnl::Error> {
    retry_while_busy_within(DRIVER_RESET_TIMEOUT, change)
}

fn retry_while_busy_within(
    timeout: Duration,
    mut change: impl FnMut() -> Result<(), rtnl::Error>,
) -> Result<(), rtnl::Error> {
    let budget = Budget::of_call();
    let deadline = budget.until("a driver that is busy", timeout);
    loop {
        let error = match change() {
            Err(rtnl::Error::Netlink(error)) => error,
            result => return result,
        };
        let is_busy = matches!(error.errno(), Some(Errno::EAGAIN | Errno::EBUSY));
        if !is_busy || deadline.has_passed() {
            return Err(error.into());
        }
        thread::sleep(RETRY_DELAY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the tries with a driver that returns these errors in turn, and then succeeds.
    fn tries(errors: &[Errno], timeout: Duration) -> (usize, bool) {
        let mut tries = 0;
        let done = retry_while_busy_within(timeout, || {
            tries += 1;
            let Some(errno) = errors.get(tries - 1) else { return Ok(()) };
            let (object, extack) = ("VF 0".to_owned(), netlink::Extack::default());
            Err(netlink::Error::Refused { operation: "set", object, errno: *errno, extack }.into())
        });
        (tries, done.is_ok())
    }

    #[test]
    fn a_change_is_repeated_only_while_the_driver_is_busy() {
        assert_eq!(tries(&[Errno::EAGAIN, Errno::EBUSY], DRIVER_RESET_TIMEOUT), (3, true));
        assert_eq!(tries(&[Errno::EOPNOTSUPP], DRIVER_RESET_TIMEOUT), (1, false));
        // A pause that is longer than it should be leaves fewer.
        let limited = tries(&[Errno::EBUSY; 9], Duration::from_millis(75));
        assert!(matches!(limited, (1..=3, false)), "not for ever: {limited:?}");
    }
}
