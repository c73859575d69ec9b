//! How long a call may take: one budget for all its waits.
//!
//! A runtime that loses its patience kills the plugin, and its error with it: nobody learns what was waited for. So
//! every wait of a call gets its deadline here ([`Budget::until`]), and a call whose waits come to more than it has
//! fails by itself, says what the time went into, and has taken back what it made.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use cni::{Error, Operation};

/// What a call may wait for, and how long what it made may then take to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CallLimits {
    verb: &'static str,
    work: Duration,
    take_back: Duration,
    /// Who waits for the call, and how long.
    because: &'static str,
}

impl CallLimits {
    /// A kubelet gives `RunPodSandbox` four minutes (twice its `runtimeRequestTimeout`), containerd hands that on to
    /// CNI, and CRI-O adds five minutes of its own; Multus has none. Of the four, half a minute is for the runtime and
    /// for the pod's other networks. An IPAM plugin may need 110 s for an ADD, a device twenty to come home, duplicate
    /// address detection ten; then 60 s for the IPAM plugin's DEL, and ten for what else is taken back.
    const ADD: Self = Self {
        verb: "an ADD",
        work: Duration::from_secs(140),
        take_back: Duration::from_secs(70),
        because: "a kubelet gives a pod's sandbox 240 s, and the rest is for taking back",
    };

    /// A kubelet gives `StopPodSandbox` two minutes. containerd gives the DEL after a failed ADD one, and calls again
    /// with the next `StopPodSandbox`; the journal keeps what is left until then.
    const DEL: Self = Self {
        verb: "a DEL",
        work: Duration::from_secs(110),
        take_back: Duration::ZERO,
        because: "a kubelet gives the end of a sandbox 120 s",
    };

    /// By the specification no ADD begins before a GC is over, and that ADD's pod has four minutes.
    const GC: Self =
        Self { verb: "a GC", because: "every ADD waits for it, and has 240 s of the kubelet's", ..Self::DEL };

    /// Nobody calls it with a deadline.
    const CHECK: Self = Self { verb: "a CHECK", because: "so has a DEL", ..Self::DEL };

    /// A kubelet takes a runtime for dead that does not tell its status for thirty seconds.
    const STATUS: Self = Self {
        verb: "a STATUS",
        work: Duration::from_secs(20),
        take_back: Duration::ZERO,
        because: "a kubelet gives the runtime 30 s to tell its status",
    };

    fn of(verb: Operation) -> Self {
        match verb {
            Operation::Add => Self::ADD,
            Operation::Check => Self::CHECK,
            Operation::Gc => Self::GC,
            Operation::Status | Operation::Version => Self::STATUS,
            Operation::Del => Self::DEL,
        }
    }

    /// As a test ordered: `SILKRAIL_BUDGET=1500` or, with what is for taking back, `SILKRAIL_BUDGET=1500:500`, in
    /// milliseconds; in debug builds only.
    #[cfg(debug_assertions)]
    fn ordered(self) -> Self {
        let Ok(order) = std::env::var("SILKRAIL_BUDGET") else { return self };
        let (work, take_back) = order.split_once(':').unwrap_or((&order, "0"));
        let time = |text: &str| text.parse().map(Duration::from_millis).ok();
        match (time(work), time(take_back)) {
            (Some(work), Some(take_back)) => Self { work, take_back, ..self },
            _ => self,
        }
    }

    #[cfg(not(debug_assertions))]
    fn ordered(self) -> Self {
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
    /// When the waits end, unless a share of the time is all there is for the present one.
    end: Instant,
    share: Option<Instant>,
    /// When what was made is to be taken back.
    last: Instant,
    spent: Vec<WaitTime>,
    /// Why a wait ended early.
    short: Option<BudgetExceeded>,
    turned_back: bool,
}

/// What the waits for one thing came to.
#[derive(Debug)]
struct WaitTime {
    what: &'static str,
    time: Duration,
    taking_back: bool,
}

/// The budget of the call that this process was started for.
static CALL: OnceLock<Budget> = OnceLock::new();

impl Budget {
    /// Begins the budget of the call that this process was started for.
    pub fn begin(verb: Operation) -> Self {
        CALL.get_or_init(|| Self::of(verb)).clone()
    }

    /// The budget of the call that this process was started for: a plugin that is called by another one of the same
    /// executable has no other. Who was not started for a call has the time of a DEL for what it does.
    pub fn of_call() -> Self {
        CALL.get().cloned().unwrap_or_else(|| Self::of(Operation::Del))
    }

    /// A budget that begins now.
    pub fn of(verb: Operation) -> Self {
        Self::with(CallLimits::of(verb).ordered())
    }

    fn with(limits: CallLimits) -> Self {
        let end = Instant::now() + limits.work;
        let last = end + limits.take_back;
        let state =
            BudgetState { end, share: None, last, spent: Vec::new(), short: None, turned_back: false };
        Self(Arc::new(BudgetInner { limits, state: Mutex::new(state) }))
    }

    /// The deadline of a wait for `what`, which may take `at_most` so long. What it took is noted when the deadline is
    /// dropped: keep it as long as the wait.
    pub fn until(&self, what: &'static str, at_most: Duration) -> Deadline<'_> {
        let (began, state) = (Instant::now(), self.state());
        let end = state.share.map_or(state.end, |share| share.min(state.end));
        let cut = (end < began + at_most).then_some(if end < state.end {
            BudgetExceeded::Share
        } else {
            BudgetExceeded::Whole
        });
        Deadline { budget: self, what, began, at: end.min(began + at_most), cut }
    }

    /// From now on there is also the time that was kept for taking back what was made.
    pub fn begin_revert(&self) {
        let mut state = self.state();
        (state.end, state.turned_back) = (state.last, true);
    }

    /// While the result lives, there is no more time than the share of one among `among`: of many things to be done,
    /// one that takes for ever must not keep the others from it. A share is at least [a part](LEAST_SHARE) of the whole,
    /// while there is so much, or many that take a little longer than their share would never be done; and a share is
    /// left for what comes after all of them.
    #[must_use]
    pub fn share(&self, among: usize) -> BudgetShare<'_> {
        let mut state = self.state();
        let (now, among) = (Instant::now(), u32::try_from(among).unwrap_or(u32::MAX).max(1));
        let (left, part) = (state.end.saturating_duration_since(now), self.0.limits.work / LEAST_SHARE);
        let end = now + (left / among).max(part.min(left.saturating_sub(part / 2)));
        state.share = Some(end);
        drop(state);
        BudgetShare(self)
    }

    /// The error of a call, with what its time went into if that is why it failed.
    #[must_use]
    pub fn explain(&self, error: Error) -> Error {
        let state = self.state();
        let CallLimits { verb, work, because, .. } = self.0.limits;
        let (work, spent) = (seconds(work), state.spent(false));
        let mut why = match state.short {
            None => return error,
            Some(BudgetExceeded::Whole) => {
                format!("the {work} that {verb} may wait are used up ({because}), by: {spent}")
            }
            Some(BudgetExceeded::Share) => {
                format!(
                    "one attachment has a share of the {work} that {verb} may wait ({because}); waited for: {spent}"
                )
            }
        };
        if state.turned_back {
            why.push_str(&format!("; then taking back waited for: {}", state.spent(true)));
        }
        why.push_str("; look into the longest first; the call can be repeated");
        let details = if error.details.is_empty() { why } else { format!("{}; {why}", error.details) };
        error.with_details(details)
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetState {
    /// What was waited for, the longest first.
    fn spent(&self, taking_back: bool) -> String {
        let told = |spent: &&WaitTime| spent.taking_back == taking_back && spent.time >= MIN_REPORTED_WAIT;
        let mut spent: Vec<&WaitTime> = self.spent.iter().filter(told).collect();
        spent.sort_by_key(|spent| std::cmp::Reverse(spent.time));
        let spent: Vec<String> = spent.into_iter().map(WaitTime::to_string).collect();
        if spent.is_empty() { "nothing".into() } else { spent.join(", ") }
    }
}

/// What a wait had too little of. The later is the graver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum BudgetExceeded {
    /// The share of one among many.
    Share,
    /// The time of the call.
    Whole,
}

/// A share is at least the whole divided by this.
const LEAST_SHARE: u32 = 5;

/// What is shorter is not worth a word.
const MIN_REPORTED_WAIT: Duration = Duration::from_millis(50);

/// When a wait ends.
#[derive(Debug)]
pub struct Deadline<'a> {
    budget: &'a Budget,
    what: &'static str,
    began: Instant,
    at: Instant,
    /// What the wait would have been given more time by.
    cut: Option<BudgetExceeded>,
}

impl Deadline<'_> {
    /// The moment.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// How long it is until then.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Whether it is over.
    pub fn has_passed(&self) -> bool {
        self.left().is_zero()
    }

    /// How long was waited so far.
    pub fn waited(&self) -> Duration {
        self.began.elapsed()
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
        let taking_back = state.turned_back;
        let same = |spent: &&mut WaitTime| spent.what == self.what && spent.taking_back == taking_back;
        match state.spent.iter_mut().find(same) {
            Some(spent) => spent.time += time,
            None => state.spent.push(WaitTime { what: self.what, time, taking_back }),
        }
    }
}

/// While it lives, a call has a share of its time only.
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

/// A time as people read it: `110 s`, `1.5 s`.
pub fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests;
