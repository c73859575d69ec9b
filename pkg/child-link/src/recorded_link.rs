//! The links of a pod, as the journals of its attachments record them.

use identifiers::{LinkName, MacAddr};
use journal::JournalContent;
use netns::NetNsId;
use plugin_runtime::{Error, Node, attachment};
use rtnl::Link;
use serde::Deserialize;

/// The link that an ADD created, or was about to create.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct RecordedLink {
    pub(crate) ifname: LinkName,
    pub(crate) index: u32,
    #[serde(default)]
    mac: Option<MacAddr>,
}

/// A change of a journal; only that of a link is of interest.
#[derive(Debug, Deserialize)]
struct RecordedChange {
    #[serde(default)]
    link: Option<RecordedLink>,
}

impl RecordedLink {
    /// Returns the last link of each attachment of a plugin in a namespace: the kernel refused to create an earlier one.
    ///
    /// # Errors
    /// If a journal cannot be read.
    pub(crate) fn all_in(node: &Node, plugin: &str, netns: NetNsId) -> Result<Vec<Self>, Error> {
        let journals = attachment::in_netns(node, plugin, netns)?;
        let mut found = Vec::new();
        for journal in journals {
            let bytes = statefile::read(&journal.path)?.unwrap_or_default();
            found.extend(JournalContent::parse(&bytes).ok().and_then(last_link));
        }
        Ok(found)
    }

    /// Whether a link has the name or the MAC address that its ADD gave it.
    pub(crate) fn has_name_or_mac_of(&self, link: &Link) -> bool {
        link.name == self.ifname.as_str() || (self.mac.is_some() && link.mac == self.mac)
    }
}

fn last_link(content: JournalContent<RecordedChange>) -> Option<RecordedLink> {
    content.changes.into_iter().rev().find_map(|change| change.link)
}
