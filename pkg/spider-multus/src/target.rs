//! For which nodes a network is rendered.

/// For which nodes a network is rendered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Target {
    /// Spiderpool runs on the node: its IPAM plugin and its coordinator are in the chain.
    #[default]
    Spiderpool,
    /// Spiderpool does not run on the node: the IPAM plugin is `silkrail-ipam`, and there is no coordinator.
    Silkrail,
}

impl Target {
    /// Returns the type of the IPAM plugin.
    pub(crate) fn ipam(self) -> &'static str {
        match self {
            Self::Spiderpool => "spiderpool",
            Self::Silkrail => "silkrail-ipam",
        }
    }
}
