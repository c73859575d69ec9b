//! What can go wrong with a child link, beside what can with any.

use std::path::PathBuf;

use identifiers::LinkName;
use plugin_runtime::{Condition, PluginError};

/// A child link could not be made, or is not as it was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    /// CHECK: the link is not there.
    #[error("link {0} is gone")]
    Gone(LinkName),
    /// CHECK: another link has its name.
    #[error("link {name} is {is}, not a {kind}")]
    OtherKind { name: String, is: String, kind: &'static str },
    /// CHECK: it has another mode.
    #[error("link {name}: {difference}")]
    OtherMode { name: String, difference: String },
    /// CHECK: it has another MAC address.
    #[error("link {name} has the MAC address {is}, ADD gave it {was}")]
    OtherMac { name: String, is: String, was: String },
    /// CHECK: its namespace is not there.
    #[error("the namespace {} is gone", .0.display())]
    NamespaceGone(PathBuf),
    /// CHECK: the link that the journal tells of is not there.
    #[error("{0} is gone")]
    NotedGone(String),
    /// CHECK: the pod gave it another name.
    #[error("{link} is called {name} now")]
    Renamed { link: String, name: String },
    /// Links of other pods have every index that was tried.
    #[error("every index is another link's")]
    NoIndex,
    /// The kernel has no such links.
    #[error("this kernel knows no {kind} links: its module {kind} is missing or may not be loaded")]
    NoModule { kind: &'static str, source: rtnl::Error },
    /// The parent has links of a kind that cannot be beside this one.
    #[error("{}", busy(master, kind, other, here))]
    Busy { master: String, kind: &'static str, other: &'static str, here: Vec<String>, source: rtnl::Error },
    /// The node shares no RDMA device.
    #[error(
        "the node is in exclusive RDMA mode, so a pod's link on {0} shares no RDMA device; \
         run `silkrail mode set shared --persist`, or use sriov and rdma"
    )]
    ModeIsExclusive(String),
    /// The pod requires RDMA and would not have it.
    #[error("{0}")]
    NoRdma(String),
    /// The pod requires RDMA, and an address of it did not become a GID in time.
    #[error(
        "address {missing} did not become a RoCE v2 GID of {device} port {port} (the RDMA device of master {master}) \
         within {waited}"
    )]
    NoGid { missing: String, device: String, port: u32, master: String, waited: String },
}

fn busy(master: &str, kind: &str, other: &str, here: &[String]) -> String {
    if here.is_empty() {
        return format!(
            "master {master} is busy: it has {other} links in pods, or belongs to a bridge, a bond or a passthru link"
        );
    }
    format!("master {master} has {other} links ({}): a {kind} link cannot sit beside them", here.join(", "))
}

impl PluginError for ChildError {
    fn condition(&self) -> Condition {
        match self {
            Self::Gone(_)
            | Self::OtherKind { .. }
            | Self::OtherMode { .. }
            | Self::OtherMac { .. }
            | Self::NamespaceGone(_)
            | Self::NotedGone(_)
            | Self::Renamed { .. } => Condition::Changed,
            Self::NoIndex => Condition::TryAgain,
            Self::NoModule { .. } => Condition::Internal,
            Self::Busy { .. } => Condition::InUse,
            Self::ModeIsExclusive(_) | Self::NoRdma(_) | Self::NoGid { .. } => Condition::NoRdma,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoModule { kind, source } => format!(
                "run `modprobe {kind}`; where there is no such module, install the kernel's further modules \
                 (linux-modules-extra, kernel-modules-extra); the kernel's answer: {source}"
            ),
            Self::Busy { kind, other, source, .. } => {
                format!("use one of {kind} and {other} on each master; the kernel's answer: {source}")
            }
            Self::NoRdma(_) => "the pod requires RDMA (rdma.require) and was not started without it".into(),
            Self::NoGid { .. } => {
                "the pod requires RDMA (rdma.require) and was not started without it; is the GID table full \
                 (`silkrail pods`, /sys/class/infiniband/*/ports/*/gids), is the master up?"
                    .into()
            }
            _ => String::new(),
        }
    }
}
