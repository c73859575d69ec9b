//! The sockets of kubelet.

use crate::{Finding, FindingId, NodeFacts, facts::kubelet::SocketState};

const NONE: FindingId = FindingId::new("kubelet-missing", "There is no kubelet on this node");
const UNREACHABLE: FindingId =
    FindingId::new("kubelet-unreachable", "A socket of kubelet does not exist, or no process listens on it");

pub(super) const IDS: &[FindingId] = &[NONE, UNREACHABLE];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    if !facts.kubelet.is_there {
        let finding =
            NONE.info("/var/lib/kubelet", "there is no kubelet on this node: its sockets were not checked");
        found.push(finding.because("/var/lib/kubelet does not exist"));
    }
    for socket in &facts.kubelet.sockets {
        let problem = match socket.state {
            SocketState::Listens | SocketState::Unknown => continue,
            SocketState::Missing => "the socket does not exist",
            SocketState::Dead => "no process listens on the socket",
        };
        let finding = UNREACHABLE.warning(socket.path, format!("{problem} ({})", socket.purpose));
        found.push(finding.because(problem).fix(
            "systemctl status kubelet; with another --root-dir, make /var/lib/kubelet a symbolic link to it",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::facts::kubelet::SocketState;

    #[test]
    fn a_socket_without_a_listener_is_reported() {
        for state in [SocketState::Missing, SocketState::Dead] {
            let found = with(|facts| facts.kubelet.sockets[0].state = state);
            assert_eq!(found, ["warning kubelet-unreachable /socket"]);
        }
        assert!(with(|facts| facts.kubelet.sockets[0].state = SocketState::Unknown).is_empty());
    }

    #[test]
    fn a_node_without_kubelet_is_info() {
        let found = with(|facts| facts.kubelet = Default::default());
        assert_eq!(found, ["info kubelet-missing /var/lib/kubelet"]);
    }
}
