//! The kubelet's sockets.

use crate::{Finding, FindingId, NodeFacts, facts::kubelet::SocketState};

const NONE: FindingId = FindingId::new("kubelet-missing", "No kubelet is on this node");
const UNREACHABLE: FindingId =
    FindingId::new("kubelet-unreachable", "A socket of the kubelet is not there, or nobody listens on it");

pub(super) const IDS: &[FindingId] = &[NONE, UNREACHABLE];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    if !facts.kubelet.is_there {
        let finding = NONE.info("/var/lib/kubelet", "no kubelet is on this node: its sockets were not tried");
        found.push(finding.because("/var/lib/kubelet is not there"));
    }
    for socket in &facts.kubelet.sockets {
        let why = match socket.state {
            SocketState::Listens | SocketState::Unknown => continue,
            SocketState::Missing => "it is not there",
            SocketState::Dead => "nobody listens on it",
        };
        let finding = UNREACHABLE.warning(socket.path, format!("{why} ({})", socket.purpose));
        found.push(
            finding
                .because(why)
                .fix("systemctl status kubelet; with another --root-dir, link /var/lib/kubelet to it"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::facts::kubelet::SocketState;

    #[test]
    fn a_socket_on_which_nobody_listens_is_told_of() {
        for state in [SocketState::Missing, SocketState::Dead] {
            let found = with(|facts| facts.kubelet.sockets[0].state = state);
            assert_eq!(found, ["kubelet-unreachable /socket"]);
        }
        assert!(with(|facts| facts.kubelet.sockets[0].state = SocketState::Unknown).is_empty());
    }

    #[test]
    fn a_node_without_kubelet_is_good_to_know() {
        let found = with(|facts| facts.kubelet = Default::default());
        assert_eq!(found, ["kubelet-missing /var/lib/kubelet"]);
    }
}
