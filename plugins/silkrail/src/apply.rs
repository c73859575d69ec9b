//! `silkrail apply`: makes a node as its file says.

mod report;

use std::{
    collections::BTreeSet,
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use identifiers::PciAddress;
use inventory::NodePaths;
use provision::{
    Apply, ApplyError, ApplyPermissions, GuidFile, NodeFile, PfPlan, PfStep, ReadyMarker, SysfsBackend,
};
use state::StateDir;
use sysfs::Sysfs;

use crate::exit::{CommandError, CommandExit, GUID_FILE, NODE_FILE};

/// Make the node as its file says: RDMA mode, VFs, MTUs
///
/// What is right already is not touched, so it may run at every boot and at any time. VFs in use are never removed, and
/// PFs that the file does not name never touched. VFs get their addresses and settings before their driver, so that
/// their RDMA devices have a GUID. A run that was killed is finished by the next.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApplyArgs {
    /// The node file
    #[arg(default_value = "/etc/silkrail/node.yaml", value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    how: ApplyOptions,
}

/// How changes are made.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyOptions {
    /// Show what would be done, and do nothing
    #[arg(long, visible_alias = "plan")]
    pub(crate) dry_run: bool,
    /// Remove VFs to make another number of them; never those in use
    #[arg(long)]
    pub(crate) allow_recreate: bool,
    /// Change PFs even if the node's own traffic may run over them
    #[arg(long)]
    pub(crate) force_pf: bool,
    /// How long firmware may take for one write
    #[arg(long, default_value_t = 120, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
    /// End with 11 if something was changed
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
  silkrail apply                           do what /etc/silkrail/node.yaml says
  silkrail apply node.yaml --allow-recreate

A node file:
  rdmaMode: exclusive                      # or shared; left as it is without
  pfs:
    - match: {link: ens6f0np0}             # or pci, rdma, vendor, device, driver
      vfs: 8
      mtu: 9000                            # of the PF; left as it is without
      vf: {mac: stable, trust: true, spoofCheck: false, linkState: auto, mtu: 9000}
    - match: {vendor: '15b3', device: '101d'}
      vfs: 4
      optional: true                       # such a PF may be missing
      externallyManaged: false             # true: only compare
      force: false                         # true: as with --force-pf
    - match: {rdma: ibp1s0}                # InfiniBand: VFs have GUIDs
      vfs: 4
      vf: {guid: stable}                   # or keep, or file: those of guidFile
  # guidFile: /etc/sriov-operator/infiniband/guids

Exit status:
  0   the node is as the file says
  1   an error; what was done stays, and the next run goes on from there
  2   wrong usage, a wrong file, or more PFs or VFs than there are; the other PFs are made all the same
  3   refused: VFs are in use, would have to be recreated, or the node depends on the PF
  4   not supported: no RDMA or no SR-IOV
  5   firmware or another run did not answer in time
  10  a reboot (or an idle node) is needed for the RDMA mode
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

fn guids(path: &Path) -> Result<GuidFile, CommandError> {
    let path = path.to_owned();
    match fs::read_to_string(&path) {
        Ok(text) => GuidFile::parse(&text).map_err(|source| CommandError::NodeFile { path, source }),
        Err(source) => Err(CommandError::NoNodeFile { what: GUID_FILE, path, source }),
    }
}

impl ApplyOptions {
    /// Makes the node as a file says, or shows what that would be.
    pub(crate) fn apply(
        &self,
        root: &Path,
        file: &NodeFile,
        mark: Option<String>,
        out: &mut dyn Write,
    ) -> Result<CommandExit, CommandError> {
        let node = NodePaths { root: root.to_owned(), state: StateDir::at(&self.state_dir) };
        let system = system(&node, self.timeout)?;
        let consent = ApplyPermissions { recreate: self.allow_recreate, force: self.force_pf };
        let apply = Apply { file, mark, node, consent, system };
        let told = Mutex::default();
        let report =
            if self.dry_run { apply.preview()? } else { apply.run(&|pf, step| tell(&told, pf, step))? };
        report::print(&report, self.json, out)?;
        Ok(report::exit(&report, self.detailed_exitcode))
    }
}

/// Says what is done, in one line for what is done to each VF.
fn tell(told: &Mutex<BTreeSet<(PciAddress, String)>>, pf: &PfPlan, step: PfStep) {
    let is_new = told.lock().is_ok_and(|mut told| told.insert((pf.pci, step.kind())));
    if is_new {
        let whose = if step.vf().is_some() { "VFs: " } else { "" };
        eprintln!("{}: {whose}{}", pf.name, step.kind());
    }
}

/// The node's hardware, for which every attribute is written by a process of its own, which has `seconds` for it.
pub(crate) fn system(node: &NodePaths, seconds: u64) -> Result<SysfsBackend, io::Error> {
    let writer = vec![env::current_exe()?, "--root".into(), node.root.clone(), "write-attribute".into()];
    Ok(SysfsBackend { sysfs: node.sysfs(), writer, limit: Duration::from_secs(seconds) })
}

/// Write an attribute of a PCI function: the kernel cannot be interrupted in it, so `apply` has it done by a process of
/// its own
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
