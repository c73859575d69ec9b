//! What is asked of the pools, and what they answer.

use std::fmt;

use crate::{IpFamily, Pool, PoolName, PoolWarnings, pools::PoolEntry};

/// Who asks for an address.
#[derive(Debug, Clone, Default)]
pub struct PoolRequest<'a> {
    /// The interface's name inside the container; it stands in error texts.
    pub ifname: &'a str,
    /// The configuration's `default_ipv4_ippool`.
    pub default_ipv4_ippool: &'a [String],
    /// The configuration's `default_ipv6_ippool`.
    pub default_ipv6_ippool: &'a [String],
    /// The node's name, compared with a pool's `nodeName`.
    pub host_name: &'a str,
    /// What is compared with a pool's `namespaceName`.
    pub pod_namespace: PodNamespace<'a>,
    /// The network's name as `namespace/name` or `name`, compared with a pool's `multusName`.
    pub network: Option<&'a str>,
}

/// The Kubernetes namespace of whoever asks for pools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodNamespace<'a> {
    /// A pod's: `K8S_POD_NAMESPACE` of `CNI_ARGS`.
    Of(&'a str),
    /// A pod's, which nobody told.
    #[default]
    Unknown,
    /// No pod's in particular: a pool for some namespaces is a pool.
    Any,
}

/// The pools to try, best first. A family without pools is not asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolSelection<'a> {
    /// IPv4 pools.
    pub ipv4: Vec<&'a Pool>,
    /// IPv6 pools.
    pub ipv6: Vec<&'a Pool>,
    /// Candidates that may not be used.
    pub skipped: Vec<SkippedPool>,
}

/// A candidate that may not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedPool {
    /// The pool.
    pub pool: PoolName,
    /// Why.
    pub reason: SkipReason,
}

/// Why a pool may not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// `metadata.deletionTimestamp` is set.
    #[error("it is being deleted")]
    Terminating,
    /// `disable` is set.
    #[error("it is disabled")]
    Disabled,
    /// It has addresses of the other family.
    #[error("it is an {0} pool")]
    Family(IpFamily),
    /// Its `nodeName` has other nodes.
    #[error("nodeName does not list this node, {0:?}")]
    Node(String),
    /// Its `namespaceName` has other namespaces.
    #[error("namespaceName does not list the pod's namespace, {0:?}")]
    Namespace(String),
    /// Its `namespaceName` cannot be compared.
    #[error("namespaceName is set, and CNI_ARGS has no K8S_POD_NAMESPACE")]
    NoNamespace,
    /// Its `multusName` has other networks.
    #[error("multusName does not list this network, {0:?}")]
    Network(String),
    /// Its `multusName` cannot be compared.
    #[error("multusName is set, and the network's name is not known")]
    NoNetwork,
    /// It selects by labels.
    #[error("{0} needs labels that only the Kubernetes API has")]
    Labels(&'static str),
    /// Two pools have its name.
    #[error("it is defined twice: in {first} and in {second}; rename or remove one")]
    Contested {
        /// Where it is first.
        first: String,
        /// Where it is again.
        second: String,
    },
}

impl SkipReason {
    /// That two pools have one name.
    pub(crate) fn contested(entry: &PoolEntry) -> Option<Self> {
        let second = entry.rival.clone()?;
        Some(Self::Contested { first: entry.origin.clone(), second })
    }
}

/// No pool can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The configuration names no pool and none is a default.
    #[error(
        "no IPPool available: default_ipv4_ippool and default_ipv6_ippool are empty and no pool has default: true; \
         known IPPools: {known}{remarks}"
    )]
    None {
        /// What there is.
        known: NameList,
        /// What there may be.
        remarks: PoolWarnings,
    },
    /// A named pool does not exist.
    #[error("no IPPool available: IPPool {name:?} of {key} does not exist; known IPPools: {known}{remarks}")]
    Unknown {
        /// Which key names it.
        key: &'static str,
        /// The name.
        name: String,
        /// What there is.
        known: NameList,
        /// What there may be.
        remarks: PoolWarnings,
    },
    /// No pool's name matches.
    #[error("no IPPool available: no IPPool matches {patterns} of {key}; known IPPools: {known}{remarks}")]
    NoMatch {
        /// Which key has the patterns.
        key: &'static str,
        /// The patterns.
        patterns: NameList,
        /// What there is.
        known: NameList,
        /// What there may be.
        remarks: PoolWarnings,
    },
    /// A name is there twice.
    #[error("wrong input, {key} lists IPPool {name} twice; remove one")]
    Duplicate {
        /// Which key.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// A pattern is malformed.
    #[error("wrong input, {key} has the malformed pattern {pattern:?}; close its [ or write \\[")]
    Pattern {
        /// Which key.
        key: &'static str,
        /// The pattern.
        pattern: String,
    },
    /// All candidates of a family may not be used.
    #[error("no IPPool available, all {family} IPPools {pools} of {ifname} filtered out: {skipped}{remarks}")]
    Filtered {
        /// The family.
        family: IpFamily,
        /// The candidates.
        pools: NameList,
        /// The interface.
        ifname: String,
        /// Why each of them may not be used.
        skipped: SkipReasons,
        /// What there may be.
        remarks: PoolWarnings,
    },
}

impl SelectError {
    /// Whether pool files have to be corrected, as far as can be seen.
    pub fn is_of_files(&self) -> bool {
        match self {
            Self::None { remarks, .. } | Self::Unknown { remarks, .. } | Self::NoMatch { remarks, .. } => {
                !remarks.unusable().is_empty()
            }
            Self::Filtered { skipped, remarks, .. } => {
                let contested = |skip: &SkippedPool| matches!(skip.reason, SkipReason::Contested { .. });
                !remarks.unusable().is_empty() || skipped.0.iter().any(contested)
            }
            Self::Duplicate { .. } | Self::Pattern { .. } => false,
        }
    }
}

/// Names. Prints as `[a b]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameList(pub Vec<String>);

/// Pools and why they may not be used. Prints as `[a: why; b: why]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipReasons(pub Vec<SkippedPool>);

impl fmt::Display for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.join(" "))
    }
}

impl fmt::Display for SkipReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(|skip| format!("{}: {}", skip.pool, skip.reason)).collect();
        write!(f, "[{}]", texts.join("; "))
    }
}
