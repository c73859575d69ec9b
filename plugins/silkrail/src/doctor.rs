//! `silkrail doctor`: what is wrong with the node, and what to do about it.
//!
//! What is known and how it is judged is in the crate `doctor`; here are the arguments and the printing.

mod other_commands;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use ::doctor::{DoctorOptions, DoctorReport, Finding, NodeFacts, Severity, SeverityCounts, bundle};
use silkrail_cni::PLUGINS;
use state::StateDir;

use crate::{
    exit::{CommandError, CommandExit},
    json,
};

/// Say what is wrong with this node, and what to do about it
///
/// Looks at the RDMA mode, devices, ports, GIDs, MTU, VFs, PCIe, firmware, device nodes, limits, CNI plugins, pools, what
/// pods left behind, and more. Changes nothing and takes seconds. What could not be looked at is told of too; run it as
/// root on the node (or with hostPID and hostNetwork) to have all of it seen.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print every kind of finding and what it means, and do nothing else
    #[arg(long, conflicts_with_all = ["only", "bundle"])]
    list: bool,
    /// Only findings of these kinds (see --list)
    #[arg(long, value_delimiter = ',', value_name = "ID", value_parser = id)]
    only: Vec<String>,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    state_dir: PathBuf,
    /// Where the runtime has its CNI plugins
    #[arg(long, default_value = "/opt/cni/bin", value_name = "DIR")]
    cni_bin: PathBuf,
    /// Also write all that was seen into a file for a support ticket: FILE.tar, FILE.tar.gz or FILE.tgz
    ///
    /// MAC and IP addresses, GUIDs and names of hosts are replaced by pseudonyms. Names of pods and devices, and the
    /// networks' configurations without their addresses, are in it. Only you may read the file.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Leave addresses and names of hosts in the bundle as they are
    #[arg(long, requires = "bundle")]
    no_redact: bool,
    /// Replace the bundle's file if it is there
    #[arg(long, requires = "bundle")]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  silkrail doctor                                      what is wrong, the worst first
  silkrail doctor --json | jq -r '.findings[] | select(.severity == \"error\") | .id'
  silkrail doctor --only rdma-mode-not-kept,memlock-limited
  silkrail doctor --bundle node.tar.gz                 and all that was seen, for a support ticket

Exit status:
  0   no error was found (warnings may be)
  1   it could not be run, or the bundle not be written
  2   wrong usage
  6   at least one error was found";

fn id(text: &str) -> Result<String, String> {
    match ::doctor::ids().any(|id| id.name == text) {
        true => Ok(text.to_owned()),
        false => Err("there is no such kind of finding; silkrail doctor --list has them all".to_owned()),
    }
}

impl DoctorArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        if self.list {
            return list(self.json, out);
        }
        let asked = DoctorOptions {
            root: root.to_owned(),
            state_dir: self.state_dir.clone(),
            cni_bin: self.cni_bin.clone(),
            plugin_names: PLUGINS.iter().map(|(name, _)| *name).collect(),
            leftovers: other_commands::stale_resources(root, &self.state_dir),
            wanted: other_commands::desired_state(root, &self.state_dir),
        };
        let facts = NodeFacts::read(&asked);
        let mut report = ::doctor::examine(&facts);
        if let Some(path) = &self.bundle {
            let options = bundle::BundleOptions { redact: !self.no_redact, force: self.force };
            let written = bundle::write(path, options, &asked, &facts, &report)?;
            eprintln!("silkrail: {}: {} files", written.path.display(), written.files);
            written.left_out.iter().for_each(|what| eprintln!("silkrail: left out of the bundle: {what}"));
        }
        if !self.only.is_empty() {
            let mut findings = report.findings;
            findings.retain(|finding| self.only.iter().any(|id| id == finding.id));
            report = DoctorReport::of(findings);
        }
        if self.json {
            json::print(&report, out)?;
        } else {
            print(&report, out)?;
        }
        Ok(if report.counts.error > 0 { CommandExit::Found } else { CommandExit::Done })
    }
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
            Severity::Info => "GOOD TO KNOW",
        };
        writeln!(out, "{title}")?;
        for Finding { id, object, summary, evidence, fix, .. } in of {
            writeln!(out, "  {object}: {summary}  [{id}]")?;
            for line in evidence {
                writeln!(out, "      {line}")?;
            }
            if !fix.is_empty() {
                writeln!(out, "      to do: {fix}")?;
            }
        }
        writeln!(out)?;
    }
    let SeverityCounts { error, warning, info } = report.counts;
    Ok(writeln!(
        out,
        "{error} {}, {warning} {}, {info} good to know",
        many(error, "error"),
        many(warning, "warning")
    )?)
}

fn many(count: usize, word: &str) -> String {
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
    fn people_read_the_worst_first_with_evidence_and_what_to_do() {
        let mut out = Vec::new();
        print(&DoctorReport::of(vec![finding(Severity::Info), finding(Severity::Error)]), &mut out).unwrap();
        let expected = "ERRORS\n  eth0: it is down  [link-down]\n      mlx5_0 port 1: DOWN\n      to do: ip link set eth0 up\n\n\
                        GOOD TO KNOW\n  eth0: it is down  [link-down]\n      mlx5_0 port 1: DOWN\n      to do: ip link set \
                        eth0 up\n\n1 error, 0 warnings, 1 good to know\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn every_id_of_the_list_may_be_asked_for_and_no_other() {
        assert!(::doctor::ids().all(|known| id(known.name).is_ok()));
        assert!(id("link-up").is_err());
    }
}
