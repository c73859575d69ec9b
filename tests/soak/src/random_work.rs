//! Random choices of the soak test.

use std::time::Duration;

use testkit::Call;

/// Returns the call, set to be killed with probability 1/`one_in` at a random time below `within`; 0 means never.
pub(crate) fn perhaps_killed(call: &Call, one_in: u32, within: Duration) -> Call {
    if one_in == 0 || !once_in(one_in) {
        return call.clone();
    }
    let time = Duration::from_micros(fastrand::u64(..u64::try_from(within.as_micros()).unwrap()));
    call.clone().killed_after(time)
}

/// Returns true with probability 1/`times`.
pub(crate) fn once_in(times: u32) -> bool {
    fastrand::u32(..times) == 0
}
