//! A round-robin schedule.

/// Returns rounds in which each of `nodes` is paired with each other node once, and each node is in at most one pair of a
/// round. There are `nodes - 1` rounds, or `nodes` if that is odd. In a pair the smaller number comes first.
///
/// Uses the circle method: one node is fixed and the others rotate by one place per round. If the number of nodes is odd, the
/// node that is paired with the added dummy is idle.
pub fn rounds(nodes: usize) -> Vec<Vec<(usize, usize)>> {
    let places = nodes + nodes % 2;
    let circle = places.saturating_sub(1);
    let round = |turn: usize| {
        let at = |place: usize| if place == 0 { circle } else { (turn + place) % circle };
        let pair = |place: usize| (at(place), if place == 0 { turn } else { at(circle - place) });
        let pairs = (0..places / 2).map(pair).filter(|(a, b)| *a < nodes && *b < nodes);
        pairs.map(|(a, b)| (a.min(b), a.max(b))).collect()
    };
    (0..circle).map(round).filter(|pairs: &Vec<_>| !pairs.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_pair_meets_once_and_each_node_is_busy_once_per_round() {
        for nodes in 0..40 {
            let rounds = rounds(nodes);
            let mut met = BTreeSet::new();
            for round in &rounds {
                let mut busy = BTreeSet::new();
                for (a, b) in round {
                    assert!(a < b && *b < nodes, "{nodes} nodes: {a} {b}");
                    assert!(busy.insert(*a) && busy.insert(*b), "{nodes} nodes: busy twice in {round:?}");
                    assert!(met.insert((*a, *b)), "{nodes} nodes: {a} and {b} meet twice");
                }
            }
            assert_eq!(met.len(), nodes * nodes.saturating_sub(1) / 2);
            let expected = if nodes < 2 { 0 } else { nodes - 1 + nodes % 2 };
            assert_eq!(rounds.len(), expected, "{nodes} nodes");
        }
    }
}
