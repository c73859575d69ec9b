//! Counters of ports, and what pods have done on them.

use std::{collections::BTreeMap, mem, sync::Arc, thread};

use exposition::{Exposition, Labels};

use super::{
    Teller, counter,
    labels::DeviceLabels,
    series::{CounterSeries, KnownSeries},
    with_pod,
};
use crate::{
    Attribution, Report,
    layout::Layout,
    ledger::{AccountKey, Ledger},
    sheet::Sheet,
};

/// Finds or makes the series of everything that counts. New ones may need families that are not in the template yet.
pub(super) fn prepare(teller: &mut Teller, report: &Report, ledger: &Ledger, node: &Labels) {
    let KnownSeries { mut ports, accounts, mut devices } = mem::take(&mut teller.series);
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
                let labels = node.more().with("device", device).with_text("port", port);
                with_pod(labels, Some(pod)).with("attribution", attribution.name()).done()
            };
            let known = known.map(|(_, _, series)| series);
            let series = CounterSeries::of_account(known, template, labels, &sheet.layout, better);
            new.accounts.push((pod.clone(), key.clone(), series));
        }
    }
}

/// What accounts of the same pod and port have that are better known.
fn better(
    kept: &BTreeMap<AccountKey, Sheet>,
    device: &str,
    port: u32,
    attribution: Attribution,
) -> Vec<Arc<Layout>> {
    let others = kept.iter().filter(|((other_device, other_port, other), _)| {
        (other_device.as_str(), *other_port) == (device, port) && other.goes_before(attribution)
    });
    others.map(|(_, sheet)| sheet.layout.clone()).collect()
}

/// Nodes with more accounts than this have tens of thousands of series: two threads tell of them.
const MANY_ACCOUNTS: usize = 64;

pub(super) fn tell(
    families: &mut Exposition,
    teller: &Teller,
    report: &Report,
    ledger: &Ledger,
    node: &Labels,
) {
    if teller.series.accounts.len() <= MANY_ACCOUNTS {
        ports(families, teller, report, ledger, node);
        return accounts(families, teller, ledger);
    }
    let of_pods = thread::scope(|scope| {
        let of_pods = scope.spawn(|| {
            let mut families = Exposition::like(&teller.template);
            accounts(&mut families, teller, ledger);
            families
        });
        ports(families, teller, report, ledger, node);
        of_pods.join()
    });
    match of_pods {
        Ok(of_pods) => families.adopt(of_pods),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn ports(families: &mut Exposition, teller: &Teller, report: &Report, ledger: &Ledger, node: &Labels) {
    for device in &report.devices {
        let index = device.reading.device.index;
        for (port, sheet) in device.reading.ports.iter().zip(&device.sheets) {
            if let Some(series) = teller.series.ports.get(&(index, port.port.port)) {
                series.tell(families, sheet);
            }
            if device.reading.on_node {
                unattributed(families, ledger, (index, port.port.port), &device.reading.device.name, node);
            }
        }
        if let Some((series, sheet)) = teller.series.ports.get(&(index, 0)).zip(device.sheet.as_ref()) {
            series.tell(families, sheet);
        }
    }
}

fn accounts(families: &mut Exposition, teller: &Teller, ledger: &Ledger) {
    let sheets = ledger.accounts().values().flat_map(|kept| kept.values());
    for ((_, _, series), sheet) in teller.series.accounts.iter().zip(sheets) {
        series.tell(families, sheet);
    }
}

fn unattributed(families: &mut Exposition, ledger: &Ledger, port: (u32, u32), device: &str, node: &Labels) {
    for (direction, bytes) in ledger.unattributed(port) {
        let help = "RDMA bytes of a port of the node that no pod could be named for.";
        let labels = node.more().with("device", device).with_text("port", port.1);
        counter(families, "rdma_port_unattributed_bytes_total", help)
            .add(labels.with("direction", direction.name()).done(), bytes);
    }
}
