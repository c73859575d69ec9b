use std::{cell::Cell, fs::File};

use cni::ErrorCode;
use netns::NetNsId;
use state::{
    StateDir,
    claim::{ClaimKind, DeviceClaim},
};
use sysfs::Function;

use super::*;
use crate::Node;

const MOMENT: Duration = Duration::from_millis(60);

thread_local! {
    static STOPPED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns the time at which the clock of this test stands still, if it was stopped.
pub(super) fn stopped_clock() -> Option<Instant> {
    STOPPED.get()
}

/// Advances the clock, which stands still otherwise.
fn advance(time: Duration) {
    STOPPED.set(Some(now() + time));
}

/// Returns a budget that begins at a stopped clock.
fn budget(work: u64, revert: u64) -> Budget {
    advance(Duration::ZERO);
    let (work, revert) = (Duration::from_millis(work), Duration::from_millis(revert));
    Budget::with(CallLimits { work, revert, ..CallLimits::ADD })
}

fn explained(budget: &Budget) -> String {
    budget.explain(Error::new(ErrorCode::TRY_AGAIN, "it did not come")).details
}

#[test]
fn a_wait_has_its_own_time_while_the_call_has_more() {
    let budget = budget(10_000, 0);
    let deadline = budget.until("a lock", MOMENT);
    assert_eq!(deadline.left(), MOMENT);
    advance(MOMENT);
    assert!(deadline.has_passed());
    drop(deadline);
    assert_eq!(explained(&budget), "", "the budget is not why it failed");
}

#[test]
fn waits_share_the_budget_and_the_error_lists_them() {
    let budget = budget(200, 0);
    for _ in 0..2 {
        let _deadline = budget.until("a lock", Duration::from_secs(9));
        advance(MOMENT);
    }
    let deadline = budget.until("a device", Duration::from_secs(9));
    assert_eq!(deadline.left(), Duration::from_millis(200) - 2 * MOMENT);
    advance(deadline.left());
    drop(deadline);
    assert!(budget.until("the link", Duration::from_secs(9)).has_passed(), "nothing is left");
    let details = explained(&budget);
    assert!(details.starts_with("the 0.2 s that an ADD may wait are used up"), "{details}");
    assert!(details.contains("by: a lock 0.1 s, a device 0.1 s"), "the longest first: {details}");
    assert!(!details.contains("the link"), "a wait that took no time is not listed: {details}");
    let error = Error::new(ErrorCode::TRY_AGAIN, "x").with_details("not reverted: y");
    assert!(budget.explain(error).details.starts_with("not reverted: y; the 0.2 s that"));
}

#[test]
fn a_wait_that_ended_in_time_is_not_why_a_call_failed() {
    let budget = budget(2_000, 0);
    drop(budget.until("a lock", Duration::from_secs(9)));
    assert_eq!(explained(&budget), "");
}

#[test]
fn the_revert_has_a_reserved_time() {
    let budget = budget(0, 10_000);
    assert!(budget.until("a device", Duration::from_secs(9)).has_passed());
    budget.begin_revert();
    assert_eq!(budget.until("a device", Duration::from_secs(9)).left(), Duration::from_secs(9));
    let deadline = budget.until("a lock", Duration::from_secs(9));
    advance(MOMENT);
    drop(deadline);
    let unused = self::budget(1_000, 1_000);
    unused.begin_revert();
    let left = unused.until("a device", Duration::from_secs(9)).left();
    assert_eq!(left, Duration::from_secs(2), "with what the ADD has not used");
    let details = explained(&budget);
    assert!(details.contains("used up"), "the reason of the ADD's failure is kept: {details}");
    assert!(details.contains("by: nothing; the revert then waited for: a lock 0.1 s"), "{details}");
}

#[test]
fn one_of_many_has_its_share_only() {
    let budget = budget(10_000, 0);
    let share = budget.share(100);
    let deadline = budget.until("a device", Duration::from_secs(9));
    assert_eq!(deadline.left(), Duration::from_secs(2), "a fifth, which is more than a hundredth");
    drop((deadline, share));
    let share = budget.share(2);
    assert_eq!(budget.until("a device", Duration::from_secs(9)).left(), Duration::from_secs(5));
    drop(share);
    assert_eq!(budget.until("a device", Duration::from_secs(9)).left(), Duration::from_secs(9));
}

#[test]
fn a_share_that_is_used_up_is_not_called_the_whole() {
    let budget = budget(2000, 0);
    let share = budget.share(100);
    let deadline = budget.until("a device", Duration::from_secs(9));
    advance(deadline.left());
    drop((deadline, share));
    let details = explained(&budget);
    assert!(details.starts_with("one attachment has a share of the 2 s that an ADD may wait"), "{details}");
    // After any number of shares some time is left.
    for _ in 0..5 {
        let _share = budget.share(100);
        advance(budget.until("a device", Duration::from_secs(9)).left());
    }
    assert!(!budget.until("the end", Duration::from_secs(9)).has_passed());
}

#[test]
fn an_add_and_its_revert_fit_into_the_kubelets_timeout() {
    let total = |limits: CallLimits| limits.work + limits.revert;
    assert!(total(CallLimits::ADD) <= Duration::from_secs(240 - 30));
    for operation in [Operation::Del, Operation::Check, Operation::Gc] {
        assert!(total(CallLimits::of(operation)) <= Duration::from_secs(120 - 10), "{operation:?}");
    }
    assert!(total(CallLimits::of(Operation::Status)) <= Duration::from_secs(30 - 10));
}

#[test]
fn a_call_has_one_budget() {
    let begun = Budget::begin(Operation::Add);
    assert!(Arc::ptr_eq(&begun.0, &Budget::of_call().0));
    assert!(Arc::ptr_eq(&begun.0, &Budget::begin(Operation::Del).0), "a call begins once");
    assert_eq!((seconds(Duration::from_secs(110)), seconds(MOMENT)), ("110 s".into(), "0.1 s".into()));
}

#[test]
fn a_wait_for_the_claims_of_devices_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut node = Node::new(StateDir::at(dir.path()), Vec::new(), None);
    let limits = CallLimits { work: Duration::from_millis(100), revert: Duration::ZERO, ..CallLimits::ADD };
    node.budget = Budget::with(limits);
    let (owner, vf) = ("c0ffee@net1".parse().unwrap(), Function::Pci("0000:af:00.2".parse().unwrap()));
    let claim = DeviceClaim::of(ClaimKind::Vf, vf, &owner, "/gone".into(), NetNsId::new(4, 1)).unwrap();
    let acquire = || claim.acquire(&node.state, &|| node.claims_lock(), |_| Ok::<_, crate::Error>(true));
    acquire().unwrap();
    let other = File::open(dir.path().join("vf")).unwrap();
    other.lock().unwrap();
    // The attachment has the claim already, from an ADD that was killed: it is released first.
    acquire().unwrap_err();
    assert!(explained(&node.budget).contains("the claims of devices"), "{}", explained(&node.budget));
}
