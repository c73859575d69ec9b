//! What can go wrong with addresses, beside what the store of addresses says.

use std::net::IpAddr;

use identifiers::Attachment;
use plugin_runtime::{Condition, PluginError};

/// An address cannot be given, or is not the attachment's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IpamError {
    /// The configuration asks for what Spiderpool's coordinator does.
    #[error("ipam.match_master_subnet: true is not supported; name the pools in default_ipv4_ippool")]
    MatchMasterSubnet,
    /// `CNI_ARGS` has something else than an address.
    #[error("CNI_ARGS: IP: expected an address like 10.0.0.5, found {0:?}")]
    WrongArgument(String),
    /// An address that was asked for may not be given.
    #[error("{0}")]
    Refused(String),
    /// Every pool is full.
    #[error("{0}")]
    Full(String),
    /// What a dead pod holds could not be taken back.
    #[error("{0}")]
    Left(String),
    /// CHECK: there is no journal.
    #[error("attachment {0} has no address here")]
    NoAttachment(Attachment),
    /// CHECK: another attachment has the address.
    #[error("address {address} belongs to {now}, not to {owner}")]
    NotOwner { address: IpAddr, now: String, owner: Attachment },
    /// CHECK: nobody has the address.
    #[error("address {address} of {owner} is not claimed any more")]
    NotClaimed { address: IpAddr, owner: Attachment },
}

impl PluginError for IpamError {
    fn condition(&self) -> Condition {
        match self {
            Self::MatchMasterSubnet => Condition::UnsupportedField,
            Self::WrongArgument(_) => Condition::InvalidEnvironment,
            Self::Refused(_) | Self::Full(_) => Condition::NoAddress,
            Self::Left(_) => Condition::TryAgain,
            Self::NoAttachment(_) | Self::NotOwner { .. } | Self::NotClaimed { .. } => Condition::Changed,
        }
    }
}
