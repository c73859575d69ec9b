//! The errors of the plugin, besides those of the address store.

use std::net::IpAddr;

use identifiers::Attachment;
use ipam::PodPoolsError;
use plugin_runtime::{Condition, PluginError};

/// An address cannot be allocated, or is not claimed by the attachment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IpamError {
    /// The configuration enables a feature of Spiderpool's coordinator.
    #[error("ipam.match_master_subnet: true is not supported; list the pools in default_ipv4_ippool")]
    MatchMasterSubnet,
    /// `IP` of `CNI_ARGS` is not an address.
    #[error("CNI_ARGS: IP: expected an address like 10.0.0.5, found {0:?}")]
    WrongArgument(String),
    /// A requested address cannot be allocated.
    #[error("{0}")]
    Refused(String),
    /// All pools are full.
    #[error("{0}")]
    Full(String),
    /// The cluster has no block with a free address.
    #[error("{0}")]
    NoBlock(String),
    /// The node cannot get a block with a free address at present.
    #[error("{0}")]
    BlockUnavailable(String),
    /// The annotations of the pod cannot be followed.
    #[error(transparent)]
    PodPools(#[from] PodPoolsError),
    /// The file with what is known about the pod cannot be used.
    #[error("{0}")]
    PodFile(String),
    /// The pod is not known on this node yet.
    #[error("{0}")]
    UnknownPod(String),
    /// The runtime does not pass the pod's UID.
    #[error(
        "CNI_ARGS: {0}; `silkraild ipam` has the option --kubelet-kubeconfig, so the pools of a pod depend on its annotations"
    )]
    NoPodUid(String),
    /// Spiderpool's agent has not assigned an address.
    #[error("{0}")]
    Agent(String),
    /// Spiderpool's agent cannot be reached.
    #[error("{0}")]
    AgentUnavailable(String),
    /// Spiderpool identifies addresses by the pod.
    #[error(
        "CNI_ARGS: {0} is not set; with \"store\": \"spiderpool\" the runtime must pass the pod's namespace, name and UID"
    )]
    NoPod(&'static str),
    /// `ipam.store` is not one of the known values.
    #[error("ipam.store: expected \"local\", \"cluster\" or \"spiderpool\", found {0:?}")]
    UnknownStore(String),
    /// The pools of the cluster cannot be combined with others.
    #[error(
        "ipam.{0}: not allowed with \"store\": \"cluster\", which uses the SpiderIPPool objects of the cluster; remove one of them"
    )]
    PoolsOfCluster(&'static str),
    /// The claim of a pod that no longer exists could not be reverted.
    #[error("{0}")]
    Left(String),
    /// CHECK: the attachment has no journal.
    #[error("attachment {0} has no addresses on this node")]
    NoAttachment(Attachment),
    /// CHECK: another attachment has the address.
    #[error("address {address} belongs to {current}, not to {owner}")]
    NotOwner { address: IpAddr, current: String, owner: Attachment },
    /// CHECK: the address is not claimed.
    #[error("address {address} of {owner} is no longer claimed")]
    NotClaimed { address: IpAddr, owner: Attachment },
}

impl PluginError for IpamError {
    fn condition(&self) -> Condition {
        match self {
            Self::MatchMasterSubnet => Condition::UnsupportedField,
            Self::WrongArgument(_) | Self::NoPod(_) | Self::NoPodUid(_) => Condition::InvalidEnvironment,
            Self::Refused(_) | Self::Full(_) | Self::NoBlock(_) | Self::Agent(_) | Self::PodPools(_) => {
                Condition::NoAddress
            }
            Self::UnknownStore(_) | Self::PoolsOfCluster(_) => Condition::InvalidConfig,
            Self::Left(_)
            | Self::BlockUnavailable(_)
            | Self::PodFile(_)
            | Self::UnknownPod(_)
            | Self::AgentUnavailable(_) => Condition::TryAgain,
            Self::NoAttachment(_) | Self::NotOwner { .. } | Self::NotClaimed { .. } => Condition::Changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_whether_the_same_call_may_succeed_later() {
        let text = || "x".to_owned();
        let owner: Attachment = "a@net1".parse().unwrap();
        for (error, condition) in [
            (IpamError::BlockUnavailable(text()), Condition::TryAgain),
            (IpamError::UnknownPod(text()), Condition::TryAgain),
            (IpamError::PodFile(text()), Condition::TryAgain),
            (IpamError::AgentUnavailable(text()), Condition::TryAgain),
            (IpamError::NoBlock(text()), Condition::NoAddress),
            (IpamError::Full(text()), Condition::NoAddress),
            (IpamError::Refused(text()), Condition::NoAddress),
            (IpamError::Agent(text()), Condition::NoAddress),
            (IpamError::PodPools(PodPoolsError::Annotation(text())), Condition::NoAddress),
            (IpamError::NoPodUid(text()), Condition::InvalidEnvironment),
            (IpamError::NoPod("K8S_POD_UID"), Condition::InvalidEnvironment),
            (IpamError::WrongArgument(text()), Condition::InvalidEnvironment),
            (IpamError::UnknownStore(text()), Condition::InvalidConfig),
            (IpamError::PoolsOfCluster("pools"), Condition::InvalidConfig),
            (IpamError::MatchMasterSubnet, Condition::UnsupportedField),
            (IpamError::NoAttachment(owner), Condition::Changed),
        ] {
            assert_eq!(error.condition(), condition, "{error}");
        }
    }
}
