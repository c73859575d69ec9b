//! Counters over time: what they would be if they never began anew, and whose the increments are.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    Pod,
    catalogue::{Direction, Metric, Role},
    sheet::{self, Sheet},
};

/// How a number came to be a pod's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attribution {
    /// The device is in the pod's namespace.
    ExclusiveNetns,
    /// No other process had a queue pair on the device.
    SoleUser,
    /// The kernel bound counters of their own to the pod's processes.
    PidCounter,
    /// From packet sequence numbers of the pod's queue pairs.
    Psn,
}

impl Attribution {
    /// As it is named in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExclusiveNetns => "exclusive-netns",
            Self::SoleUser => "sole-user",
            Self::PidCounter => "pid-counter",
            Self::Psn => "psn",
        }
    }
}

/// Whose everything on a device is at a moment, and how that is known.
pub(crate) type Owner = Option<(Arc<Pod>, Attribution)>;

/// What a pod has done on a port, by metric, since it was first seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    pub(crate) lines: Vec<(Arc<Metric>, u64)>,
}

/// A pod's accounts: device, port, attribution.
pub(crate) type Accounts = BTreeMap<(String, u32, Attribution), Account>;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    ports: HashMap<(u32, u32), PortLedger>,
    accounts: BTreeMap<Arc<Pod>, Accounts>,
}

#[derive(Debug, Default)]
struct PortLedger {
    lines: Vec<Kept>,
    owner: Owner,
    /// Bytes that no pod could be named for.
    unattributed: BTreeMap<Direction, u64>,
    seen: bool,
}

/// A counter as it was when it was last read.
#[derive(Debug)]
struct Kept {
    metric: Arc<Metric>,
    raw: u64,
    /// What came before its last turn.
    base: u64,
}

impl Ledger {
    /// Enters what a port's counters say now: their values become those that would be shown had they never begun anew,
    /// and the increments go to the pod that has had the port to itself since the last entry.
    pub(crate) fn enter(&mut self, device: (u32, &str), port: u32, owner: Owner, sheet: &mut Sheet) {
        let ledger = self.ports.entry((device.0, port)).or_default();
        ledger.seen = true;
        let is_new = ledger.lines.is_empty();
        let deltas = ledger.update(sheet);
        let former = std::mem::replace(&mut ledger.owner, owner.clone());
        if let Some((pod, attribution)) = owner {
            let key = (device.1.to_owned(), port, attribution);
            let account = self.accounts.entry(pod.clone()).or_default().entry(key).or_default();
            account.open(sheet);
            if former.is_some_and(|(before, _)| before == pod) {
                account.add(&deltas);
                return;
            }
        }
        if !is_new {
            ledger.forgo(&deltas);
        }
    }

    /// Forgets the ports that were not entered since the last call, and the pods that are gone.
    pub(crate) fn forget(&mut self, lives: impl Fn(&Pod) -> bool) {
        self.ports.retain(|_, port| std::mem::take(&mut port.seen));
        self.accounts.retain(|pod, _| lives(pod));
    }

    /// What pods have done.
    pub(crate) fn accounts(&self) -> &BTreeMap<Arc<Pod>, Accounts> {
        &self.accounts
    }

    /// Bytes of a port that no pod could be named for.
    pub(crate) fn unattributed(&self, device: u32, port: u32) -> impl Iterator<Item = (Direction, u64)> {
        let ledger = self.ports.get(&(device, port));
        ledger.into_iter().flat_map(|ledger| ledger.unattributed.iter().map(|(way, bytes)| (*way, *bytes)))
    }
}

impl PortLedger {
    /// Puts the unbroken values into the sheet and returns the increments since the last entry.
    fn update(&mut self, sheet: &mut Sheet) -> Vec<(Arc<Metric>, u64)> {
        let mut lines = Vec::with_capacity(sheet.lines.len());
        let mut deltas = Vec::with_capacity(sheet.lines.len());
        for (at, line) in sheet.lines.iter_mut().enumerate() {
            if line.metric.is_gauge {
                continue;
            }
            let raw = line.value;
            let kept = self.take(at, &line.metric);
            let (base, delta) = kept.map_or((0, 0), |kept| kept.advance(raw));
            line.value = base.wrapping_add(raw);
            deltas.push((line.metric.clone(), delta));
            lines.push(Kept { metric: line.metric.clone(), raw, base });
        }
        self.lines = lines;
        deltas
    }

    /// The former state of a metric: nearly always at the same place.
    fn take(&self, at: usize, metric: &Arc<Metric>) -> Option<&Kept> {
        let same = |kept: &&Kept| Arc::ptr_eq(&kept.metric, metric);
        self.lines.get(at).filter(same).or_else(|| self.lines.iter().find(same))
    }

    fn forgo(&mut self, deltas: &[(Arc<Metric>, u64)]) {
        for ((role, _), sum) in sheet::roles(deltas.iter().map(|(metric, delta)| (&**metric, *delta))) {
            if let Role::Bytes(direction) = role {
                *self.unattributed.entry(direction).or_default() += sum;
            }
        }
    }
}

impl Kept {
    /// The base of the next value, and the increment. A counter of 32 bits that was nearly full has turned over; any
    /// other that fell has begun anew, as after a driver was loaded again.
    fn advance(&self, raw: u64) -> (u64, u64) {
        const TURN: u64 = 1 << 32;
        if raw >= self.raw {
            return (self.base, raw - self.raw);
        }
        let nearly_full = TURN / 2 <= self.raw && self.raw < TURN;
        if self.metric.wraps && nearly_full && raw + TURN - self.raw < TURN / 2 {
            return (self.base + TURN, raw + TURN - self.raw);
        }
        (0, raw)
    }
}

impl Account {
    /// Has a line for everything that is counted, so that a series begins at zero.
    fn open(&mut self, sheet: &Sheet) {
        let counted = sheet.lines.iter().filter(|line| !line.metric.is_gauge);
        for (at, line) in counted.enumerate() {
            if self.find(at, &line.metric).is_none() {
                self.lines.push((line.metric.clone(), 0));
            }
        }
    }

    fn add(&mut self, deltas: &[(Arc<Metric>, u64)]) {
        for (at, (metric, delta)) in deltas.iter().enumerate() {
            if let Some(place) = self.find(at, metric) {
                self.lines[place].1 = self.lines[place].1.wrapping_add(*delta);
            }
        }
    }

    fn find(&self, at: usize, metric: &Arc<Metric>) -> Option<usize> {
        let same = |line: &(Arc<Metric>, u64)| Arc::ptr_eq(&line.0, metric);
        match self.lines.get(at) {
            Some(line) if same(line) => Some(at),
            _ => self.lines.iter().position(same),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        catalogue::{Catalogue, Source},
        sheet::Line,
    };

    struct Test {
        ledger: Ledger,
        catalogue: Catalogue,
    }

    impl Test {
        fn new() -> Self {
            Self { ledger: Ledger::default(), catalogue: Catalogue::default() }
        }

        /// Enters values of `out_of_sequence` and `port_rcv_data`, and returns the first as it is shown.
        fn enter(&mut self, owner: Owner, sequence: u64, words: u64) -> u64 {
            let mut line =
                |source, name, value| Line { metric: self.catalogue.metric(source, name).unwrap(), value };
            let mut sheet = Sheet {
                lines: vec![
                    line(Source::Hardware, "out_of_sequence", sequence),
                    line(Source::Standard, "port_rcv_data", words),
                ],
            };
            self.ledger.enter((7, "mlx5_0"), 1, owner, &mut sheet);
            sheet.lines[0].value
        }

        fn of(&self, pod: &Arc<Pod>) -> Option<u64> {
            let accounts = self.ledger.accounts.get(pod)?;
            Some(accounts.values().map(|account| account.lines[0].1).sum())
        }

        fn lost(&self) -> u64 {
            self.ledger.unattributed(7, 1).map(|(_, bytes)| bytes).sum()
        }
    }

    fn pod(name: &str, uid: &str) -> Arc<Pod> {
        Arc::new(Pod { namespace: "ml".into(), name: name.into(), uid: Some(uid.into()) })
    }

    fn alone(pod: &Arc<Pod>) -> Owner {
        Some((pod.clone(), Attribution::SoleUser))
    }

    #[test]
    fn a_counter_of_32_bits_that_turns_over_goes_on() {
        let mut test = Test::new();
        assert_eq!(test.enter(None, 4294967290, 0), 4294967290);
        assert_eq!(test.enter(None, 4, 0), 4294967300);
        assert_eq!(test.enter(None, 5, 0), 4294967301);
    }

    #[test]
    fn a_counter_that_begins_anew_is_shown_so() {
        let mut test = Test::new();
        test.enter(None, 4294967290, 0);
        test.enter(None, 4, 0);
        assert_eq!(test.enter(None, 3, 0), 3, "not a turn: it was not nearly full");
        let a = pod("a", "1");
        test.enter(alone(&a), 100, 0);
        test.enter(alone(&a), 2, 0);
        assert_eq!(test.of(&a), Some(2), "what it counted since");
    }

    #[test]
    fn increments_are_the_pod_s_while_it_is_alone() {
        let (mut test, a, b) = (Test::new(), pod("a", "1"), pod("b", "2"));
        test.enter(None, 1000, 1000);
        test.enter(alone(&a), 1010, 1010);
        assert_eq!((test.of(&a), test.lost()), (Some(0), 40), "nobody saw whose the first ten were");
        test.enter(alone(&a), 1015, 1015);
        assert_eq!((test.of(&a), test.lost()), (Some(5), 40));
        test.enter(None, 1020, 1020); // b came
        assert_eq!((test.of(&a), test.lost()), (Some(5), 60));
        test.enter(alone(&b), 1030, 1030); // a went
        test.enter(alone(&b), 1033, 1033);
        assert_eq!((test.of(&a), test.of(&b), test.lost()), (Some(5), Some(3), 100));
    }

    #[test]
    fn a_pod_made_again_under_its_name_starts_anew() {
        let (mut test, first, second) = (Test::new(), pod("a", "1"), pod("a", "2"));
        test.enter(alone(&first), 0, 0);
        test.enter(alone(&first), 9, 0);
        test.ledger.forget(|pod| pod.uid.as_deref() == Some("2"));
        test.enter(alone(&second), 9, 0);
        assert_eq!((test.of(&first), test.of(&second)), (None, Some(0)));
    }

    #[test]
    fn a_pod_that_lives_keeps_its_last_value() {
        let (mut test, a) = (Test::new(), pod("a", "1"));
        test.enter(alone(&a), 0, 0);
        test.enter(alone(&a), 9, 0);
        for _ in 0..3 {
            test.enter(None, 20, 0);
            test.ledger.forget(|_| true);
        }
        assert_eq!(test.of(&a), Some(9));
    }

    #[test]
    fn a_port_that_went_is_forgotten() {
        let mut test = Test::new();
        test.enter(None, 4294967290, 0);
        test.ledger.forget(|_| true);
        test.ledger.forget(|_| true);
        assert_eq!(test.enter(None, 4, 0), 4);
    }
}
