//! The time budget of a call, which all its waits share.
//!
//! A runtime kills a plugin that exceeds the runtime's own timeout, and the plugin's error is lost. So every wait of a
//! call gets its deadline here ([`Budget::until`]). A call that exceeds its budget fails on its own, reports what it
//! waited for, and has reverted its changes.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use cni::{Error, Operation};

/// The time that a call may wait, and the time that reverting its changes may then take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CallLimits {
    operation: &'static str,
    work: Duration,
    revert: Duration,
    /// The timeout of the caller from which the limits follow.
    because: &'static str,
}

impl CallLimits {
    /// kubelet limits `RunPodSandbox` to four minutes (twice its `runtimeRequestTimeout`). containerd passes that limit
    /// on to CNI, CRI-O adds five minutes, and Multus has no timeout. Half a minute remains for the runtime and the pod's
    /// other networks. An IPAM plugin may need 110 s for an ADD, a device 20 s to return to the host, and duplicate
    /// address detection 10 s. The revert may need 60 s for the IPAM plugin's DEL, and 10 s for the rest.
    const ADD: Self = Self {
        operation: "an ADD",
        work: Duration::from_secs(140),
        revert: Duration::from_secs(70),
        because: "kubelet limits RunPodSandbox to 240 s, and the rest is reserved for the revert",
    };

    /// kubelet limits `StopPodSandbox` to two minutes. containerd limits the DEL after a failed ADD to one minute, and
    /// repeats it with the next `StopPodSandbox`; until then the journal keeps what is left.
    const DEL: Self = Self {
        operation: "a DEL",
        work: Duration::from_secs(110),
        revert: Duration::ZERO,
        because: "kubelet limits StopPodSandbox to 120 s",
    };

    /// By the specification no ADD begins during a GC, and the pod of that ADD has four minutes.
    const GC: Self = Self {
        operation: "a GC",
        because: "every ADD waits for it, and kubelet limits RunPodSandbox to 240 s",
        ..Self::DEL
    };

    /// No caller has a timeout for it.
    const CHECK: Self = Self { operation: "a CHECK", because: "the limit of a DEL", ..Self::DEL };

    /// kubelet considers a runtime dead that has not reported its status for thirty seconds.
    const STATUS: Self = Self {
        operation: "a STATUS",
        work: Duration::from_secs(20),
        revert: Duration::ZERO,
        because: "kubelet expects the runtime's status every 30 s",
    };

    fn of(operation: Operation) -> Self {
        match operation {
            Operation::Add => Self::ADD,
            Operation::Check => Self::CHECK,
            Operation::Gc => Self::GC,
            Operation::Status | Operation::Version => Self::STATUS,
            Operation::Del => Self::DEL,
        }
    }

    /// Applies the limits of a test: `SILKRAIL_BUDGET=1500` or, with the time for the revert, `SILKRAIL_BUDGET=1500:500`,
    /// in milliseconds. In debug builds only.
    #[cfg(debug_assertions)]
    fn or_from_env(self) -> Self {
        let Ok(limits) = std::env::var("SILKRAIL_BUDGET") else { return self };
        let (work, revert) = limits.split_once(':').unwrap_or((&limits, "0"));
        let time = |text: &str| text.parse().map(Duration::from_millis).ok();
        match (time(work), time(revert)) {
            (Some(work), Some(revert)) => Self { work, revert, ..self },
            _ => self,
        }
    }

    #[cfg(not(debug_assertions))]
    fn or_from_env(self) -> Self {
        self
    }
}

/// The time of one call. Clones are the same budget.
#[derive(Debug, Clone)]
pub struct Budget(Arc<BudgetInner>);

#[derive(Debug)]
struct BudgetInner {
    limits: CallLimits,
    state: Mutex<BudgetState>,
}

#[derive(Debug)]
struct BudgetState {
    /// The end of all waits, and the earlier one of the current share.
    end: Instant,
    share: Option<Instant>,
    /// The end of the revert.
    revert_end: Instant,
    spent: Vec<WaitTime>,
    /// Why a wait ended early.
    short: Option<BudgetExceeded>,
    is_reverting: bool,
}

/// The total time of the waits for one thing.
#[derive(Debug)]
struct WaitTime {
    what: &'static str,
    time: Duration,
    in_revert: bool,
}

/// The budget of the call that this process was started for.
static CALL: OnceLock<Budget> = OnceLock::new();

impl Budget {
    /// Begins the budget of the call that this process was started for.
    pub fn begin(operation: Operation) -> Self {
        CALL.get_or_init(|| Self::of(operation)).clone()
    }

    /// Returns the budget of the call that this process was started for. A plugin that another one of the same executable
    /// calls shares it. Without a call, returns a new budget of a DEL.
    pub fn of_call() -> Self {
        CALL.get().cloned().unwrap_or_else(|| Self::of(Operation::Del))
    }

    /// Returns a budget that begins now.
    pub fn of(operation: Operation) -> Self {
        Self::with(CallLimits::of(operation).or_from_env())
    }

    fn with(limits: CallLimits) -> Self {
        let end = now() + limits.work;
        let revert_end = end + limits.revert;
        let state =
            BudgetState { end, share: None, revert_end, spent: Vec::new(), short: None, is_reverting: false };
        Self(Arc::new(BudgetInner { limits, state: Mutex::new(state) }))
    }

    /// Returns the deadline of a wait for `what`, which may take `at_most` that long. The time of the wait is recorded
    /// when the deadline is dropped, so keep it until the wait is over.
    pub fn until(&self, what: &'static str, at_most: Duration) -> Deadline<'_> {
        let (began, state) = (now(), self.state());
        let end = state.share.map_or(state.end, |share| share.min(state.end));
        let cut = (end < began + at_most).then_some(if end < state.end {
            BudgetExceeded::Share
        } else {
            BudgetExceeded::Whole
        });
        Deadline { budget: self, what, began, at: end.min(began + at_most), cut }
    }

    /// Adds the time that is reserved for the revert.
    pub fn begin_revert(&self) {
        let mut state = self.state();
        (state.end, state.is_reverting) = (state.revert_end, true);
    }

    /// Limits all waits to an equal share for one of `among` tasks, until the result is dropped. So one task that never
    /// finishes does not use up the time of the others. A share is at least [a part](LEAST_SHARE) of the budget, if that
    /// is left. Otherwise tasks that need a little more than an equal share would never finish. Some time always remains
    /// for the steps after the tasks.
    #[must_use]
    pub fn share(&self, among: usize) -> BudgetShare<'_> {
        let mut state = self.state();
        let (now, among) = (now(), u32::try_from(among).unwrap_or(u32::MAX).max(1));
        let (left, part) = (state.end.saturating_duration_since(now), self.0.limits.work / LEAST_SHARE);
        let end = now + (left / among).max(part.min(left.saturating_sub(part / 2)));
        state.share = Some(end);
        drop(state);
        BudgetShare(self)
    }

    /// Adds the waits of the call to the details of its error, if the call failed because its budget was used up.
    #[must_use]
    pub fn explain(&self, error: Error) -> Error {
        let state = self.state();
        let CallLimits { operation, work, because, .. } = self.0.limits;
        let (work, spent) = (seconds(work), state.spent(false));
        let mut why = match state.short {
            None => return error,
            Some(BudgetExceeded::Whole) => {
                format!("the {work} that {operation} may wait are used up ({because}), by: {spent}")
            }
            Some(BudgetExceeded::Share) => format!(
                "one attachment has a share of the {work} that {operation} may wait ({because}); it waited for: {spent}"
            ),
        };
        if state.is_reverting {
            why.push_str(&format!("; the revert then waited for: {}", state.spent(true)));
        }
        why.push_str("; investigate the longest wait first; the call can be repeated");
        let details = if error.details.is_empty() { why } else { format!("{}; {why}", error.details) };
        error.with_details(details)
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetState {
    /// Lists the waits, the longest first.
    fn spent(&self, in_revert: bool) -> String {
        let reported = |spent: &&WaitTime| spent.in_revert == in_revert && spent.time >= MIN_REPORTED_WAIT;
        let mut spent: Vec<&WaitTime> = self.spent.iter().filter(reported).collect();
        spent.sort_by_key(|spent| std::cmp::Reverse(spent.time));
        let spent: Vec<String> = spent.into_iter().map(WaitTime::to_string).collect();
        if spent.is_empty() { "nothing".into() } else { spent.join(", ") }
    }
}

/// The limit that cut a wait short. The later variant is the more severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BudgetExceeded {
    /// The share of one task among many.
    Share,
    /// The budget of the call.
    Whole,
}

/// A share is at least the budget divided by this.
const LEAST_SHARE: u32 = 5;

/// Shorter waits are not reported.
const MIN_REPORTED_WAIT: Duration = Duration::from_millis(50);

/// The end of one wait.
#[derive(Debug)]
pub struct Deadline<'a> {
    budget: &'a Budget,
    what: &'static str,
    began: Instant,
    at: Instant,
    /// The limit that made the wait shorter than requested.
    cut: Option<BudgetExceeded>,
}

impl Deadline<'_> {
    /// Returns the moment of the deadline.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Returns the time until the deadline; zero once it has passed.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(now())
    }

    /// Whether the deadline has passed.
    pub fn has_passed(&self) -> bool {
        self.left().is_zero()
    }

    /// Returns the time waited so far.
    pub fn waited(&self) -> Duration {
        now().saturating_duration_since(self.began)
    }
}

impl state::LockDeadline for Deadline<'_> {
    fn at(&self) -> Instant {
        self.at
    }
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        let (time, short) = (self.waited(), self.cut.filter(|_| self.has_passed()));
        let mut state = self.budget.state();
        state.short = state.short.max(short);
        let in_revert = state.is_reverting;
        let same = |spent: &&mut WaitTime| spent.what == self.what && spent.in_revert == in_revert;
        match state.spent.iter_mut().find(same) {
            Some(spent) => spent.time += time,
            None => state.spent.push(WaitTime { what: self.what, time, in_revert }),
        }
    }
}

/// Limits a call to a share of its budget until it is dropped.
#[derive(Debug)]
pub struct BudgetShare<'a>(&'a Budget);

impl Drop for BudgetShare<'_> {
    fn drop(&mut self) {
        self.0.state().share = None;
    }
}

impl fmt::Display for WaitTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, seconds(self.time))
    }
}

/// Returns the time, which tests can stop.
fn now() -> Instant {
    #[cfg(test)]
    if let Some(stopped) = tests::stopped_clock() {
        return stopped;
    }
    Instant::now()
}

/// Formats a duration for messages: `110 s`, `1.5 s`.
pub fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests;
