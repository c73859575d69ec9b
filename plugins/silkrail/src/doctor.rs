//! `silkrail doctor`: reports problems of the node, and how to fix them.
//!
//! The crate `doctor` collects and judges the facts. This module contains the arguments and the output.

mod fleet;
mod history;
mod log;
mod other_commands;

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use ::doctor::{DoctorOptions, DoctorReport, Finding, NodeFacts, Severity, SeverityCounts, bundle};
use doctor_record::{CardInventory, DoctorRecord, Examined, ExpectedPort, GpuInventory, RecordedFinding};
use silkrail_cni::PLUGINS;
use state::StateDir;

use crate::{
    exit::{CommandError, CommandExit},
    json, periodic, resource_files,
};

/// Report problems of this node, and how to fix them
///
/// Examines the RDMA mode, devices, ports, GIDs, MTUs, VFs, PCIe, firmware, device nodes, limits, CNI plugins, networks, address
/// pools, resources that pods left behind, and more. Calls the operation STATUS of Silkrail's plugins for each network, which tells
/// whether a pod could be attached to it. Changes nothing and takes a few seconds. Also lists what could not be
/// examined: run it as root on the node, or in a pod with hostPID and hostNetwork, to examine everything.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// List every kind of finding with its description, and exit
    #[arg(long, conflicts_with_all = ["only", "bundle"])]
    list: bool,
    /// Report only findings of these kinds (see --list)
    #[arg(long, value_delimiter = ',', value_name = "ID", value_parser = id)]
    only: Vec<String>,
    /// The state directory of the plugins
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: PathBuf,
    /// The directory of the CNI plugins [default: that of the container runtime]
    #[arg(long, value_name = "DIR")]
    cni_bin: Option<PathBuf>,
    /// The directory of networks [default: that of the container runtime]
    #[arg(long, value_name = "DIR")]
    cni_conf: Option<PathBuf>,
    /// Also examine the NetworkAttachmentDefinitions of a file, or of the standard input with `-`
    #[arg(long, value_name = "FILE")]
    networks: Option<PathBuf>,
    /// Apply the policy of the node to all networks, as for pods of this namespace [default: that of each NetworkAttachmentDefinition]
    #[arg(long, value_name = "NAME", value_parser = namespace)]
    pod_namespace: Option<String>,
    /// The site file: what the ports and GPUs of this node have to have [default: /etc/silkrail/site.yaml, which may be missing]
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
    /// The name of this node in the site file [default: NODE_NAME, or the hostname]
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Also record the findings in the state directory, for the metrics of silkraild
    #[arg(long)]
    record: bool,
    /// Show when the findings of --record came and went, since the boot and in the last 30 days, and exit
    #[arg(long, conflicts_with_all = ["list", "record", "bundle", "networks", "chroot"])]
    history: bool,
    #[command(flatten)]
    fleet: Box<fleet::FleetArgs>,
    /// Record again and again, with this many seconds between examinations, as in conf/silkrail-doctor; logs what begins and ends
    #[arg(long, value_name = "SECONDS", requires = "record", conflicts_with_all = ["json", "list", "bundle", "only"])]
    #[arg(value_parser = clap::value_parser!(u64).range(10..))]
    every: Option<u64>,
    /// Examine the node whose root directory is mounted here, in a container with its PID and network namespaces
    #[arg(long, value_name = "DIR", conflicts_with_all = ["bundle", "networks"])]
    chroot: Option<PathBuf>,
    /// Also write everything that was examined to an archive for a support ticket: FILE.tar, FILE.tar.gz or FILE.tgz
    ///
    /// MAC and IP addresses, GUIDs and host names are replaced by pseudonyms. The archive contains names of pods and
    /// devices, and network configurations without addresses. Only its owner can read it (mode 0600).
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Do not replace addresses and host names in the bundle
    #[arg(long, requires = "bundle")]
    no_redact: bool,
    /// Replace the bundle if the file already exists
    #[arg(long, requires = "bundle")]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  silkrail doctor                                      all findings, errors first
  silkrail doctor --json | jq -r '.findings[] | select(.severity == \"error\") | .id'
  silkrail doctor --only rdma-mode-not-kept,memlock-limited
  silkrail doctor --history                            findings that came and went
  silkrail doctor --fleet gpu-01 gpu-02 gpu-03         what differs between nodes
  silkrail doctor --bundle node.tar.gz                 also write an archive for a support ticket
  kubectl get network-attachment-definitions -A -o json | silkrail doctor --networks -
  silkrail doctor --pod-namespace team-a               which networks the policy of the node refuses to team-a

Exit status:
  0   no error was found; there may be warnings. With --fleet: all nodes were read and are equal
  1   the command failed, or the bundle could not be written
  2   invalid usage
  6   at least one error was found. With --fleet: a difference, or a node that could not be read";

fn id(text: &str) -> Result<String, String> {
    match ::doctor::ids().any(|id| id.name == text) {
        true => Ok(text.to_owned()),
        false => Err("unknown kind of finding; silkrail doctor --list lists all of them".to_owned()),
    }
}

fn namespace(text: &str) -> Result<String, String> {
    let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match !text.is_empty() && text.bytes().all(is_label) {
        true => Ok(text.to_owned()),
        false => Err("expected the name of a namespace: lower-case letters, digits and -".to_owned()),
    }
}

impl DoctorArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        if self.list {
            return list(self.json, out);
        }
        if self.fleet.is_wanted() {
            return self.fleet.run(self.json, out);
        }
        if self.history {
            return history::print(&resource_files::below(root, &self.state_dir), &self.only, self.json, out);
        }
        if let Some(directory) = &self.chroot {
            let failed =
                |errno: nix::Error| CommandError::Chroot { path: directory.clone(), source: errno.into() };
            nix::unistd::chroot(directory).and_then(|()| nix::unistd::chdir("/")).map_err(failed)?;
        }
        match self.every {
            Some(seconds) => {
                periodic::repeat(Duration::from_secs(seconds), || self.examine_and_log(root, out))
            }
            None => self.examine_once(root, out),
        }
    }

    /// Examines the node, records the findings, and logs those that began or ended.
    fn examine_and_log(&self, root: &Path, out: &mut dyn Write) -> Result<(), CommandError> {
        let facts = NodeFacts::read(&self.options(root)?);
        let report = ::doctor::examine(&facts);
        let state_dir = resource_files::below(root, &self.state_dir);
        let former = DoctorRecord::read(&state_dir).ok().flatten().unwrap_or_default();
        let record = DoctorRecord::update(&state_dir, examined(&facts, &report))?;
        Ok(log::run(&former, &record, out)?)
    }

    fn options(&self, root: &Path) -> Result<DoctorOptions, CommandError> {
        Ok(DoctorOptions {
            root: root.to_owned(),
            state_dir: self.state_dir.clone(),
            cni_bin: self.cni_bin.clone(),
            cni_conf: self.cni_conf.clone(),
            defined_networks: self.networks.as_deref().map_or(Ok(Vec::new()), other_commands::networks)?,
            pod_namespace: self.pod_namespace.clone(),
            plugin_names: PLUGINS.iter().map(|(name, _)| *name).collect(),
            leftovers: other_commands::stale_resources(root, &self.state_dir),
            wanted: other_commands::desired_state(root, &self.state_dir),
            site: self.site.clone(),
            node_name: self
                .node_name
                .clone()
                .or_else(|| env::var("NODE_NAME").ok())
                .filter(|name| !name.is_empty()),
            resources: other_commands::resources(root, &self.state_dir),
        })
    }

    fn examine_once(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let doctor_options = self.options(root)?;
        let facts = NodeFacts::read(&doctor_options);
        let mut report = ::doctor::examine(&facts);
        if self.record {
            DoctorRecord::update(&resource_files::below(root, &self.state_dir), examined(&facts, &report))?;
        }
        if let Some(path) = &self.bundle {
            let options = bundle::BundleOptions { redact: !self.no_redact, force: self.force };
            let written = bundle::write(path, options, &doctor_options, &facts, &report)?;
            eprintln!("silkrail: {}: {} files", written.path.display(), written.files);
            written.left_out.iter().for_each(|what| eprintln!("silkrail: omitted from the bundle: {what}"));
        }
        if !self.only.is_empty() {
            let is_selected = |id: &str| self.only.iter().any(|only| only == id);
            let (mut findings, mut ignored) = (report.findings, report.ignored);
            findings.retain(|finding| is_selected(finding.id));
            ignored.retain(|finding| is_selected(finding.id));
            report = DoctorReport { ignored, ..DoctorReport::of(findings) };
        }
        if self.json {
            json::print(&report, out)?;
        } else {
            print(&report, out)?;
        }
        Ok(if report.counts.error > 0 { CommandExit::Found } else { CommandExit::Done })
    }
}

/// Returns what is recorded of an examination.
fn examined(facts: &NodeFacts, report: &DoctorReport) -> Examined {
    let findings = report.findings.iter().map(|finding| RecordedFinding {
        id: finding.id.to_owned(),
        severity: finding.severity.to_string(),
        object: finding.object.clone(),
        summary: finding.summary.clone(),
        since: 0,
    });
    let ports = ::doctor::expected_ports(facts).into_iter();
    let ports =
        ports.map(|port| ExpectedPort { device: port.device, port: port.port, is_up: port.is_up }).collect();
    let ::doctor::NodeInventory { kernel, cards, gpus } = ::doctor::NodeInventory::of(facts);
    let inventory = doctor_record::NodeInventory {
        kernel,
        cards: cards.into_iter().map(|(device, pcie, mtu)| CardInventory { device, pcie, mtu }).collect(),
        gpus: gpus.into_iter().map(|(model, lanes)| GpuInventory { model, lanes }).collect(),
    };
    Examined { findings: findings.collect(), ports, inventory }
}

fn list(as_json: bool, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
    if as_json {
        let ids: Vec<_> =
            ::doctor::ids().map(|id| serde_json::json!({"id": id.name, "line": id.line})).collect();
        json::print(&ids, out)?;
        return Ok(CommandExit::Done);
    }
    let width = ::doctor::ids().map(|id| id.name.len()).max().unwrap_or_default();
    for id in ::doctor::ids() {
        writeln!(out, "{:width$}  {}", id.name, id.line)?;
    }
    Ok(CommandExit::Done)
}

fn print(report: &DoctorReport, out: &mut dyn Write) -> Result<(), CommandError> {
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let of: Vec<&Finding> =
            report.findings.iter().filter(|finding| finding.severity == severity).collect();
        if of.is_empty() {
            continue;
        }
        let title = match severity {
            Severity::Error => "ERRORS",
            Severity::Warning => "WARNINGS",
            Severity::Info => "INFORMATION",
        };
        writeln!(out, "{title}")?;
        for Finding { id, object, summary, evidence, fix, .. } in of {
            writeln!(out, "  {object}: {summary}  [{id}]")?;
            for line in evidence {
                writeln!(out, "      {line}")?;
            }
            if !fix.is_empty() {
                writeln!(out, "      remedy: {fix}")?;
            }
        }
        writeln!(out)?;
    }
    let SeverityCounts { error, warning, info } = report.counts;
    let ignored = match report.ignored.len() {
        0 => String::new(),
        number => format!("; the site file accepts {number} more (--json shows them)"),
    };
    Ok(writeln!(
        out,
        "{error} {}, {warning} {}, {info} informational{ignored}",
        plural(error, "error"),
        plural(warning, "warning")
    )?)
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity) -> Finding {
        Finding {
            id: "link-down",
            severity,
            object: "eth0".into(),
            summary: "it is down".into(),
            evidence: vec!["mlx5_0 port 1: DOWN".into()],
            fix: "ip link set eth0 up".into(),
        }
    }

    #[test]
    fn the_text_output_has_errors_first_with_evidence_and_remedy() {
        let mut out = Vec::new();
        print(&DoctorReport::of(vec![finding(Severity::Info), finding(Severity::Error)]), &mut out).unwrap();
        let expected = "ERRORS\n  eth0: it is down  [link-down]\n      mlx5_0 port 1: DOWN\n      \
                        remedy: ip link set eth0 up\n\nINFORMATION\n  eth0: it is down  [link-down]\n      \
                        mlx5_0 port 1: DOWN\n      remedy: ip link set eth0 up\n\n\
                        1 error, 0 warnings, 1 informational\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn only_listed_ids_are_accepted() {
        assert!(::doctor::ids().all(|known| id(known.name).is_ok()));
        assert!(id("link-up").is_err());
    }
}
