//! `silkrail devices`: the devices that this node offers to the kubelet.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use device_plugin::{DeviceReport, NodeReader, NodeReport, ResourceFiles};
use kubelet_checkpoint::KubeletDirectory;
use podmap::PodMap;
use state::StateDir;
use sysfs::Sysfs;

use crate::{
    exit::{CommandError, CommandExit},
    json, resource_files, table,
};

const HEAD: [&str; 9] =
    ["RESOURCE", "DEVICE", "PF", "LINK", "RDMA-DEVICE", "NUMA", "HEALTH", "HOLDER", "ALLOCATED-TO"];

/// List the devices that `silkraild --device-plugin` offers to the kubelet, who has them, and who should
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DevicesArgs {
    /// File with the resources, the one of `silkraild --device-plugin`; can be repeated
    ///
    /// Default: $SILKRAILD_DEVICE_PLUGIN, else /etc/silkrail/node.yaml if it has devicePlugin, else /etc/silkrail/resources.yaml.
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also list the devices that no resource selects, with the reasons
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Directory of the kubelet's device plugins, if its root directory is not /var/lib/kubelet
    #[arg(long, default_value = "/var/lib/kubelet/device-plugins", value_name = "DIR")]
    kubelet_dir: PathBuf,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: PathBuf,
}

const EXAMPLES: &str = "\
HEALTH is unhealthy if the kubelet cannot give the device to a pod; the reasons are listed below the table. HOLDER has
the device in its network namespace; ALLOCATED-TO are the pods for which the kubelet has reserved it.

Examples:
  silkrail devices
  silkrail devices --all
  silkrail devices --json | jq -r '.devices[] | select(.unhealthy) | .id + \": \" + .unhealthy'

Exit status:
  0   done
  1   an error
  2   wrong usage";

impl DevicesArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let files = match (&self.files[..], resource_files::of_node(root)) {
            ([], Some(file)) => vec![file],
            ([], None) => return Err(CommandError::NoResourceFile),
            (files, _) => files.to_owned(),
        };
        let ResourceFiles { resources, fabric, findings } = resource_files::read(&files)?;
        let reader = NodeReader {
            root: root.to_owned(),
            sysfs: Sysfs::at(root.join("sys")),
            pod_map: PodMap::below(&self.state_dir),
            kubelet: KubeletDirectory(self.kubelet_dir.clone()),
            fabric,
        };
        let node = reader.read()?;
        findings.iter().for_each(|finding| eprintln!("silkrail: {finding}"));
        node.warnings.iter().for_each(|warning| eprintln!("silkrail: {warning}"));
        let report = NodeReport::new(&resources, &node);
        if self.json {
            json::print(&report, out)?
        } else {
            print(&report, self.all, out)?
        }
        Ok(CommandExit::Done)
    }
}

fn print(report: &NodeReport, all: bool, out: &mut dyn Write) -> Result<(), CommandError> {
    table::print(out, HEAD, &report.devices.iter().map(cells).collect::<Vec<_>>())?;
    let reason = |device: &DeviceReport| Some((device.id.clone(), device.unhealthy.clone()?));
    let mut reasons: Vec<_> = report.devices.iter().filter_map(reason).collect();
    reasons.dedup(); // a device may be in several resources
    section(out, "Unhealthy:", reasons.iter().map(|(id, reason)| (id.as_str(), reason.as_str())))?;
    if all {
        let reasons = report
            .not_offered
            .iter()
            .flat_map(|device| device.reasons.iter().map(|reason| (device.id.as_str(), reason.as_str())));
        section(out, "Not offered:", reasons)?;
    }
    Ok(())
}

/// Prints lines below the table, each with a device and text.
fn section<'a>(
    out: &mut dyn Write,
    head: &str,
    lines: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), CommandError> {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        writeln!(out, "\n{head}")?;
    }
    for (id, text) in lines {
        writeln!(out, "  {id}: {text}")?;
    }
    Ok(())
}

fn cells(device: &DeviceReport) -> [String; HEAD.len()] {
    let health = if device.unhealthy.is_some() { "unhealthy" } else { "healthy" };
    let allocated_to = match device.slots {
        Some(slots) => format!("{} of {slots}", device.allocated_to.len()),
        None => device.allocated_to.join(","),
    };
    [
        device.resource.clone(),
        device.id.clone(),
        device.pf.clone().unwrap_or_default(),
        device.links.join(","),
        device.rdma_devices.join(","),
        device.numa_node.map(|node| node.to_string()).unwrap_or_default(),
        health.to_owned(),
        device.holder.clone().unwrap_or_default(),
        allocated_to,
    ]
}

#[cfg(test)]
mod tests {
    use device_plugin::ExcludedDevice;

    use super::*;

    fn device(id: &str) -> DeviceReport {
        DeviceReport {
            resource: "a.io/vf".into(),
            id: id.into(),
            pf: Some("p0".into()),
            links: vec!["p0v0".into()],
            rdma_devices: vec!["mlx5_2".into()],
            numa_node: Some(1),
            rail: None,
            unhealthy: None,
            holder: None,
            allocated_to: Vec::new(),
            slots: None,
        }
    }

    #[test]
    fn a_device_is_a_line_and_reasons_are_below() {
        let away = DeviceReport {
            links: Vec::new(),
            rdma_devices: Vec::new(),
            unhealthy: Some("pod default/a has it".into()),
            holder: Some("pod default/a".into()),
            allocated_to: vec!["default/b".into()],
            ..device("0000:af:00.3")
        };
        let shared = DeviceReport {
            resource: "rdma/hca".into(),
            pf: None,
            allocated_to: vec!["default/c".into(), "default/d".into()],
            slots: Some(100),
            ..device("0000:b0:00.0")
        };
        let not_offered =
            vec![ExcludedDevice { id: "0000:b1:00.0".into(), reasons: vec!["a.io/vf: it has 8 VFs".into()] }];
        let report = NodeReport { devices: vec![device("0000:af:00.2"), away, shared], not_offered };
        let mut out = Vec::new();
        print(&report, true, &mut out).unwrap();
        let expected = "\
RESOURCE  DEVICE        PF  LINK  RDMA-DEVICE  NUMA  HEALTH     HOLDER         ALLOCATED-TO
a.io/vf   0000:af:00.2  p0  p0v0  mlx5_2       1     healthy    -              -
a.io/vf   0000:af:00.3  p0  -     -            1     unhealthy  pod default/a  default/b
rdma/hca  0000:b0:00.0  -   p0v0  mlx5_2       1     healthy    -              2 of 100

Unhealthy:
  0000:af:00.3: pod default/a has it

Not offered:
  0000:b1:00.0: a.io/vf: it has 8 VFs
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
