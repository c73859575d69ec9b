//! The devices of a request in the PCI hierarchy.

use std::collections::{BTreeMap, BTreeSet};

use super::candidate::{Candidate, PfPolicy};
use crate::PciPath;

/// The criteria after the number of NUMA nodes, the most important first; a larger number is better.
pub(super) type Score = [i64; 4];

/// A bridge, with the bridges and PFs below it.
pub(super) struct PciTree<'a> {
    bridges: Vec<PciTree<'a>>,
    pfs: Vec<Pf<'a>>,
}

/// The devices of a PF.
struct Pf<'a> {
    /// Those that must be included.
    included: Vec<&'a str>,
    /// The other ones, in the order in which they are chosen.
    others: Vec<&'a str>,
    policy: PfPolicy,
    /// How much its path has in common with that of the closest GPU.
    gpu: i64,
}

/// The best devices of a part of the tree.
#[derive(Clone)]
pub(super) struct Choice<'a> {
    pub(super) score: Score,
    ids: Vec<&'a str>,
}

impl Choice<'_> {
    /// Returns the IDs, sorted.
    pub(super) fn ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.ids.iter().map(|id| (*id).to_owned()).collect();
        ids.sort();
        ids
    }
}

/// The best devices by their number: `None` if there are too few devices or too many that must be included.
type Choices<'a> = Vec<Option<Choice<'a>>>;

impl<'a> PciTree<'a> {
    pub(super) fn of(
        devices: impl Iterator<Item = &'a Candidate>,
        included: &BTreeSet<String>,
        policy: PfPolicy,
        gpus: &[PciPath],
    ) -> Self {
        Self::below(&devices.collect::<Vec<_>>(), 0, &|pf| Pf::of(pf, included, policy, gpus))
    }

    /// Returns the part of the tree whose devices have the first `depth` components in common.
    fn below(devices: &[&'a Candidate], depth: usize, pf: &dyn Fn(&[&'a Candidate]) -> Pf<'a>) -> Self {
        let mut bridges: BTreeMap<&PciPath, Vec<&'a Candidate>> = BTreeMap::new();
        let mut pfs: BTreeMap<&str, Vec<&'a Candidate>> = BTreeMap::new();
        for device in devices {
            let bridge = bridges.keys().find(|path| path.common(&device.path) > depth).copied();
            // The last component is the device itself.
            if device.path.len() > depth + 1 {
                bridges.entry(bridge.unwrap_or(&device.path)).or_default().push(device);
            } else {
                pfs.entry(&device.pf).or_default().push(device);
            }
        }
        let bridges = bridges.into_values().map(|devices| Self::below(&devices, depth + 1, pf)).collect();
        Self { bridges, pfs: pfs.into_values().map(|devices| pf(&devices)).collect() }
    }

    /// Returns the best devices.
    pub(super) fn best(&self, size: usize) -> Option<Choice<'a>> {
        // Devices of different roots have nothing in common.
        self.parts(size).pop().flatten()
    }

    fn parts(&self, size: usize) -> Choices<'a> {
        let bridges = self.bridges.iter().map(|bridge| bridge.choices(size));
        let parts = bridges.chain(self.pfs.iter().map(|pf| pf.choices(size)));
        let mut choices = vec![None; size + 1];
        choices[0] = Some(Choice { score: [0; 4], ids: Vec::new() });
        parts.fold(choices, |choices, part| combined(&choices, &part))
    }

    fn choices(&self, size: usize) -> Choices<'a> {
        let mut choices = self.parts(size);
        for (number, choice) in choices.iter_mut().enumerate() {
            // Each pair of devices has this bridge in common.
            if let Some(choice) = choice {
                choice.score[2] += pairs(number);
            }
        }
        choices
    }
}

impl<'a> Pf<'a> {
    fn of(
        devices: &[&'a Candidate],
        included: &BTreeSet<String>,
        policy: PfPolicy,
        gpus: &[PciPath],
    ) -> Self {
        let mut ids: Vec<_> = devices.iter().map(|device| device.id.as_str()).collect();
        ids.sort_unstable();
        let (included, others) = ids.into_iter().partition(|id| included.contains(*id));
        let gpu = devices.iter().flat_map(|device| gpus.iter().map(|gpu| device.path.common(gpu))).max();
        Self { included, others, policy, gpu: integer(gpu.unwrap_or(0)) }
    }

    fn choices(&self, size: usize) -> Choices<'a> {
        let choice = |number: usize| {
            let others =
                number.checked_sub(self.included.len()).filter(|others| *others <= self.others.len())?;
            let ids = self.included.iter().chain(&self.others[..others]).copied().collect();
            Some(Choice { score: self.score(number), ids })
        };
        (0..=size).map(choice).collect()
    }

    fn score(&self, number: usize) -> Score {
        let (count, free) = (integer(number), integer(self.included.len() + self.others.len()));
        match self.policy {
            // The sum of the squares is least for even numbers.
            PfPolicy::Spread => [-count * count, count * self.gpu, 0, count * free],
            PfPolicy::Pack => [-i64::from(number > 0), count * self.gpu, 0, -count * free],
        }
    }
}

/// Returns the best devices of two parts of a tree.
fn combined<'a>(one: &Choices<'a>, two: &Choices<'a>) -> Choices<'a> {
    let best = |number: usize| {
        let mut best: Option<Choice<'a>> = None;
        // The first of equal choices has the most devices of the first part.
        for rest in 0..=number {
            let (Some(one), Some(two)) = (&one[number - rest], &two[rest]) else { continue };
            let score = std::array::from_fn(|criterion| one.score[criterion] + two.score[criterion]);
            if best.as_ref().is_none_or(|best| score > best.score) {
                best = Some(Choice { score, ids: [&one.ids[..], &two.ids].concat() });
            }
        }
        best
    };
    (0..one.len()).map(best).collect()
}

fn pairs(number: usize) -> i64 {
    integer(number * number.saturating_sub(1) / 2)
}

fn integer(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
