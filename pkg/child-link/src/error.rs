//! The errors of child links, besides those that all plugins have.

use std::path::PathBuf;

use identifiers::LinkName;
use plugin_runtime::{Condition, PluginError};

/// Creating a child link failed, or CHECK found a difference.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    /// CHECK: the pod has no link of that name.
    #[error("link {0} is gone")]
    Gone(LinkName),
    /// CHECK: another link has its name.
    #[error("link {name} is {is}, not a {kind}")]
    OtherKind { name: String, is: String, kind: &'static str },
    /// CHECK: the link has another mode.
    #[error("link {name}: {difference}")]
    OtherMode { name: String, difference: String },
    /// CHECK: the link has another MAC address.
    #[error("link {name} has the MAC address {is}, expected {was} as set by ADD")]
    OtherMac { name: String, is: String, was: String },
    /// CHECK: the pod's network namespace does not exist any more.
    #[error("the network namespace {} is gone", .0.display())]
    NamespaceGone(PathBuf),
    /// CHECK: the link that the journal records does not exist.
    #[error("{0} is gone")]
    NotedGone(String),
    /// CHECK: the pod renamed the link.
    #[error("{link} was renamed to {name}")]
    Renamed { link: String, name: String },
    /// Other links have every index that was tried.
    #[error("no free link index: other links have every index that was tried")]
    NoIndex,
    /// The kernel does not support links of this kind.
    #[error("this kernel does not support {kind} links: its module {kind} is missing or cannot be loaded")]
    NoModule { kind: &'static str, source: rtnl::Error },
    /// The parent has links of a kind that cannot be beside this one.
    #[error("{}", busy(master, kind, other, here))]
    Busy { master: String, kind: &'static str, other: &'static str, here: Vec<String>, source: rtnl::Error },
    /// The node is in exclusive RDMA mode.
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
    format!("master {master} has {other} links ({}): it cannot have {kind} links as well", here.join(", "))
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
                "run `modprobe {kind}`; if there is no such module, install the kernel's extra modules \
                 (linux-modules-extra, kernel-modules-extra); kernel error: {source}"
            ),
            Self::Busy { kind, other, source, .. } => {
                format!("use only one of {kind} and {other} on each master; kernel error: {source}")
            }
            Self::NoRdma(_) => "the pod requires RDMA (rdma.require) and was not started without it".into(),
            Self::NoGid { .. } => {
                "the pod requires RDMA (rdma.require) and was not started without it; check that the master is up and \
                 that the GID table is not full (`silkrail pods`, /sys/class/infiniband/*/ports/*/gids)"
                    .into()
            }
            _ => String::new(),
        }
    }
}
