//! The request and the result of a selection of pools.

use std::fmt;

use crate::{IpFamily, Pool, PoolName, PoolWarnings, pools::PoolEntry};

/// The attachment that needs an address.
#[derive(Debug, Clone, Default)]
pub struct PoolRequest<'a> {
    /// The name of the interface in the container, for error messages.
    pub ifname: &'a str,
    /// The configuration's `default_ipv4_ippool`.
    pub default_ipv4_ippool: &'a [String],
    /// The configuration's `default_ipv6_ippool`.
    pub default_ipv6_ippool: &'a [String],
    /// The node's name, compared with a pool's `nodeName`.
    pub host_name: &'a str,
    /// The namespace that is compared with a pool's `namespaceName`.
    pub pod_namespace: PodNamespace<'a>,
    /// The network's name as `namespace/name` or `name`, which is compared with a pool's `multusName`.
    pub network: Option<&'a str>,
}

/// The Kubernetes namespace of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodNamespace<'a> {
    /// The namespace of the pod: `K8S_POD_NAMESPACE` of `CNI_ARGS`.
    Of(&'a str),
    /// `CNI_ARGS` does not contain the namespace of the pod.
    #[default]
    Unknown,
    /// Any namespace: the request is not for a particular pod.
    Any,
}

/// The pools of each family in the order in which they are tried. A family without pools gets no address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolSelection<'a> {
    /// The IPv4 pools.
    pub ipv4: Vec<&'a Pool>,
    /// The IPv6 pools.
    pub ipv6: Vec<&'a Pool>,
    /// The candidates that cannot be used.
    pub skipped: Vec<SkippedPool>,
}

/// A candidate that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedPool {
    /// The name of the pool.
    pub pool: PoolName,
    /// Why it cannot be used.
    pub reason: SkipReason,
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
    /// It has a label selector, which cannot be evaluated without the Kubernetes API.
    #[error("{0} selects by labels, which are available only from the Kubernetes API")]
    Labels(&'static str),
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

/// No pool can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The configuration lists no pool, and no pool has `default: true`.
    #[error(
        "no IPPool available: default_ipv4_ippool and default_ipv6_ippool are empty and no pool has default: true; \
         known IPPools: {known}{remarks}"
    )]
    None {
        /// The names of all pools.
        known: NameList,
        /// Missing directories and unusable files, which might contain further pools.
        remarks: PoolWarnings,
    },
    /// A listed pool does not exist.
    #[error("no IPPool available: IPPool {name:?} of {key} does not exist; known IPPools: {known}{remarks}")]
    Unknown {
        /// The key that lists it, for example `default_ipv4_ippool`.
        key: &'static str,
        /// The name of the pool.
        name: String,
        /// The names of all pools.
        known: NameList,
        /// Missing directories and unusable files, which might contain further pools.
        remarks: PoolWarnings,
    },
    /// No pool matches any pattern.
    #[error("no IPPool available: no IPPool matches {patterns} of {key}; known IPPools: {known}{remarks}")]
    NoMatch {
        /// The key that lists the patterns.
        key: &'static str,
        /// The patterns.
        patterns: NameList,
        /// The names of all pools.
        known: NameList,
        /// Missing directories and unusable files, which might contain further pools.
        remarks: PoolWarnings,
    },
    /// A pool is listed twice.
    #[error("wrong input, {key} lists IPPool {name} twice; remove one")]
    Duplicate {
        /// The key of the list.
        key: &'static str,
        /// The name of the pool.
        name: String,
    },
    /// A pattern is malformed.
    #[error("wrong input, {key} has the malformed pattern {pattern:?}; close its [ or write \\[")]
    Pattern {
        /// The key of the list.
        key: &'static str,
        /// The pattern.
        pattern: String,
    },
    /// No candidate of a family can be used.
    #[error("no IPPool available, all {family} IPPools {pools} of {ifname} filtered out: {skipped}{remarks}")]
    Filtered {
        /// The address family.
        family: IpFamily,
        /// The names of the candidates.
        pools: NameList,
        /// The name of the interface.
        ifname: String,
        /// Why each of them cannot be used.
        skipped: SkipReasons,
        /// Missing directories and unusable files, which might contain further pools.
        remarks: PoolWarnings,
    },
}

impl SelectError {
    /// Whether the error may be caused by pool files that must be corrected.
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

/// A list of names. Prints as `[a b]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameList(pub Vec<String>);

/// Pools with the reasons why they cannot be used. Prints as `[a: reason; b: reason]`.
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
