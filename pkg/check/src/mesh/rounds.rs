//! The schedule: rounds in which each node is in at most one pair.

/// Returns rounds in which each of `nodes` is paired with each other node once, and each node is in at most one pair of a
/// round. There are `nodes - 1` rounds, or `nodes` if that is odd. In a pair the smaller number comes first.
///
/// Uses the circle method: one node is fixed and the others rotate by one place per round. If the number of nodes is odd, the
/// node that is paired with the added dummy is idle.
pub fn rounds(nodes: usize) -> Vec<Vec<(usize, usize)>> {
    let circle = (nodes + nodes % 2).saturating_sub(1);
    (0..circle).map(|turn| round(nodes, turn)).filter(|pairs| !pairs.is_empty()).collect()
}

/// Returns at most `most` rounds of [`rounds`], with the nodes in an order that depends on `seed` only: a sample in which
/// each node meets `most` others. About half of the pairs are reversed, so that each node is measured in both directions.
pub fn sample(nodes: usize, most: usize, seed: u64) -> Vec<Vec<(usize, usize)>> {
    let mut random = SplitMix(seed);
    let circle = (nodes + nodes % 2).saturating_sub(1);
    let order = random.shuffled(nodes);
    let mut turns = random.shuffled(circle);
    turns.truncate(most);
    let rounds = turns.into_iter().map(|turn| {
        let pairs = round(nodes, turn).into_iter().map(|(a, b)| (order[a], order[b]));
        pairs.map(|(a, b)| if random.next() & 1 == 0 { (a, b) } else { (b, a) }).collect()
    });
    rounds.filter(|pairs: &Vec<_>| !pairs.is_empty()).collect()
}

fn round(nodes: usize, turn: usize) -> Vec<(usize, usize)> {
    let places = nodes + nodes % 2;
    let circle = places.saturating_sub(1);
    let at = |place: usize| if place == 0 { circle } else { (turn + place) % circle };
    let pair = |place: usize| (at(place), if place == 0 { turn } else { at(circle - place) });
    let pairs = (0..places / 2).map(pair).filter(|(a, b)| *a < nodes && *b < nodes);
    pairs.map(|(a, b)| (a.min(b), a.max(b))).collect()
}

/// The generator SplitMix64: small, and the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the numbers below `count` in a random order (Fisher-Yates).
    fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            // The bias of the remainder does not matter: 2^64 is much larger than the number of nodes.
            let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
            let chosen = usize::try_from(self.next() % bound).unwrap_or(0);
            numbers.swap(last, chosen);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Checks that no node is busy twice in a round and no pair meets twice. Returns the number of meetings of each node.
    fn meetings(nodes: usize, rounds: &[Vec<(usize, usize)>]) -> BTreeMap<usize, usize> {
        let (mut met, mut meetings) = (BTreeSet::new(), BTreeMap::new());
        for round in rounds {
            let mut busy = BTreeSet::new();
            for (a, b) in round {
                assert!(a != b && *a < nodes && *b < nodes, "{nodes} nodes: {a} {b}");
                assert!(busy.insert(*a) && busy.insert(*b), "{nodes} nodes: busy twice in {round:?}");
                assert!(met.insert((*a.min(b), *a.max(b))), "{nodes} nodes: {a} and {b} meet twice");
                for node in [a, b] {
                    *meetings.entry(*node).or_default() += 1;
                }
            }
        }
        meetings
    }

    #[test]
    fn each_pair_meets_once_and_each_node_is_busy_once_per_round() {
        for nodes in 0..40 {
            for rounds in [rounds(nodes), sample(nodes, usize::MAX, 7)] {
                let met: usize = meetings(nodes, &rounds).values().sum();
                assert_eq!(met, nodes * nodes.saturating_sub(1));
                let expected = if nodes < 2 { 0 } else { nodes - 1 + nodes % 2 };
                assert_eq!(rounds.len(), expected, "{nodes} nodes");
            }
        }
    }

    #[test]
    fn in_a_sample_of_a_large_cluster_each_node_meets_the_same_number_of_others() {
        let rounds = sample(1000, 16, 0);
        assert_eq!((rounds.len(), rounds.iter().map(Vec::len).sum::<usize>()), (16, 8000));
        assert!(meetings(1000, &rounds).values().all(|met| *met == 16));
        let reversed = rounds.iter().flatten().filter(|(a, b)| a > b).count();
        assert!((3500..4500).contains(&reversed), "{reversed} of 8000 pairs are reversed");
    }

    #[test]
    fn a_seed_reproduces_the_order_and_another_one_has_another() {
        assert_eq!(sample(100, 5, 3), sample(100, 5, 3));
        assert_ne!(sample(100, 5, 3), sample(100, 5, 4));
    }
}
