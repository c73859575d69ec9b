//! The plugin that creates the link, and what it needs.

use super::plugin::Plugin;

/// What is special about a type of network.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MainPlugin {
    pub(super) ifacer: Option<Plugin>,
    pub(super) main: Plugin,
    pub(super) has_rdma: bool,
    pub(super) mtu: Option<u64>,
    pub(super) resource: Option<String>,
}

impl MainPlugin {
    /// A plugin that needs nothing else.
    pub(super) fn only(main: Plugin) -> Self {
        Self { ifacer: None, main, has_rdma: false, mtu: None, resource: None }
    }
}
