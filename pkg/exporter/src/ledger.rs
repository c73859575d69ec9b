//! Counters over time: what they would be if they never began anew, and whose the increments are.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    Pod,
    catalogue::{Direction, Metric, Role},
    layout::{Layout, Making, Sheet, Sum},
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
    /// Whether numbers of this one are better than another's of the same pod on the same port: they are the pod's own at
    /// every moment, not only while it is alone.
    pub(crate) fn goes_before(self, other: Self) -> bool {
        let rank = |one| match one {
            Self::ExclusiveNetns => 0,
            Self::PidCounter => 1,
            Self::Psn => 2,
            Self::SoleUser => 3,
        };
        rank(self) < rank(other)
    }

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

/// A port of the node: the device's number, and the port's; 0 is the device as a whole.
pub(crate) type PortKey = (u32, u32);

/// Where a pod has an account: device, port, attribution.
pub(crate) type AccountKey = (String, u32, Attribution);

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    ports: HashMap<PortKey, PortLedger>,
    pods: Pods,
}

/// The accounts of pods.
#[derive(Debug, Default)]
struct Pods {
    accounts: BTreeMap<Arc<Pod>, BTreeMap<AccountKey, Sheet>>,
    /// Which pod had its first account when.
    opened: HashMap<Arc<Pod>, usize>,
    count: usize,
}

#[derive(Debug)]
struct PortLedger {
    layout: Arc<Layout>,
    /// The values as they were last read.
    raw: Vec<u64>,
    /// What came before the last turn of each.
    base: Vec<u64>,
    /// The same of counters that are not told now: a stage was late, or a command of the firmware failed.
    absent: Vec<(Arc<Metric>, u64, u64)>,
    /// From what each sum is made: the best there was.
    makings: BTreeMap<(Role, Option<String>), Making>,
    /// A layout with sums that are made otherwise now, and the same without these.
    lacking: Option<(Arc<Layout>, Arc<Layout>)>,
    owner: Owner,
    /// Bytes that no pod could be named for.
    unattributed: BTreeMap<Direction, u64>,
    seen: bool,
}

impl Ledger {
    /// The layout that a port had.
    pub(crate) fn layout(&self, port: PortKey) -> Option<&Arc<Layout>> {
        self.ports.get(&port).map(|ledger| &ledger.layout)
    }

    /// Enters what a port's counters say now: their values become those that would be shown had they never begun anew,
    /// and the increments go to the pod that has had the port to itself since the last entry.
    pub(crate) fn enter(&mut self, port: PortKey, device: &str, owner: Owner, sheet: &mut Sheet) {
        let (ledger, deltas) = match self.ports.remove(&port) {
            Some(mut ledger) => {
                let deltas = ledger.advance(sheet);
                (ledger, Some(deltas))
            }
            None => (PortLedger::begin(sheet), None),
        };
        let ledger = self.ports.entry(port).or_insert(ledger);
        let former = std::mem::replace(&mut ledger.owner, owner.clone());
        let stayed = owner.as_ref().map(|(pod, _)| pod) == former.as_ref().map(|(pod, _)| pod);
        // A pod's account has every counter, so its sums stay made as they are.
        let whole = Sheet { layout: sheet.layout.clone(), values: Vec::new() };
        ledger.leave_out_strange_sums(sheet);
        if let Some((pod, attribution)) = owner {
            let key = (device.to_owned(), port.1, attribution);
            let account = self.pods.of(pod).entry(key);
            let account = account.or_insert_with(|| whole.empty());
            account.follow(&whole.layout);
            if let Some(deltas) = deltas.as_ref().filter(|_| stayed) {
                account.add(deltas);
                return;
            }
        }
        if let Some(deltas) = deltas {
            ledger.forgo(&deltas);
        }
    }

    /// Adds increments to a pod's account.
    pub(crate) fn credit(&mut self, pod: Arc<Pod>, key: AccountKey, increments: &Sheet) {
        let account = self.pods.of(pod).entry(key).or_insert_with(|| increments.empty());
        account.follow(&increments.layout);
        account.add(increments);
    }

    /// Replaces a pod's account.
    pub(crate) fn replace(&mut self, pod: Arc<Pod>, key: AccountKey, totals: Sheet) {
        self.pods.of(pod).insert(key, totals);
    }

    /// Forgets the ports that were not entered since the last call, and the pods that are gone.
    pub(crate) fn forget(&mut self, lives: impl Fn(&Pod) -> bool) {
        self.ports.retain(|_, port| std::mem::take(&mut port.seen));
        self.pods.retain(lives);
    }

    /// Forgets accounts on devices that are not called so any more: a pod may rename its device as often as it likes. What
    /// was counted for processes does not come from the device's reading.
    pub(crate) fn forget_devices(&mut self, is_there: impl Fn(&str) -> bool) {
        for accounts in self.pods.accounts.values_mut() {
            accounts.retain(|(device, _, how), _| {
                is_there(device) || matches!(how, Attribution::Psn | Attribution::PidCounter)
            });
        }
    }

    /// What pods have done since they were first seen.
    pub(crate) fn accounts(&self) -> &BTreeMap<Arc<Pod>, BTreeMap<AccountKey, Sheet>> {
        &self.pods.accounts
    }

    /// Bytes of a port that no pod could be named for.
    pub(crate) fn unattributed(&self, port: PortKey) -> impl Iterator<Item = (Direction, u64)> {
        let ledger = self.ports.get(&port);
        ledger.into_iter().flat_map(|ledger| ledger.unattributed.iter().map(|(way, bytes)| (*way, *bytes)))
    }
}

impl Pods {
    /// A pod's accounts.
    fn of(&mut self, pod: Arc<Pod>) -> &mut BTreeMap<AccountKey, Sheet> {
        if !self.opened.contains_key(&pod) {
            self.count += 1;
            self.opened.insert(pod.clone(), self.count);
        }
        self.accounts.entry(pod).or_default()
    }

    /// Keeps those of pods that live. Of two with one name the node knows the former one for a while: it is gone once
    /// the new one has an account.
    fn retain(&mut self, lives: impl Fn(&Pod) -> bool) {
        let mut newest: HashMap<(&str, &str), usize> = HashMap::new();
        for (pod, opened) in &self.opened {
            let of_name = newest.entry((&pod.namespace, &pod.name)).or_default();
            *of_name = (*of_name).max(*opened);
        }
        let is_newest = |pod: &Pod, opened: usize| newest[&(&*pod.namespace, &*pod.name)] == opened;
        let keep =
            |pod: &Pod| self.opened.get(pod).is_some_and(|opened| is_newest(pod, *opened)) && lives(pod);
        self.accounts.retain(|pod, _| keep(pod));
        // The former one keeps its place, or it would be the newest as soon as something is told of it again.
        self.opened.retain(|pod, _| lives(pod));
    }
}

impl PortLedger {
    fn begin(sheet: &Sheet) -> Self {
        Self {
            layout: sheet.layout.clone(),
            raw: sheet.values.clone(),
            base: vec![0; sheet.values.len()],
            absent: Vec::new(),
            makings: BTreeMap::new(),
            lacking: None,
            owner: None,
            unattributed: directions(&sheet.layout).map(|direction| (direction, 0)).collect(),
            seen: true,
        }
    }

    /// Puts the unbroken values into the sheet and returns the increments since the last entry.
    fn advance(&mut self, sheet: &mut Sheet) -> Sheet {
        self.seen = true;
        self.follow(sheet);
        let mut deltas = sheet.empty();
        let metrics = sheet.layout.shown.iter().map(|shown| &shown.metric);
        for (at, (metric, value)) in metrics.zip(&mut sheet.values).enumerate() {
            if metric.is_gauge {
                continue;
            }
            let raw = *value;
            (self.base[at], deltas.values[at]) = turn(metric.wraps, self.raw[at], self.base[at], raw);
            self.raw[at] = raw;
            *value = self.base[at].wrapping_add(raw);
        }
        deltas
    }

    /// Takes on the sheet's layout, if it is another: a counter that is new has not grown yet.
    fn follow(&mut self, sheet: &Sheet) {
        if Arc::ptr_eq(&self.layout, &sheet.layout) {
            return;
        }
        for (at, shown) in self.layout.shown.iter().enumerate() {
            self.absent.push((shown.metric.clone(), self.raw[at], self.base[at]));
        }
        (self.raw, self.base) = (sheet.values.clone(), vec![0; sheet.values.len()]);
        for (at, shown) in sheet.layout.shown.iter().enumerate() {
            let is_it = |(metric, ..): &(Arc<Metric>, u64, u64)| Arc::ptr_eq(metric, &shown.metric);
            if let Some(place) = self.absent.iter().position(is_it) {
                (_, self.raw[at], self.base[at]) = self.absent.swap_remove(place);
            }
        }
        self.layout = sheet.layout.clone();
    }

    /// A sum of another source than before, or of a part less, would look like a counter that began anew. It is left out
    /// of the sheet until it is made as before, or better.
    fn leave_out_strange_sums(&mut self, sheet: &mut Sheet) {
        let mut is_lacking = false;
        for sum in &sheet.layout.sums {
            let making = self.makings.entry((sum.role, sum.priority.clone())).or_insert(sum.making());
            if is_better(sum.making(), *making) {
                *making = sum.making();
            }
            is_lacking |= sum.making() != *making;
        }
        if !is_lacking {
            return;
        }
        if self.lacking.as_ref().is_none_or(|(whole, _)| !Arc::ptr_eq(whole, &sheet.layout)) {
            let as_before = |sum: &Sum| {
                self.makings
                    .get(&(sum.role, sum.priority.clone()))
                    .is_some_and(|making| *making == sum.making())
            };
            let without = Arc::new(sheet.layout.without_sums(as_before));
            self.lacking = Some((sheet.layout.clone(), without));
        }
        if let Some((_, without)) = &self.lacking {
            sheet.layout = without.clone();
        }
    }

    fn forgo(&mut self, deltas: &Sheet) {
        for (sum, value) in deltas.sums() {
            if let Role::Bytes(direction) = sum.role {
                *self.unattributed.entry(direction).or_default() += value;
            }
        }
    }
}

/// The base of the next value, and the increment. A counter of 32 bits that was nearly full has turned over; any other
/// that fell has begun anew, as after a driver was loaded again.
pub(crate) fn turn(wraps: bool, before: u64, base: u64, raw: u64) -> (u64, u64) {
    const TURN: u64 = 1 << 32;
    if raw >= before {
        return (base, raw - before);
    }
    let was_nearly_full = (TURN / 2..TURN).contains(&before);
    if wraps && was_nearly_full && raw + TURN - before < TURN / 2 {
        return (base + TURN, raw + TURN - before);
    }
    (0, raw)
}

/// The directions in which bytes are counted.
fn directions(layout: &Layout) -> impl Iterator<Item = Direction> {
    layout.sums.iter().filter_map(|sum| match sum.role {
        Role::Bytes(direction) => Some(direction),
        _ => None,
    })
}

/// Whether a sum is made of a better known source, or of more parts.
fn is_better((rank, parts): Making, (than_rank, than_parts): Making) -> bool {
    rank < than_rank || rank == than_rank && parts > than_parts
}

/// For each counter of a new layout its place in an old one.
fn places(old: &Layout, new: &Layout) -> Vec<Option<usize>> {
    let place = |wanted: &crate::layout::Shown| {
        old.shown.iter().position(|shown| Arc::ptr_eq(&shown.metric, &wanted.metric))
    };
    new.shown.iter().map(place).collect()
}

impl Sheet {
    /// The same counters, all zero.
    fn empty(&self) -> Self {
        Self { layout: self.layout.clone(), values: vec![0; self.layout.shown.len()] }
    }

    /// Takes on another layout, if nothing is lost by that.
    fn follow(&mut self, layout: &Arc<Layout>) {
        if !Arc::ptr_eq(&self.layout, layout) && layout.has_all(&self.layout) {
            let places = places(&self.layout, layout);
            self.values = places.iter().map(|place| place.map_or(0, |place| self.values[place])).collect();
            self.layout = layout.clone();
        }
    }

    /// Adds increments.
    fn add(&mut self, deltas: &Self) {
        if Arc::ptr_eq(&self.layout, &deltas.layout) {
            for (value, delta) in self.values.iter_mut().zip(&deltas.values) {
                *value = value.wrapping_add(*delta);
            }
            return;
        }
        for (place, delta) in places(&self.layout, &deltas.layout).into_iter().zip(&deltas.values) {
            if let Some(place) = place {
                self.values[place] = self.values[place].wrapping_add(*delta);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layouts, tests::port};

    struct Test {
        ledger: Ledger,
        layouts: Layouts,
    }

    const PORT: PortKey = (7, 1);

    impl Test {
        fn new() -> Self {
            Self { ledger: Ledger::default(), layouts: Layouts::default() }
        }

        /// Enters values of `out_of_sequence` and `port_rcv_data`, and returns the first as it is shown.
        fn enter(&mut self, owner: Owner, sequence: u64, words: u64) -> u64 {
            self.enter_with(owner, &[("out_of_sequence", sequence)], words)
        }

        fn enter_with(&mut self, owner: Owner, hw: &[(&str, u64)], words: u64) -> u64 {
            let port = port(hw, &[("port_rcv_data", words)], &[]);
            let mut sheet = Sheet::of_port(&port, &mut self.layouts, self.ledger.layout(PORT));
            self.ledger.enter(PORT, "mlx5_0", owner, &mut sheet);
            sheet.values[0]
        }

        fn of(&self, pod: &Arc<Pod>) -> Option<u64> {
            let accounts = self.ledger.accounts().get(pod)?;
            Some(accounts.values().map(|account| account.values[0]).sum())
        }

        fn lost(&self) -> u64 {
            self.ledger.unattributed(PORT).map(|(_, bytes)| bytes).sum()
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
    fn what_was_counted_before_the_first_reading_is_nobody_s() {
        let (mut test, a) = (Test::new(), pod("a", "1"));
        test.enter(alone(&a), 1000, 1000);
        assert_eq!((test.of(&a), test.lost()), (Some(0), 0));
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
    fn of_two_pods_with_one_name_the_newer_one_is_told_of() {
        let (mut test, first, second) = (Test::new(), pod("a", "2"), pod("a", "1"));
        test.enter(alone(&first), 0, 0);
        test.enter(alone(&second), 9, 0);
        test.ledger.forget(|_| true);
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

    #[test]
    fn counters_that_come_and_go_do_not_disturb_the_others() {
        let (mut test, a) = (Test::new(), pod("a", "1"));
        test.enter(alone(&a), 4294967290, 10);
        test.enter_with(alone(&a), &[("new", 500), ("out_of_sequence", 4294967295)], 20);
        let account = test.ledger.accounts()[&a].values().next().unwrap().clone();
        assert_eq!(account.values, [0, 5, 10], "what is new has not grown");
        assert_eq!(test.enter(alone(&a), 4, 25), 4294967300);
        let account = test.ledger.accounts()[&a].values().next().unwrap();
        assert_eq!(account.values, [0, 10, 15], "what is absent keeps what it had");
        assert_eq!(test.lost(), 0);
    }

    #[test]
    fn a_counter_that_is_absent_once_goes_on_where_it_was() {
        let (mut test, a) = (Test::new(), pod("a", "1"));
        test.enter(alone(&a), 4294967290, 0);
        assert_eq!(test.enter(alone(&a), 4, 0), 4294967300);
        test.enter_with(alone(&a), &[("other", 1)], 0);
        assert_eq!(test.enter(alone(&a), 6, 0), 4294967302, "not 6: it had turned over");
        assert_eq!(test.of(&a), Some(12));
    }

    /// What a port's bytes are, in the shown sums, with these counters.
    fn bytes(test: &mut Test, standard: &[(&str, u64)], link: &[(&str, u64)]) -> Option<u64> {
        let port = port(&[], standard, link);
        let mut sheet = Sheet::of_port(&port, &mut test.layouts, test.ledger.layout(PORT));
        test.ledger.enter(PORT, "mlx5_0", None, &mut sheet);
        sheet.sum(Role::Bytes(Direction::Receive))
    }

    #[test]
    fn a_sum_is_told_by_one_source_or_not_at_all() {
        let mut test = Test::new();
        let (words, link) = ([("port_rcv_data", 100)], [("rx_vport_rdma_unicast_bytes", 390)]);
        let multicast = ("rx_vport_rdma_multicast_bytes", 5);
        assert_eq!(bytes(&mut test, &words, &link), Some(400));
        assert_eq!(bytes(&mut test, &[], &link), None, "another source is another number");
        assert_eq!(bytes(&mut test, &[], &link), None);
        assert_eq!(bytes(&mut test, &[("port_rcv_data", 110)], &link), Some(440));
        let mut test = Test::new();
        assert_eq!(bytes(&mut test, &[], &link), Some(390));
        assert_eq!(bytes(&mut test, &[], &[link[0], multicast]), Some(395), "a part more is better");
        assert_eq!(bytes(&mut test, &[], &link), None);
        assert_eq!(bytes(&mut test, &words, &link), Some(400), "and so is a better source");
    }
}
