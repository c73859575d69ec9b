//! Which CPUs handle the interrupts of a card, and which are near it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::pci_express::DEVICES;
use crate::host_root::HostRoot;

/// The interrupts of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Interrupts {
    /// How many of its interrupts have a CPU.
    pub(crate) number: usize,
    /// The CPUs that handle them.
    pub(crate) cpus: BTreeSet<u32>,
    /// The CPUs of the NUMA node of the function.
    pub(crate) local_cpus: BTreeSet<u32>,
}

impl Interrupts {
    pub(crate) fn read(tree: &HostRoot, address: &str) -> Self {
        let cpus = |path: String| cpu_list(&tree.text(path).into_option().unwrap_or_default());
        let numbers = tree.names(format!("{DEVICES}/{address}/msi_irqs")).into_option().unwrap_or_default();
        // An interrupt without a handler has no directory in /proc/irq, or no effective CPU.
        let handled = numbers.iter().map(|irq| cpus(format!("proc/irq/{irq}/effective_affinity_list")));
        let handled: Vec<_> = handled.filter(|cpus| !cpus.is_empty()).collect();
        Self {
            number: handled.len(),
            cpus: handled.into_iter().flatten().collect(),
            local_cpus: cpus(format!("{DEVICES}/{address}/local_cpulist")),
        }
    }

    /// Whether none of the CPUs near the function handles an interrupt of it. A driver uses the near CPUs first, and others if
    /// it has more queues.
    pub(crate) fn are_remote(&self) -> bool {
        self.number > 0 && !self.local_cpus.is_empty() && self.cpus.is_disjoint(&self.local_cpus)
    }
}

/// Parses `0-3,8`. What is not a list is empty.
fn cpu_list(text: &str) -> BTreeSet<u32> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse().ok()?)
    };
    // The kernel has at most 8192 CPUs: a damaged file must not make a set of four billion.
    text.split(',').filter_map(range).flat_map(|range| range.take(8192)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed() {
        assert_eq!(cpu_list("0-2,8\n"), BTreeSet::from([0, 1, 2, 8]));
        assert_eq!(cpu_list("").len(), 0);
        assert_eq!(cpu_list("0-4294967295").len(), 8192);
        assert_eq!(cpu_list("3-1,x").len(), 0);
    }
}
