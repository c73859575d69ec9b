//! `silkrail apply`: configures a node as described by its node file.

mod report;

use std::{
    collections::BTreeSet,
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use consent::Consent;
use device_plugin::Config;
use identifiers::PciAddress;
use inventory::NodePaths;
use provision::{
    Apply, ApplyError, ApplyPermissions, GuidFile, NodeFile, PfPlan, PfStep, ReadyMarker, SysfsBackend,
};
use state::StateDir;
use sysfs::Sysfs;

use crate::exit::{CommandError, CommandExit, GUID_FILE, NODE_FILE};

/// Configure the node as described by a node file: RDMA mode, VFs, MTUs, DCB settings
///
/// Only differences are changed, so the command can run at every boot and at any time. VFs in use are never removed, and
/// PFs that the file does not match are never changed. VFs get their addresses and settings before their driver is bound,
/// so that their RDMA devices have a GUID. If a run is killed, the next one completes it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApplyArgs {
    /// The node file
    #[arg(default_value = "/etc/silkrail/node.yaml", value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    how: ApplyOptions,
}

/// The options of commands that change PFs and VFs.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyOptions {
    #[command(flatten)]
    pub(crate) consent: Consent,
    /// Delete and recreate VFs if their number differs; refused for VFs in use
    #[arg(long)]
    pub(crate) allow_recreate: bool,
    /// Change PFs even if the node's own traffic may run over them
    #[arg(long)]
    pub(crate) force_pf: bool,
    /// Timeout of one write to the kernel, which may wait for firmware
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
    /// Exit with status 11 if something was changed
    #[arg(long)]
    pub(crate) detailed_exitcode: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Where the plugins keep their state
    #[arg(long, default_value = StateDir::DEFAULT, value_name = "DIR")]
    pub(crate) state_dir: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  silkrail apply --dry-run                 what would be done to this node
  silkrail apply                           apply /etc/silkrail/node.yaml
  silkrail apply node.yaml --allow-recreate

A node file:
  rdmaMode: exclusive                      # or shared; unchanged if omitted
  pfs:
    - match: {link: ens6f0np0}             # or pci, rdma, vendor, device, driver
      vfs: 8
      mtu: 9000                            # of the PF; unchanged if omitted
      dcb:                                 # of the PF, by DCB netlink; unchanged if omitted, reverted if removed
        pfc: [3]                           # the priorities that have PFC
        trust: dscp                        # or pcp
        dscpPriorities: {26: 3, 48: 6}     # the priorities of DSCPs; others stay
        trafficClasses:                    # from class 0 on; without bandwidth: strict
          - {priorities: [0, 1, 2, 4, 5, 7], bandwidth: 50}
          - {priorities: [3], bandwidth: 50}
          - {priorities: [6]}
      vf: {mac: stable, trust: true, spoofCheck: false, linkState: auto, mtu: 9000}
    - match: {vendor: '15b3', device: '101d'}
      vfs: 4
      optional: true                       # not an error if there is no such PF
      externallyManaged: false             # true: compare only
      force: false                         # true: like --force-pf
    - match: {rdma: ibp1s0}                # InfiniBand: VFs have GUIDs
      vfs: 4
      vf: {guid: stable}                   # or keep, or file: from guidFile
  # guidFile: /etc/sriov-operator/infiniband/guids
  # devicePlugin: {…}                      # for silkraild --device-plugin: conf/silkraild-device-plugin/README.md

Exit status:
  0   the node is as described by the file
  1   an error; completed steps stay, and the next run continues from there
  2   wrong usage, an invalid file, a PF that does not exist, or too many VFs; the other PFs are still configured
  3   refused: a PF or VF is in use, VFs would have to be recreated, the node depends on the PF, or firmware manages DCB
  4   not supported: no RDMA, no SR-IOV or no DCB
  5   timed out waiting for firmware or for another run
  10  a reboot (or an idle node) is required for the RDMA mode
  11  something was changed (with --detailed-exitcode)";

impl ApplyArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let path = &self.file;
        let text = fs::read(path).map_err(|source| CommandError::NoNodeFile {
            what: NODE_FILE,
            path: path.clone(),
            source,
        })?;
        let mut file = NodeFile::parse(&String::from_utf8_lossy(&text))
            .map_err(|source| CommandError::NodeFile { path: path.clone(), source })?;
        if file.device_plugin.is_some() {
            report_resources(path, &String::from_utf8_lossy(&text));
        }
        if let Some(path) = &file.guid_file {
            file.guids = guids(path)?;
        }
        let named = |failure| match failure {
            CommandError::Apply(ApplyError::NodeFile(source)) => {
                CommandError::NodeFile { path: path.clone(), source }
            }
            other => other,
        };
        self.how.apply(root, &file, Some(ReadyMarker::hash(&text)), out).map_err(named)
    }
}

/// Reports what silkraild will ignore in its section of a node file. It does not concern the PFs.
fn report_resources(path: &Path, text: &str) {
    match Config::parse(text) {
        Ok(config) => {
            config.findings.iter().for_each(|finding| eprintln!("silkrail: {}: {finding}", path.display()));
        }
        Err(error) => eprintln!("silkrail: {}: {error}", path.display()),
    }
}

fn guids(path: &Path) -> Result<GuidFile, CommandError> {
    let path = path.to_owned();
    match fs::read_to_string(&path) {
        Ok(text) => GuidFile::parse(&text).map_err(|source| CommandError::NodeFile { path, source }),
        Err(source) => Err(CommandError::NoNodeFile { what: GUID_FILE, path, source }),
    }
}

impl ApplyOptions {
    /// Applies a node file, or prints the plan if `--dry-run` is set.
    pub(crate) fn apply(
        &self,
        root: &Path,
        file: &NodeFile,
        mark: Option<String>,
        out: &mut dyn Write,
    ) -> Result<CommandExit, CommandError> {
        let node = NodePaths { root: root.to_owned(), state: StateDir::at(&self.state_dir) };
        let system = system(&node, self.timeout)?;
        let permissions = ApplyPermissions { recreate: self.allow_recreate, force: self.force_pf };
        let apply = Apply { file, mark, node, consent: permissions, system };
        let printed = Mutex::default();
        let report = if self.consent.is_dry_run() {
            apply.preview()?
        } else {
            apply.run(&|pf, step| print_step(&printed, pf, step))?
        };
        report::print(&report, self.json, out)?;
        Ok(report::exit(&report, self.detailed_exitcode))
    }
}

/// Prints a step to stderr. A step of the VFs of a PF is printed once, not per VF.
fn print_step(printed: &Mutex<BTreeSet<(PciAddress, String)>>, pf: &PfPlan, step: &PfStep) {
    let is_new = printed.lock().is_ok_and(|mut printed| printed.insert((pf.pci, step.kind())));
    if is_new {
        let prefix = if step.vf().is_some() { "VFs: " } else { "" };
        eprintln!("{}: {prefix}{}", pf.name, step.kind());
    }
}

/// Returns the node's hardware. A child process writes each sysfs attribute, with a timeout of `seconds`.
pub(crate) fn system(node: &NodePaths, seconds: u64) -> Result<SysfsBackend, io::Error> {
    let writer = vec![env::current_exe()?, "--root".into(), node.root.clone(), "write-attribute".into()];
    Ok(SysfsBackend { sysfs: node.sysfs(), writer, limit: Duration::from_secs(seconds) })
}

/// Write a sysfs attribute of a PCI function. Such a write cannot be interrupted, so `apply` starts a child process for
/// it
#[derive(Debug, clap::Args)]
pub(crate) struct WriteAttribute {
    path: PathBuf,
    value: String,
}

impl WriteAttribute {
    pub(crate) fn run(&self, root: &Path) -> Result<CommandExit, CommandError> {
        provision::write_attribute(&Sysfs::at(root.join("sys")), &self.path, &self.value)
            .map_err(CommandError::Attribute)?;
        Ok(CommandExit::Done)
    }
}
