//! Counters of ports, and what pods have done on them.

use std::{collections::BTreeMap, mem, sync::Arc, thread};

use exposition::{Exposition, LabelSet};

use super::{
    FamilyWriter, counter,
    labels::DeviceLabels,
    series::{CounterSeries, SeriesCache},
    with_pod,
};
use crate::{
    Attribution, NodeSnapshot,
    counter_history::{AccountKey, CounterHistory},
    counter_layout::CounterLayout,
    counter_values::CounterValues,
};

/// Finds or makes the series of everything that counts. New ones may need families that are not in the template yet.
pub(super) fn prepare(
    teller: &mut FamilyWriter,
    report: &NodeSnapshot,
    ledger: &CounterHistory,
    node: &LabelSet,
) {
    let SeriesCache { mut ports, accounts, mut devices } = mem::take(&mut teller.series);
    let (template, new) = (&mut teller.template, &mut teller.series);
    for device in &report.devices {
        let reading = &device.reading;
        let index = reading.device.index;
        let labels = DeviceLabels::of(devices.remove(&index), reading, node);
        let of_ports = reading.ports.iter().map(|port| port.port.port).zip(&device.sheets);
        for ((port, sheet), labels) in of_ports.zip(&labels.ports) {
            let known = ports.remove(&(index, port));
            let series = CounterSeries::of_port(known, template, &labels.port, &sheet.layout);
            new.ports.insert((index, port), series);
        }
        if let Some(sheet) = &device.sheet {
            let known = ports.remove(&(index, 0));
            let series = CounterSeries::of_port(known, template, &labels.device, &sheet.layout);
            new.ports.insert((index, 0), series);
        }
        new.devices.insert(index, labels);
    }
    // Both are in the same order.
    let mut accounts = accounts.into_iter().peekable();
    for (pod, kept) in ledger.accounts() {
        for (key, sheet) in kept {
            while accounts.next_if(|(other, of, _)| (other, of) < (pod, key)).is_some() {}
            let known = accounts.next_if(|(other, of, _)| (other, of) == (pod, key));
            let (device, port, attribution) = key;
            let better = better(kept, device, *port, *attribution);
            let labels = || {
                let labels = node.builder().with("device", device).with_text("port", port);
                with_pod(labels, Some(pod)).with("attribution", attribution.name()).build()
            };
            let known = known.map(|(_, _, series)| series);
            let series = CounterSeries::of_account(known, template, labels, &sheet.layout, better);
            new.accounts.push((pod.clone(), key.clone(), series));
        }
    }
}

/// What accounts of the same pod and port have that are better known.
fn better(
    kept: &BTreeMap<AccountKey, CounterValues>,
    device: &str,
    port: u32,
    attribution: Attribution,
) -> Vec<Arc<CounterLayout>> {
    let others = kept.iter().filter(|((other_device, other_port, other), _)| {
        (other_device.as_str(), *other_port) == (device, port) && other.is_better_than(attribution)
    });
    others.map(|(_, sheet)| sheet.layout.clone()).collect()
}

/// Nodes with more accounts than this have tens of thousands of series: two threads tell of them.
const PARALLEL_WRITE_ACCOUNTS: usize = 64;

pub(super) fn write(
    families: &mut Exposition,
    teller: &FamilyWriter,
    report: &NodeSnapshot,
    ledger: &CounterHistory,
    node: &LabelSet,
) {
    if teller.series.accounts.len() <= PARALLEL_WRITE_ACCOUNTS {
        ports(families, teller, report, ledger, node);
        return accounts(families, teller, ledger);
    }
    let of_pods = thread::scope(|scope| {
        let of_pods = scope.spawn(|| {
            let mut families = Exposition::with_same_families(&teller.template);
            accounts(&mut families, teller, ledger);
            families
        });
        ports(families, teller, report, ledger, node);
        of_pods.join()
    });
    match of_pods {
        Ok(of_pods) => families.append(of_pods),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn ports(
    families: &mut Exposition,
    teller: &FamilyWriter,
    report: &NodeSnapshot,
    ledger: &CounterHistory,
    node: &LabelSet,
) {
    for device in &report.devices {
        let index = device.reading.device.index;
        for (port, sheet) in device.reading.ports.iter().zip(&device.sheets) {
            if let Some(series) = teller.series.ports.get(&(index, port.port.port)) {
                series.write(families, sheet);
            }
            if device.reading.on_node {
                unattributed(families, ledger, (index, port.port.port), &device.reading.device.name, node);
            }
        }
        if let Some((series, sheet)) = teller.series.ports.get(&(index, 0)).zip(device.sheet.as_ref()) {
            series.write(families, sheet);
        }
    }
}

fn accounts(families: &mut Exposition, teller: &FamilyWriter, ledger: &CounterHistory) {
    let sheets = ledger.accounts().values().flat_map(|kept| kept.values());
    for ((_, _, series), sheet) in teller.series.accounts.iter().zip(sheets) {
        series.write(families, sheet);
    }
}

fn unattributed(
    families: &mut Exposition,
    ledger: &CounterHistory,
    port: (u32, u32),
    device: &str,
    node: &LabelSet,
) {
    for (direction, bytes) in ledger.unattributed(port) {
        let help = "RDMA bytes of a port of the node that no pod could be named for.";
        let labels = node.builder().with("device", device).with_text("port", port.1);
        counter(families, "rdma_port_unattributed_bytes_total", help)
            .add(labels.with("direction", direction.name()).build(), bytes);
    }
}
