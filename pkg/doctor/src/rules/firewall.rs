//! The packet filter of the node and the ports of RDMA and its tools.
//!
//! RoCE v2 of a card never passes the host's packet filter: neither its ports nor those that the card uses for it matter. The
//! software device rxe uses a socket of the kernel, and tests exchange their parameters over TCP.

use crate::{
    Finding, FindingId, NodeFacts,
    facts::packet_filter::{CHECK, DroppedPort, METRICS, PERFTEST, ROCE},
};

const ROCE_DROPPED: FindingId =
    FindingId::new("firewall-drops-roce", "The packet filter drops RoCE v2 of the software device rxe");
const METRICS_DROPPED: FindingId =
    FindingId::new("firewall-drops-metrics", "The packet filter drops requests of other hosts to silkraild");
const TESTS_DROPPED: FindingId = FindingId::new(
    "firewall-drops-tests",
    "The packet filter drops the TCP connections of silkrail check or perftest; RDMA itself is not affected",
);

pub(super) const IDS: &[FindingId] = &[ROCE_DROPPED, METRICS_DROPPED, TESTS_DROPPED];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for dropped in &facts.dropped_ports {
        found.extend(judge(facts, dropped));
    }
}

fn judge(facts: &NodeFacts, dropped: &DroppedPort) -> Option<Finding> {
    let object = format!("{} port {}", dropped.transport, dropped.port);
    let finding = match dropped.port {
        ROCE => {
            let rxe = facts.devices.iter().find(|device| device.driver.as_deref() == Some("rxe"))?;
            let text = format!("the packet filter drops RoCE v2 to {}, which is a software device", rxe.name);
            ROCE_DROPPED.error(object, text)
        }
        METRICS if facts.services.silkraild_runs => {
            METRICS_DROPPED.warning(object, "the packet filter drops requests of other hosts to silkraild")
        }
        CHECK => TESTS_DROPPED.info(object, "the packet filter drops requests to silkrail check serve"),
        PERFTEST => {
            TESTS_DROPPED.info(object, "the packet filter drops the TCP connection of perftest (ib_write_bw)")
        }
        _ => return None,
    };
    let transport = dropped.transport;
    let ports = if dropped.port == PERFTEST { "18515-18530".to_owned() } else { dropped.port.to_string() };
    Some(finding.because(format!("no packet passes: {}", dropped.by)).fix(format!(
        "accept it from the nodes, before the rule that drops it: nft insert rule … {transport} dport {ports} accept, or \
         firewall-cmd --permanent --add-port={ports}/{transport}"
    )))
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use super::*;
    use crate::facts::filter_rules::Transport;

    fn drop_all(facts: &mut NodeFacts) {
        let ports = [
            (Transport::Udp, ROCE),
            (Transport::Tcp, METRICS),
            (Transport::Tcp, CHECK),
            (Transport::Tcp, PERFTEST),
        ];
        let dropped = |(transport, port)| DroppedPort { transport, port, by: "policy drop".into() };
        facts.dropped_ports = ports.into_iter().map(dropped).collect();
    }

    #[test]
    fn a_card_bypasses_the_packet_filter() {
        let tests = ["info firewall-drops-tests tcp port 18514", "info firewall-drops-tests tcp port 18515"];
        assert_eq!(with(drop_all), tests);
    }

    #[test]
    fn a_software_device_and_a_daemon_that_runs_do_not() {
        let found = with(|facts| {
            drop_all(facts);
            facts.devices[2].driver = Some("rxe".into());
            facts.services.silkraild_runs = true;
        });
        assert_eq!(
            found[..2],
            ["error firewall-drops-roce udp port 4791", "warning firewall-drops-metrics tcp port 9879"]
        );
    }
}
