//! Something that is there and may be stale, and the evidence.

use std::fmt;

use identifiers::Attachment;
use serde::Serialize;
use state::{claim::ClaimKind, journals::JournalFile, orphans::Orphan};

/// Something that was found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StaleFinding {
    /// What is to become of it.
    #[serde(rename = "state")]
    pub verdict: FindingState,
    /// What it is.
    pub what: FindingKind,
    /// Whose it is.
    pub attachment: Option<String>,
    /// Which of them.
    pub object: String,
    /// Why the verdict is what it is.
    pub evidence: String,
    /// Why it could not be taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_left: Option<String>,
    /// How it is taken back.
    #[serde(skip)]
    pub(crate) thing: Option<RevertTarget>,
}

/// What is to become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingState {
    /// Nobody needs it.
    Stale,
    /// Somebody is at work on it.
    InProgress,
    /// It is told of and left alone.
    Kept,
    /// It was stale and is gone.
    TakenBack,
    /// It was stale and is there.
    Left,
}

/// In the order in which they are shown, and taken back where no journal tells of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// An attachment, by its journal.
    Journal,
    /// The claim of an RDMA device.
    RdmaDevice,
    /// The claim of a VF.
    Vf,
    /// The claim of an address.
    Address,
    /// An entry of the pod map.
    MapEntry,
    /// A note which attachment a pod's interface is.
    Note,
    /// The addresses of another boot.
    Store,
    /// A file that cannot be understood.
    File,
}

/// What can be taken back.
#[derive(Debug)]
pub(crate) enum RevertTarget {
    /// An attachment, by its journal: its file and its inode.
    Journal { named: JournalFile, inode: u64 },
    /// Something without a journal.
    Orphan(Orphan),
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

    /// What no journal tells of.
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

    /// What tells it from others, also from a later journal of the same attachment.
    pub(crate) fn key(&self) -> String {
        let inode = match &self.thing {
            Some(RevertTarget::Journal { inode, .. }) => *inode,
            _ => 0,
        };
        let attachment = self.attachment.as_deref().unwrap_or_default();
        format!("{attachment} {} {} {inode}", self.what, self.object)
    }

    pub(crate) fn cleaned_up(self) -> Self {
        Self { verdict: FindingState::TakenBack, ..self }
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
            Self::TakenBack => "taken back",
            Self::Left => "left",
        })
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
            Self::Store => "store",
            Self::File => "file",
        })
    }
}
