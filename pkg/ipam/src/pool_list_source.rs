//! The sources of a list of pools.

use crate::IpFamily;

/// Where the list of an interface's pools is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PoolListSource {
    /// `default_ipv4_ippool` and `default_ipv6_ippool` of the network's configuration.
    #[default]
    Network,
    /// The annotation `ipam.spidernet.io/ippools` of the pod.
    PodInterfaces,
    /// The annotation `ipam.spidernet.io/ippool` of the pod.
    Pod,
    /// The annotations `ipam.spidernet.io/default-ipv4-ippool` and `default-ipv6-ippool` of the namespace.
    Namespace,
}

impl PoolListSource {
    /// Returns the key of the list, for error messages.
    pub fn key(self, family: IpFamily) -> &'static str {
        match (self, family) {
            (Self::Network, IpFamily::V4) => "default_ipv4_ippool",
            (Self::Network, IpFamily::V6) => "default_ipv6_ippool",
            (Self::PodInterfaces, _) => "annotation ipam.spidernet.io/ippools of the pod",
            (Self::Pod, _) => "annotation ipam.spidernet.io/ippool of the pod",
            (Self::Namespace, IpFamily::V4) => {
                "annotation ipam.spidernet.io/default-ipv4-ippool of the namespace"
            }
            (Self::Namespace, IpFamily::V6) => {
                "annotation ipam.spidernet.io/default-ipv6-ippool of the namespace"
            }
        }
    }

    /// Returns how a [`PodPools`](crate::PodPools) file names it.
    pub(crate) fn file_value(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Network | Self::PodInterfaces | Self::Pod => "pod",
        }
    }

    /// Returns the source of the lists for all interfaces that a file names so.
    pub(crate) fn from_file_value(text: &str) -> Self {
        if text == "namespace" { Self::Namespace } else { Self::Pod }
    }
}
