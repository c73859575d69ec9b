//! Patience with drivers that are busy for a moment.
//!
//! `iavf` answers `EBUSY` to being taken up while it is resetting, which each setting of the VF by its PF begins and
//! nobody is told the end of. `i40e` and `ice` refuse a setting of any VF (`EAGAIN`, `EBUSY`) while they reset one. No lock of
//! ours could keep them from it: the kernel already makes one change at a time.

use std::{thread, time::Duration};

use nix::errno::Errno;

use crate::Budget;

/// How long a driver may be resetting a function.
const DRIVER_RESET_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after a refusal a driver is asked again.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Asks a driver for a change until it is not busy any more, or has been for too long.
///
/// # Errors
/// Its last answer.
pub fn retry_while_busy(change: impl FnMut() -> Result<(), rtnl::Error>) -> Result<(), rtnl::Error> {
    retry_while_busy_within(DRIVER_RESET_TIMEOUT, change)
}

fn retry_while_busy_within(
    patience: Duration,
    mut change: impl FnMut() -> Result<(), rtnl::Error>,
) -> Result<(), rtnl::Error> {
    let budget = Budget::of_call();
    let deadline = budget.until("a driver that is busy", patience);
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

    /// Tries against a driver that answers with these errors in turn, and then does what it is told.
    fn tries(answers: &[Errno], patience: Duration) -> (usize, bool) {
        let mut tries = 0;
        let done = retry_while_busy_within(patience, || {
            tries += 1;
            let Some(errno) = answers.get(tries - 1) else { return Ok(()) };
            let (object, extack) = ("VF 0".to_owned(), netlink::Extack::default());
            Err(netlink::Error::Refused { operation: "set", object, errno: *errno, extack }.into())
        });
        (tries, done.is_ok())
    }

    #[test]
    fn a_driver_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
        assert_eq!(tries(&[Errno::EAGAIN, Errno::EBUSY], DRIVER_RESET_TIMEOUT), (3, true));
        assert_eq!(tries(&[Errno::EOPNOTSUPP], DRIVER_RESET_TIMEOUT), (1, false));
        assert_eq!(tries(&[Errno::EBUSY; 9], Duration::from_millis(75)), (3, false), "not for ever");
    }
}
