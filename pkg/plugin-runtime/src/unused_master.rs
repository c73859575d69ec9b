//! A master that no attachment uses, for `silkrail gc`.

use identifiers::{Attachment, LinkName};

/// A master that has a record, and no user with a journal.
#[derive(Debug)]
pub struct UnusedMaster {
    /// The name of the link, and of the record.
    pub name: LinkName,
    /// The users of the record, whose journals were lost. Empty if the link was kept after its last user.
    pub users: Vec<Attachment>,
    /// Why it can be ended.
    pub evidence: String,
    /// What uses the link, so that it is kept.
    pub in_use: Option<String>,
}
