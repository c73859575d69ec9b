//! For which nodes a network is rendered.

/// For which nodes a network is rendered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Target {
    /// Spiderpool runs on the node: its IPAM plugin and its coordinator are in the chain.
    #[default]
    Spiderpool,
    /// Spiderpool does not run on the node: the IPAM plugin is `silkrail-ipam` with the pools of the node, and there is no
    /// coordinator.
    Silkrail,
    /// As [`Target::Silkrail`], with the pools of the cluster.
    SilkrailCluster,
}

impl Target {
    /// Whether Spiderpool runs on the node.
    pub(crate) fn has_spiderpool(self) -> bool {
        self == Self::Spiderpool
    }

    /// Returns the type of the IPAM plugin.
    pub(crate) fn ipam(self) -> &'static str {
        match self {
            Self::Spiderpool => "spiderpool",
            Self::Silkrail | Self::SilkrailCluster => "silkrail-ipam",
        }
    }

    /// Returns the value of `store` of the IPAM plugin, if it is not the default.
    pub(crate) fn store(self) -> Option<&'static str> {
        (self == Self::SilkrailCluster).then_some("cluster")
    }
}
