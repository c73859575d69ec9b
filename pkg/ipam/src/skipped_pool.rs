//! Pools that cannot be used, and why.

use std::fmt;

use crate::{IpFamily, PoolName, pool_entry::PoolEntry};

/// A candidate that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedPool {
    /// The name of the pool.
    pub pool: PoolName,
    /// Why it cannot be used.
    pub reason: SkipReason,
}

impl fmt::Display for SkippedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pool, self.reason)
    }
}

/// Why a pool cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// `metadata.deletionTimestamp` is set.
    #[error("it is being deleted")]
    Terminating,
    /// `disable` is set.
    #[error("it is disabled")]
    Disabled,
    /// Its addresses belong to the other family.
    #[error("it is an {0} pool")]
    Family(IpFamily),
    /// Its `nodeName` lists only other nodes.
    #[error("nodeName does not list this node, {0:?}")]
    Node(String),
    /// Its `namespaceName` lists only other namespaces.
    #[error("namespaceName does not list the pod's namespace, {0:?}")]
    Namespace(String),
    /// Its `namespaceName` is set, and the pod's namespace is unknown.
    #[error("namespaceName is set, and CNI_ARGS has no K8S_POD_NAMESPACE")]
    NoNamespace,
    /// Its `multusName` lists only other networks.
    #[error("multusName does not list this network, {0:?}")]
    Network(String),
    /// Its `multusName` is set, and the network's name is unknown.
    #[error("multusName is set, and the network's name is unknown")]
    NoNetwork,
    /// It selects nodes by labels, which are known to the agent of the cluster's pools.
    #[error("nodeAffinity selects by labels, which are available only with \"store\": \"cluster\"")]
    NodeLabels,
    /// It selects pods or namespaces by labels, which are known to the agent of the cluster's pools, given the option.
    #[error(
        "{0} selects by labels, which are available only with \"store\": \"cluster\" and the option --kubelet-kubeconfig of \
         `silkraild ipam`"
    )]
    Labels(&'static str),
    /// Its label selector does not select the pod or its namespace.
    #[error("{0} does not select the pod")]
    NotSelected(&'static str),
    /// Two pools have this name, so that neither is used.
    #[error("it is defined twice: in {first} and in {second}; rename or remove one")]
    Contested {
        /// The place of the first definition.
        first: String,
        /// The place of the second definition.
        second: String,
    },
}

impl SkipReason {
    /// Returns the reason for a pool whose name is defined twice; `None` for any other pool.
    pub(crate) fn contested(entry: &PoolEntry) -> Option<Self> {
        let second = entry.rival.clone()?;
        Some(Self::Contested { first: entry.origin.clone(), second })
    }
}

/// Pools with the reasons why they cannot be used. Prints as `[a: reason; b: reason]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipReasons(pub Vec<SkippedPool>);

impl fmt::Display for SkipReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", texts.join("; "))
    }
}
