//! Exit statuses of the commands, and the errors behind them.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The list of exit statuses at the end of `--help`.
pub(crate) const HELP: &str = "\
Exit status:
  0   done, or nothing to do
  1   an error
  2   wrong usage
  3   refused, or a change could not be reverted
  4   not supported: no RDMA or no SR-IOV on this node, or the kernel is too old
  5   timed out
  6   a check found a problem
  10  a reboot (or an idle node) is required
  11  something was changed (with --detailed-exitcode)";

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandExit {
    /// Done, or nothing to do.
    Done = 0,
    /// An error.
    Failed = 1,
    /// Wrong usage, or an input file that is not valid.
    Wrong = 2,
    /// Refused because something is in use, or a change could not be reverted.
    Refused = 3,
    /// No RDMA or no SR-IOV on this node, or the kernel is too old.
    Unsupported = 4,
    /// A timeout expired, for example while another run held a lock.
    TimedOut = 5,
    /// The command ran and found a problem.
    Found = 6,
    /// A reboot, or an idle node, is required.
    NeedsReboot = 10,
    /// Something was changed; only with `--detailed-exitcode`.
    Changed = 11,
}

/// Why a command failed. Wrong usage (exit status 2) is reported by clap instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Plugin(#[from] plugin_runtime::Error),
    #[error(transparent)]
    Mode(#[from] rdma_mode::Error),
    #[error(transparent)]
    Rdma(#[from] rdma::Error),
    #[error(transparent)]
    PodMap(#[from] podmap::Error),
    #[error(transparent)]
    Addresses(#[from] ::ipam::StoreError),
    #[error(transparent)]
    Journals(#[from] state::Error),
    #[error("{0}; expected the file of `silkraild --device-plugin` (--file)")]
    ResourceFile(#[from] device_plugin::ResourceFileError),
    #[error(
        "this node offers no devices to the kubelet: there is neither /etc/silkrail/resources.yaml nor devicePlugin in \
         /etc/silkrail/node.yaml; specify another file with --file"
    )]
    NoResourceFile,
    #[error(transparent)]
    Devices(#[from] device_plugin::NodeReadError),
    #[error(transparent)]
    CannotJudge(#[from] netns::NotOnNode),
    #[error(transparent)]
    Gc(#[from] ::gc::Error),
    #[error(transparent)]
    DoctorRecord(#[from] doctor_record::DoctorRecordError),
    #[error(
        "{} has no record of examinations: run silkrail doctor --record, or enable silkrail-doctor.timer; a reboot \
         deletes the record",
        path.display()
    )]
    NoDoctorRecord { path: PathBuf },
    #[error(transparent)]
    NodeAddress(#[from] fleet::InvalidNodeAddress),
    #[error(transparent)]
    Tls(#[from] fleet::TlsFileError),
    #[error(
        "no node is named: expected silkrail doctor --fleet HOST…, or --fleet-file FILE with a host in each line"
    )]
    NoNodes,
    #[error("the token would be sent to {0} in clear text: expected addresses like https://HOST")]
    TokenInClear(String),
    #[error("cannot change the root directory to {}: {source}", path.display())]
    Chroot { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Bundle(#[from] ::doctor::bundle::Error),
    #[error("{}: {source}", path.display())]
    NodeFile { path: PathBuf, source: provision::InvalidNodeFile },
    #[error("{}", no_file(what, path, source))]
    NoNodeFile { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Input { path: PathBuf, source: io::Error },
    #[error("{}: {what}", path.display())]
    Network { path: PathBuf, what: String },
    #[error("there is no SpiderMultusConfig in the input")]
    NothingToRender,
    #[error("there is no PF {wanted:?}: {}", pfs(there))]
    NoPf { wanted: String, there: Vec<String> },
    #[error("--watch prints lines of a table; expected -o table or -o wide")]
    WatchJson,
    #[error("there is no link {0} in the network namespace of the node; ip link lists them")]
    NoLink(identifiers::LinkName),
    #[error(transparent)]
    Inventory(#[from] inventory::Error),
    #[error("{}: {source}", path.display())]
    Profile { path: PathBuf, source: tune::InvalidProfile },
    #[error(transparent)]
    Tune(#[from] tune::Error),
    #[error(transparent)]
    Recover(#[from] provision::RecoverError),
    #[error(transparent)]
    Apply(#[from] provision::ApplyError),
    #[error(transparent)]
    StateFile(#[from] statefile::Error),
    #[error(transparent)]
    Install(#[from] installer::Error),
    #[error(
        "cannot determine the path of this program: {0}; specify the directory of the executables with --from"
    )]
    CurrentExe(#[source] io::Error),
    #[error(transparent)]
    ManPage(#[from] manual_pages::WriteError),
    #[error(transparent)]
    Check(#[from] ::check::Error),
    #[error(transparent)]
    Governor(#[from] cpufreq::Error),
    #[error(transparent)]
    Incomparable(#[from] ::check::comparison::CompareError),
    #[error("{}: {source}", path.display())]
    HostsFile { path: PathBuf, source: io::Error },
    #[error("there is no other node to probe: name the nodes of the cluster, or a file with them (--hosts)")]
    NoOtherNode,
    #[error(
        "the probes of this node need {rate} packets per second on average, at most {most} are allowed: use fewer --peers or \
         --messages, a longer --interval, or --max-rate {rate}"
    )]
    ProbeRate { rate: u64, most: u64 },
    #[error("{0} is specified twice")]
    NodeTwice(String),
    #[error(
        "nothing to test: fewer than two nodes responded, or no two of them have usable ports on one rail; \
         the reasons are above"
    )]
    NothingToTest,
    #[error("{0} rails: at most {max} can be tested at the same time; select some with --rail DEVICE,...", max = ::check::protocol::MAX_RAILS)]
    TooManyRails(usize),
    /// The parent process adds the path of the attribute.
    #[error("the kernel returned an error: {0}")]
    Attribute(#[source] io::Error),
    #[error("{0} resolves to a loopback address ({1}); specify an address at which the other nodes reach it")]
    Loopback(String, std::net::IpAddr),
    #[error("failed to write the output: {0}")]
    Output(#[from] io::Error),
}

/// The message for an input file that cannot be read, with a remedy.
fn no_file(what: &str, path: &Path, source: &io::Error) -> String {
    let path = path.display();
    if source.kind() != io::ErrorKind::NotFound {
        return format!("cannot read {path}: {source}; expected a YAML file, the {what}");
    }
    let remedy = match what {
        NODE_FILE => {
            "create it (`silkrail apply --help` shows an example), or specify another: silkrail apply FILE"
        }
        GUID_FILE => "create it, or correct guidFile in the node file",
        _ => "specify an existing file",
    };
    format!("there is no {what} {path}: {remedy}")
}

/// The ways to name a PF, and the names of this node's PFs.
fn pfs(there: &[String]) -> String {
    if there.is_empty() {
        return "this node has no PCI network card (`lspci -d ::0200` lists none)".into();
    }
    format!("expected the link, the PCI address or the RDMA device of a PF; available: {}", there.join(", "))
}

/// The file of `silkrail apply`, in [`CommandError::NoNodeFile`].
pub(crate) const NODE_FILE: &str = "node file";
/// The file that `guidFile` of a node file names.
pub(crate) const GUID_FILE: &str = "GUID file";
/// The file of `silkrail tune --profile`.
pub(crate) const PROFILE: &str = "profile";

impl CommandError {
    pub(crate) fn exit(&self) -> CommandExit {
        use provision::{ApplyError, PciBackendError, RecoverError};
        use rdma::Error::{NoRdma, TooOld};
        match self {
            Self::Rdma(NoRdma | TooOld { .. }) => CommandExit::Unsupported,
            Self::Plugin(plugin_runtime::Error::Rdma(NoRdma | TooOld { .. })) => CommandExit::Unsupported,
            Self::Check(::check::Error::Rdma(NoRdma | TooOld { .. })) => CommandExit::Unsupported,
            Self::Mode(error) | Self::Apply(ApplyError::Mode(error)) => mode(error),
            Self::NodeFile { .. } | Self::NoPf { .. } | Self::Profile { .. } => CommandExit::Wrong,
            Self::Network { .. } | Self::NothingToRender | Self::WatchJson => CommandExit::Wrong,
            Self::NoOtherNode | Self::ProbeRate { .. } => CommandExit::Wrong,
            Self::NodeAddress(_) | Self::NoNodes | Self::TokenInClear(_) => CommandExit::Wrong,
            Self::ResourceFile(device_plugin::ResourceFileError::Invalid { .. }) => CommandExit::Wrong,
            Self::Apply(ApplyError::NodeFile(_)) | Self::Recover(RecoverError::NoFunction(_)) => {
                CommandExit::Wrong
            }
            Self::Recover(RecoverError::Hardware(PciBackendError::TimedOut { .. })) => CommandExit::TimedOut,
            Self::Apply(ApplyError::File(statefile::Error::Busy { .. }))
            | Self::Recover(RecoverError::File(statefile::Error::Busy { .. })) => CommandExit::TimedOut,
            Self::StateFile(statefile::Error::Busy { .. }) => CommandExit::TimedOut,
            Self::Install(installer::Error::Busy(_)) => CommandExit::TimedOut,
            Self::Install(installer::Error::InUse { .. } | installer::Error::Downgrade { .. }) => {
                CommandExit::Refused
            }
            // No `_`: a new error must be given its exit status here.
            Self::Rdma(_)
            | Self::Plugin(_)
            | Self::PodMap(_)
            | Self::ResourceFile(_)
            | Self::NoResourceFile
            | Self::Devices(_)
            | Self::CannotJudge(_)
            | Self::Gc(_)
            | Self::DoctorRecord(_)
            | Self::NoDoctorRecord { .. }
            | Self::Tls(_)
            | Self::Chroot { .. }
            | Self::Bundle(_)
            | Self::NoNodeFile { .. }
            | Self::Input { .. }
            | Self::Inventory(_)
            | Self::Tune(_)
            | Self::Recover(_)
            | Self::Apply(_)
            | Self::StateFile(_)
            | Self::Install(_)
            | Self::CurrentExe(_)
            | Self::ManPage(_)
            | Self::Check(_)
            | Self::Governor(_)
            | Self::Incomparable(_)
            | Self::NodeTwice(_)
            | Self::HostsFile { .. }
            | Self::NothingToTest
            | Self::TooManyRails(_)
            | Self::Attribute(_)
            | Self::Loopback(..)
            | Self::Addresses(_)
            | Self::Journals(_)
            | Self::NoLink(_)
            | Self::Output(_) => CommandExit::Failed,
        }
    }
}

fn mode(error: &rdma_mode::Error) -> CommandExit {
    match error {
        error if error.is_unsupported() => CommandExit::Unsupported,
        error if error.is_busy() => CommandExit::NeedsReboot,
        _ => CommandExit::Failed,
    }
}

impl From<CommandExit> for ExitCode {
    fn from(exit: CommandExit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_kind_of_error_has_its_exit_status() {
        use CommandExit::{Failed, NeedsReboot, Refused, TimedOut, Unsupported, Wrong};
        use provision::{ApplyError, PciBackendError, RecoverError};
        let path = || PathBuf::from("/x");
        let io = || io::Error::from(io::ErrorKind::NotFound);
        let busy = || statefile::Error::Busy { path: path(), waited: Duration::ZERO };
        let late = || PciBackendError::TimedOut { what: "x".into(), limit: Duration::ZERO };
        let invalid = || provision::NodeFile::parse("x: 1").err().unwrap();
        let profile = tune::TuneProfile::parse("x: 1").unwrap_err();
        let address = "a b".parse::<fleet::NodeAddress>().unwrap_err();
        let resources = device_plugin::ResourceFiles::read(&[path()], device_plugin::ReadOptions::default())
            .err()
            .unwrap();
        let errors: [(CommandError, CommandExit); 30] = [
            (rdma::Error::NoRdma.into(), Unsupported),
            (check::Error::Rdma(rdma::Error::NoRdma).into(), Unsupported),
            (CommandError::NodeFile { path: path(), source: invalid() }, Wrong),
            (ApplyError::NodeFile(invalid()).into(), Wrong),
            (CommandError::NoPf { wanted: "x".into(), there: Vec::new() }, Wrong),
            (CommandError::Profile { path: path(), source: profile }, Wrong),
            (CommandError::Network { path: path(), what: "x".into() }, Wrong),
            (CommandError::NothingToRender, Wrong),
            (CommandError::WatchJson, Wrong),
            (CommandError::NoOtherNode, Wrong),
            (CommandError::ProbeRate { rate: 2, most: 1 }, Wrong),
            (address.into(), Wrong),
            (CommandError::NoNodes, Wrong),
            (CommandError::TokenInClear("x".into()), Wrong),
            (RecoverError::Hardware(late()).into(), TimedOut),
            (RecoverError::File(busy()).into(), TimedOut),
            (ApplyError::File(busy()).into(), TimedOut),
            (busy().into(), TimedOut),
            (installer::Error::Busy(busy()).into(), TimedOut),
            (installer::Error::InUse { attachments: Vec::new() }.into(), Refused),
            (resources.into(), Failed),
            (CommandError::NoResourceFile, Failed),
            (CommandError::NoDoctorRecord { path: path() }, Failed),
            (CommandError::NoNodeFile { what: NODE_FILE, path: path(), source: io() }, Failed),
            (CommandError::Input { path: path(), source: io() }, Failed),
            (CommandError::HostsFile { path: path(), source: io() }, Failed),
            (CommandError::NothingToTest, Failed),
            (CommandError::NodeTwice("x".into()), Failed),
            (CommandError::TooManyRails(99), Failed),
            (CommandError::Output(io()), Failed),
        ];
        for (error, exit) in errors {
            assert_eq!(error.exit(), exit, "{error:?}");
        }
        assert_eq!(
            [NeedsReboot, CommandExit::Found, CommandExit::Changed].map(|exit| exit as u8),
            [10, 6, 11]
        );
        assert_eq!([Failed, Wrong, Refused, Unsupported, TimedOut].map(|exit| exit as u8), [1, 2, 3, 4, 5]);
    }
}
