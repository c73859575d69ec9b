//! The counters of one port, each with what it means.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Collector, Counter, PortReading, Reason, Trouble,
    catalogue::{Catalogue, Metric, Role, Source},
};

/// A counter and its value.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) metric: Arc<Metric>,
    pub(crate) value: u64,
}

/// The counters of one port (or of a device as a whole), in the order of their sources.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sheet {
    pub(crate) lines: Vec<Line>,
}

impl Sheet {
    pub(crate) fn of_port(
        port: &PortReading,
        catalogue: &mut Catalogue,
        troubles: &mut Vec<Trouble>,
    ) -> Self {
        let mut sheet = Self::default();
        sheet.add(Source::Hardware, &port.hw_counters, catalogue, troubles);
        sheet.add(Source::Standard, &port.counters, catalogue, troubles);
        sheet.add(Source::Link, &port.link_statistics, catalogue, troubles);
        sheet
    }

    pub(crate) fn of_device(
        counters: &[Counter],
        catalogue: &mut Catalogue,
        troubles: &mut Vec<Trouble>,
    ) -> Self {
        let mut sheet = Self::default();
        sheet.add(Source::Hardware, counters, catalogue, troubles);
        sheet
    }

    fn add(
        &mut self,
        source: Source,
        counters: &[Counter],
        catalogue: &mut Catalogue,
        troubles: &mut Vec<Trouble>,
    ) {
        let former = self.lines.len();
        for Counter { name, value } in counters {
            let Some(metric) = catalogue.metric(source, name) else { continue };
            match self.same_series(&metric) {
                None => self.lines.push(Line { metric, value: *value }),
                // Two sources tell the same: the first is the driver's own.
                Some(at) if at < former => {}
                Some(_) => {
                    let what = format!("{name} is not shown: another counter has its metric's name");
                    troubles.push(Trouble {
                        collector: Collector::HwCounters,
                        reason: Reason::Collision,
                        what,
                    });
                }
            }
        }
    }

    /// Where the series is that a metric would be.
    fn same_series(&self, metric: &Metric) -> Option<usize> {
        metric.family.as_ref()?;
        let same =
            |line: &Line| (&line.metric.family, &line.metric.priority) == (&metric.family, &metric.priority);
        self.lines.iter().position(same)
    }

    /// The sums of what means the same on every driver. Among several sources the best known counts.
    pub(crate) fn roles(&self) -> BTreeMap<(Role, Option<&str>), u64> {
        roles(self.lines.iter().map(|line| (&*line.metric, line.value)))
    }
}

/// The sums of what means the same on every driver, by role and priority.
pub(crate) fn roles<'a>(
    lines: impl Iterator<Item = (&'a Metric, u64)>,
) -> BTreeMap<(Role, Option<&'a str>), u64> {
    let mut best: BTreeMap<(Role, Option<&str>), (u8, u64)> = BTreeMap::new();
    for (metric, value) in lines {
        let Some(role) = metric.role else { continue };
        let value = value.wrapping_mul(metric.scale);
        let entry = best.entry((role, metric.priority.as_deref())).or_insert((metric.rank, 0));
        match metric.rank.cmp(&entry.0) {
            std::cmp::Ordering::Less => *entry = (metric.rank, value),
            std::cmp::Ordering::Equal => entry.1 = entry.1.wrapping_add(value),
            std::cmp::Ordering::Greater => {}
        }
    }
    best.into_iter().map(|(key, (_, sum))| (key, sum)).collect()
}

#[cfg(test)]
mod tests {
    use rdma::{LinkLayer, PhysState, Port, PortState};

    use super::*;
    use crate::catalogue::Direction::{Receive, Transmit};

    fn counters(list: &[(&str, u64)]) -> Vec<Counter> {
        list.iter().map(|(name, value)| Counter { name: (*name).to_owned(), value: *value }).collect()
    }

    fn sheet(hw: &[(&str, u64)], standard: &[(&str, u64)], link: &[(&str, u64)]) -> (Sheet, Vec<Trouble>) {
        let port = Port {
            device: 0,
            device_name: "mlx5_0".into(),
            port: 1,
            state: PortState::Active,
            phys_state: PhysState::LinkUp,
            link: None,
            link_name: None,
            link_layer: LinkLayer::Ethernet,
        };
        let mut port = PortReading::of(port);
        (port.hw_counters, port.counters, port.link_statistics) =
            (counters(hw), counters(standard), counters(link));
        let mut troubles = Vec::new();
        (Sheet::of_port(&port, &mut Catalogue::default(), &mut troubles), troubles)
    }

    #[test]
    fn words_become_bytes() {
        let (sheet, _) = sheet(&[], &[("port_xmit_data", 250)], &[]);
        assert_eq!(sheet.roles()[&(Role::Bytes(Transmit), None)], 1000);
    }

    #[test]
    fn the_best_known_source_counts_alone_and_of_equals_the_sum() {
        let link = [("rx_vport_rdma_unicast_bytes", 30), ("rx_vport_rdma_multicast_bytes", 4)];
        let (both, _) = sheet(&[], &[("port_rcv_data", 8)], &link);
        assert_eq!(both.roles()[&(Role::Bytes(Receive), None)], 32);
        let (only_link, _) = sheet(&[], &[], &link);
        assert_eq!(only_link.roles()[&(Role::Bytes(Receive), None)], 34);
        let (irdma, _) = sheet(&[("ip4InOctets", 5), ("ip6InOctets", 6)], &[], &[]);
        assert_eq!(irdma.roles()[&(Role::Bytes(Receive), None)], 11);
        let errors = [("req_cqe_error", 2), ("resp_cqe_error", 3)];
        let (sheet, _) = sheet(&errors, &[], &[]);
        assert_eq!(sheet.roles()[&(Role::Error("cqe_error"), None)], 5);
    }

    #[test]
    fn two_names_that_become_one_are_one_series_and_a_trouble() {
        let (same, troubles) = sheet(&[("rxPkts", 1), ("rx_pkts", 2)], &[], &[]);
        assert_eq!((same.lines.len(), same.lines[0].value), (1, 1));
        assert!(troubles.len() == 1 && troubles[0].reason == Reason::Collision, "{troubles:?}");
        // rxe of a new kernel has it twice, and means the same.
        let (twice, troubles) = sheet(&[("link_downed", 1)], &[("link_downed", 1)], &[]);
        assert_eq!((twice.lines.len(), troubles.len()), (1, 0));
    }

    #[test]
    fn priorities_are_apart() {
        let (sheet, troubles) = sheet(&[], &[], &[("rx_prio3_pause", 7), ("rx_prio4_pause", 9)]);
        assert!(troubles.is_empty() && sheet.lines.len() == 2);
        assert_eq!(sheet.roles()[&(Role::PauseFrames(Receive), Some("4"))], 9);
    }
}
