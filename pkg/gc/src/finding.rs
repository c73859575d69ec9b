//! A resource that may be stale, and the evidence.

use std::fmt;

use identifiers::{Attachment, LinkName};
use serde::Serialize;
use state::{claim::ClaimKind, journals::JournalFile, orphans::Orphan};

/// A resource that may be stale, as `silkrail gc` lists it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StaleFinding {
    /// Whether it is stale, and whether it was reverted.
    #[serde(rename = "state")]
    pub verdict: FindingState,
    /// The kind of resource.
    pub what: FindingKind,
    /// Its owner, as `CONTAINER-ID@IFNAME`, if known.
    pub attachment: Option<String>,
    /// The resource: an address, a PCI address, a file, or the plugin and network of a journal.
    pub object: String,
    /// The reason for the verdict.
    pub evidence: String,
    /// Why it could not be reverted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_left: Option<String>,
    /// What is reverted or released.
    #[serde(skip)]
    pub(crate) thing: Option<RevertTarget>,
}

/// The state of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingState {
    /// It has no running owner and can be reverted.
    Stale,
    /// An operation holds its journal's lock.
    InProgress,
    /// It is listed only, since its owner may still be running.
    Kept,
    /// It was stale and was reverted.
    Reverted,
    /// It is stale and could not be reverted.
    Left,
}

/// The kind of a finding, in the order in which findings are listed and resources without a journal are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The journal of an attachment.
    Journal,
    /// The claim of an RDMA device.
    RdmaDevice,
    /// The claim of a VF.
    Vf,
    /// The claim of an address.
    Address,
    /// An entry of the pod map.
    MapEntry,
    /// A note that maps a pod's interface to its attachment.
    Note,
    /// A link of ifacer that no pod uses: a VLAN, a bond, or an interface that it set up.
    Master,
    /// The address store of another boot.
    Store,
    /// A file that cannot be parsed.
    File,
}

/// What a finding reverts or releases.
#[derive(Debug)]
pub(crate) enum RevertTarget {
    /// An attachment, by the file and inode of its journal.
    Journal { named: JournalFile, inode: u64 },
    /// A resource without a journal.
    Orphan(Orphan),
    /// A master, by its name.
    Master(LinkName),
}

impl StaleFinding {
    pub(crate) fn new(
        verdict: FindingState,
        what: FindingKind,
        owner: Option<&Attachment>,
        object: String,
        evidence: String,
    ) -> Self {
        let attachment = owner.map(ToString::to_string);
        Self { verdict, what, attachment, object, evidence, why_left: None, thing: None }
    }

    /// A finding for a resource without a journal.
    pub(crate) fn orphan(verdict: FindingState, orphan: Orphan, evidence: String) -> Self {
        let file =
            |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (what, object) = match &orphan {
            Orphan::Device(claim) => match claim.device() {
                (ClaimKind::Vf, function) => (FindingKind::Vf, function.to_string()),
                (ClaimKind::Rdma, function) => (FindingKind::RdmaDevice, function.to_string()),
            },
            Orphan::Address(address, _) => (FindingKind::Address, address.to_string()),
            Orphan::Entry(path, _) => (FindingKind::MapEntry, file(path)),
            Orphan::Note(path, _) => (FindingKind::Note, file(path)),
            Orphan::Store(boot) => (FindingKind::Store, boot.clone()),
        };
        Self::new(verdict, what, orphan.owner(), object, evidence).with(RevertTarget::Orphan(orphan))
    }

    pub(crate) fn with(self, thing: RevertTarget) -> Self {
        Self { thing: Some(thing), ..self }
    }

    /// A key that is unique among findings. It differs for a later journal of the same attachment.
    pub(crate) fn key(&self) -> String {
        let inode = match &self.thing {
            Some(RevertTarget::Journal { inode, .. }) => *inode,
            _ => 0,
        };
        let attachment = self.attachment.as_deref().unwrap_or_default();
        format!("{attachment} {} {} {inode}", self.what, self.object)
    }

    pub(crate) fn cleaned_up(self) -> Self {
        Self { verdict: FindingState::Reverted, ..self }
    }

    pub(crate) fn mark_left(&mut self, why: String) {
        self.verdict = FindingState::Left;
        self.why_left = Some(why);
    }
}

impl fmt::Display for FindingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "stale",
            Self::InProgress => "in progress",
            Self::Kept => "kept",
            Self::Reverted => "reverted",
            Self::Left => "left",
        })
    }
}

impl FindingKind {
    /// The kinds that can be reverted.
    pub(crate) const REVERTED: [Self; 8] = [
        Self::Journal,
        Self::RdmaDevice,
        Self::Vf,
        Self::Address,
        Self::MapEntry,
        Self::Note,
        Self::Master,
        Self::Store,
    ];

    /// The name in the record of the runs, as in JSON.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::RdmaDevice => "rdma-device",
            Self::Vf => "vf",
            Self::Address => "address",
            Self::MapEntry => "map-entry",
            Self::Note => "note",
            Self::Master => "master",
            Self::Store => "store",
            Self::File => "file",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Journal => "journal",
            Self::Vf => "VF",
            Self::RdmaDevice => "RDMA device",
            Self::Address => "address",
            Self::MapEntry => "pod map entry",
            Self::Note => "note",
            Self::Master => "master",
            Self::Store => "store",
            Self::File => "file",
        })
    }
}
