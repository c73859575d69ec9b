//! Something that is there and may be stale, and the evidence.

use std::fmt;

use addr::Attachment;
use plugin::{claim::Part, journals::Named, lost::Lost};
use serde::Serialize;

pub(super) const HEAD: [&str; 5] = ["STATE", "WHAT", "ATTACHMENT", "OBJECT", "EVIDENCE"];

/// Something that was found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    #[serde(rename = "state")]
    pub(super) verdict: Verdict,
    pub(super) what: What,
    /// Whose it is.
    attachment: Option<String>,
    /// Which of them.
    pub(super) object: String,
    /// Why the verdict is what it is.
    evidence: String,
    /// Why it could not be taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why_left: Option<String>,
    /// How it is taken back.
    #[serde(skip)]
    pub(super) thing: Option<Thing>,
}

/// What is to become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
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
pub(super) enum What {
    Journal,
    RdmaDevice,
    Vf,
    Address,
    MapEntry,
    Note,
    Store,
    File,
}

/// What can be taken back.
#[derive(Debug)]
pub(super) enum Thing {
    /// An attachment, by its journal: its file and its inode.
    Journal { named: Named, inode: u64 },
    /// Something without a journal.
    Lost(Lost),
}

impl Finding {
    pub(super) fn new(
        verdict: Verdict,
        what: What,
        owner: Option<&Attachment>,
        object: String,
        evidence: String,
    ) -> Self {
        let attachment = owner.map(ToString::to_string);
        Self { verdict, what, attachment, object, evidence, why_left: None, thing: None }
    }

    /// What no journal tells of.
    pub(super) fn lost(verdict: Verdict, lost: Lost, evidence: String) -> Self {
        let file =
            |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (what, object) = match &lost {
            Lost::Device(claim) => match claim.device() {
                (Part::Vf, function) => (What::Vf, function.to_string()),
                (Part::Rdma, function) => (What::RdmaDevice, function.to_string()),
            },
            Lost::Address(address, _) => (What::Address, address.to_string()),
            Lost::Entry(path, _) => (What::MapEntry, file(path)),
            Lost::Note(path, _) => (What::Note, file(path)),
            Lost::Store(boot) => (What::Store, boot.clone()),
        };
        Self::new(verdict, what, lost.owner(), object, evidence).with(Thing::Lost(lost))
    }

    pub(super) fn with(self, thing: Thing) -> Self {
        Self { thing: Some(thing), ..self }
    }

    /// What tells it from others, also from a later journal of the same attachment.
    pub(super) fn key(&self) -> String {
        let inode = match &self.thing {
            Some(Thing::Journal { inode, .. }) => *inode,
            _ => 0,
        };
        let attachment = self.attachment.as_deref().unwrap_or_default();
        format!("{attachment} {} {} {inode}", self.what, self.object)
    }

    /// What the doctor is told of it; nothing while somebody is at work on it.
    pub(super) fn leftover(&self) -> Option<::doctor::Leftover> {
        let stale = match self.verdict {
            Verdict::Stale => true,
            Verdict::Kept => false,
            Verdict::InProgress | Verdict::TakenBack | Verdict::Left => return None,
        };
        Some(::doctor::Leftover {
            what: self.what.to_string(),
            object: self.object.clone(),
            attachment: self.attachment.clone(),
            evidence: self.evidence.clone(),
            stale,
        })
    }

    pub(super) fn taken_back(self) -> Self {
        Self { verdict: Verdict::TakenBack, ..self }
    }

    pub(super) fn left(&mut self, why: String) {
        self.verdict = Verdict::Left;
        self.why_left = Some(why);
    }

    pub(super) fn cells(&self) -> [String; HEAD.len()] {
        let attachment = self.attachment.clone().unwrap_or_default();
        [
            self.verdict.to_string(),
            self.what.to_string(),
            attachment,
            self.object.clone(),
            self.evidence.clone(),
        ]
    }
}

impl fmt::Display for Verdict {
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

impl fmt::Display for What {
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
