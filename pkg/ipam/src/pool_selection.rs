//! The request and the result of a selection of pools.

use std::fmt;

use crate::{
    IpFamily, Pool, PoolListSource, PoolWarnings, SelectingPools, SkipReason, SkipReasons, SkippedPool,
};

/// The attachment that needs an address.
#[derive(Debug, Clone, Default)]
pub struct PoolRequest<'a> {
    /// The name of the interface in the container, for error messages.
    pub ifname: &'a str,
    /// The names and patterns of IPv4 pools.
    pub ipv4: &'a [String],
    /// The names and patterns of IPv6 pools.
    pub ipv6: &'a [String],
    /// Where these lists are written.
    pub source: PoolListSource,
    /// The node's name, compared with a pool's `nodeName`.
    pub host_name: &'a str,
    /// The namespace that is compared with a pool's `namespaceName`.
    pub pod_namespace: PodNamespace<'a>,
    /// The network's name as `namespace/name` or `name`, which is compared with a pool's `multusName`.
    pub network: Option<&'a str>,
    /// What is known about the labels of the pod and of its namespace.
    pub labels: PodLabels<'a>,
}

/// The labels of the pod of a request, and of its namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodLabels<'a> {
    /// The pools that they select.
    Selecting(&'a SelectingPools),
    /// They are not known.
    #[default]
    Unknown,
    /// Any labels: the request is not for a particular pod.
    Any,
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

impl fmt::Display for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.join(" "))
    }
}
