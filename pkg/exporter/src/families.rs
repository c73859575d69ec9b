//! The metric families of a report. Each file says what is in some of them, and why.

mod counters;
mod device;
mod health;
mod labels;
mod pods;
mod port;
mod series;
mod spiderpool;

use std::sync::Arc;

use exposition::{Exposition, Kind, Labels, LabelsBuilder};

use crate::{Pod, Report, ledger::Ledger};

/// Tells of one report after another; what does not change is made once.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    /// The families met so far.
    template: Exposition,
    series: series::KnownSeries,
}

impl Teller {
    /// Everything that is told of a node.
    pub(crate) fn tell(&mut self, report: &Report, ledger: &Ledger, spiderpool: bool) -> Exposition {
        let node = Labels::of([("node", report.node.as_str())]);
        counters::prepare(self, report, ledger, &node);
        let mut families = Exposition::like(&self.template);
        health::tell(&mut families, report, &node);
        for device in &report.devices {
            if let Some(labels) = self.series.devices.get(&device.reading.device.index) {
                device::tell(&mut families, &device.reading, labels);
                port::tell(&mut families, &device.reading, labels);
            }
        }
        counters::tell(&mut families, self, report, ledger, &node);
        pods::tell(&mut families, report, &node);
        self.template.expect(&families);
        if spiderpool {
            spiderpool::tell(&mut families, report);
        }
        families
    }
}

fn with_pod(labels: LabelsBuilder, pod: Option<&Arc<Pod>>) -> LabelsBuilder {
    let Some(pod) = pod else { return labels };
    labels.with_some("pod_namespace", Some(&pod.namespace)).with("pod_name", &pod.name)
}

/// A gauge.
fn gauge<'a>(families: &'a mut Exposition, name: &str, help: &'static str) -> &'a mut exposition::Family {
    families.family(name, Kind::Gauge, help)
}

/// A counter.
fn counter<'a>(families: &'a mut Exposition, name: &str, help: &'static str) -> &'a mut exposition::Family {
    families.family(name, Kind::Counter, help)
}
