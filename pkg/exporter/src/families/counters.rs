//! Counters of ports, and of pods on ports.

use std::{collections::BTreeMap, mem, sync::Arc, thread};

use exposition::{Exposition, LabelSet};

use super::{
    family_cache::FamilyCache,
    family_type::counter,
    labels::DeviceLabels,
    pod_labels::with_pod,
    series::{CounterSeries, SeriesCache},
};
use crate::{
    Attribution, NodeSnapshot,
    counter_history::{AccountKey, CounterHistory},
    counter_layout::CounterLayout,
    counter_values::CounterValues,
};

/// Finds or creates the series of all counters. New series can add families to the template.
pub(super) fn prepare(
    cache: &mut FamilyCache,
    report: &NodeSnapshot,
    history: &CounterHistory,
    node: &LabelSet,
    has_pod_labels: bool,
) {
    let SeriesCache { mut ports, accounts, mut devices } = mem::take(&mut cache.series);
    let (template, new) = (&mut cache.template, &mut cache.series);
    for device in &report.devices {
        let reading = &device.reading;
        let index = reading.device.index;
        let labels = DeviceLabels::of(devices.remove(&index), reading, node, has_pod_labels);
        let of_ports = reading.ports.iter().map(|port| port.port.port).zip(&device.port_counters);
        for ((port, counter_values), labels) in of_ports.zip(&labels.ports) {
            let known = ports.remove(&(index, port));
            let series = CounterSeries::of_port(known, template, &labels.port, &counter_values.layout);
            new.ports.insert((index, port), series);
        }
        if let Some(counter_values) = &device.counter_values {
            let known = ports.remove(&(index, 0));
            let series = CounterSeries::of_port(known, template, &labels.device, &counter_values.layout);
            new.ports.insert((index, 0), series);
        }
        new.devices.insert(index, labels);
    }
    // Cached series and accounts have the same order.
    let mut accounts = accounts.into_iter().peekable();
    for (pod, kept) in history.accounts() {
        for (key, counter_values) in kept {
            while accounts.next_if(|(other, of, _)| (other, of) < (pod, key)).is_some() {}
            let known = accounts.next_if(|(other, of, _)| (other, of) == (pod, key));
            let (device, port, attribution) = key;
            let better = better(kept, device, *port, *attribution);
            let labels = || {
                let labels = node.builder().with("device", device).with_text("port", port);
                with_pod(labels, Some(pod)).with("attribution", attribution.name()).build()
            };
            let known = known.map(|(_, _, series)| series);
            let series = CounterSeries::of_account(known, template, labels, &counter_values.layout, better);
            new.accounts.push((pod.clone(), key.clone(), series));
        }
    }
}

/// Returns the layouts of accounts of the same pod and port with a more exact attribution.
fn better(
    kept: &BTreeMap<AccountKey, CounterValues>,
    device: &str,
    port: u32,
    attribution: Attribution,
) -> Vec<Arc<CounterLayout>> {
    let others = kept.iter().filter(|((other_device, other_port, other), _)| {
        (other_device.as_str(), *other_port) == (device, port) && other.is_better_than(attribution)
    });
    others.map(|(_, counter_values)| counter_values.layout.clone()).collect()
}

/// Nodes with more accounts than this have tens of thousands of series, which two threads write.
const PARALLEL_WRITE_ACCOUNTS: usize = 64;

pub(super) fn write(
    families: &mut Exposition,
    cache: &FamilyCache,
    report: &NodeSnapshot,
    history: &CounterHistory,
    node: &LabelSet,
) {
    if cache.series.accounts.len() <= PARALLEL_WRITE_ACCOUNTS {
        ports(families, cache, report, history, node);
        return accounts(families, cache, history);
    }
    let of_pods = thread::scope(|scope| {
        let of_pods = scope.spawn(|| {
            let mut families = Exposition::with_same_families(&cache.template);
            accounts(&mut families, cache, history);
            families
        });
        ports(families, cache, report, history, node);
        of_pods.join()
    });
    match of_pods {
        Ok(of_pods) => families.append(of_pods),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn ports(
    families: &mut Exposition,
    cache: &FamilyCache,
    report: &NodeSnapshot,
    history: &CounterHistory,
    node: &LabelSet,
) {
    for device in &report.devices {
        let index = device.reading.device.index;
        for (port, counter_values) in device.reading.ports.iter().zip(&device.port_counters) {
            if let Some(series) = cache.series.ports.get(&(index, port.port.port)) {
                series.write(families, counter_values);
            }
            if device.reading.on_node {
                unattributed(families, history, (index, port.port.port), &device.reading.device.name, node);
            }
        }
        if let Some((series, counter_values)) =
            cache.series.ports.get(&(index, 0)).zip(device.counter_values.as_ref())
        {
            series.write(families, counter_values);
        }
    }
}

fn accounts(families: &mut Exposition, cache: &FamilyCache, history: &CounterHistory) {
    let port_counters = history.accounts().values().flat_map(|kept| kept.values());
    for ((_, _, series), counter_values) in cache.series.accounts.iter().zip(port_counters) {
        series.write(families, counter_values);
    }
}

fn unattributed(
    families: &mut Exposition,
    history: &CounterHistory,
    port: (u32, u32),
    device: &str,
    node: &LabelSet,
) {
    for (direction, bytes) in history.unattributed(port) {
        let help = "RDMA bytes of a port on the host that could not be attributed to a pod.";
        let labels = node.builder().with("device", device).with_text("port", port.1);
        counter(families, "rdma_port_unattributed_bytes_total", help)
            .add(labels.with("direction", direction.name()).build(), bytes);
    }
}
