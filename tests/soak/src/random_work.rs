//! Chances.

use std::time::Duration;

use testkit::Call;

/// The call, killed once in `one_in` times, at any moment of its life; 0 is never.
pub(crate) fn perhaps_killed(call: &Call, one_in: u32, within: Duration) -> Call {
    if one_in == 0 || !once_in(one_in) {
        return call.clone();
    }
    let time = Duration::from_micros(fastrand::u64(..u64::try_from(within.as_micros()).unwrap()));
    call.clone().killed_after(time)
}

/// Whether something that happens once in `times` happens now.
pub(crate) fn once_in(times: u32) -> bool {
    fastrand::u32(..times) == 0
}
