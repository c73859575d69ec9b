//! What can be wrong with an object as written.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

use crate::{InvalidIpRange, InvalidPoolName, IpFamily, IpRange};

/// A pool's specification breaks a rule. Prints as `key: problem`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct InvalidPool {
    /// The key as written, with an index where it is a list's: `routes[1].gw`.
    pub key: String,
    /// What is wrong with its value.
    pub problem: InvalidValue,
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// The key must be there.
    #[error("missing")]
    Missing,
    /// Another type or form.
    #[error("expected {expected}, found {found}")]
    Type {
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// The key is none that anybody reads.
    #[error("unknown key; {}", advice(*nearest, known))]
    UnknownKey {
        /// The known key that is most like it.
        nearest: Option<&'static str>,
        /// All known keys.
        known: Vec<&'static str>,
    },
    /// See [`InvalidPoolName`].
    #[error(transparent)]
    Name(#[from] InvalidPoolName),
    /// See [`InvalidIpRange`].
    #[error(transparent)]
    Range(#[from] InvalidIpRange),
    /// Host bits are set in the subnet.
    #[error("{written:?} has host bits set; write {canonical}")]
    NotCanonical {
        /// As written.
        written: String,
        /// The network itself.
        canonical: IpNetwork,
    },
    /// `ipVersion` or an address contradicts the subnet.
    #[error("{value} does not belong to the {family} subnet {subnet}")]
    Family {
        /// The value.
        value: String,
        /// The subnet's family.
        family: IpFamily,
        /// The subnet.
        subnet: IpNetwork,
    },
    /// Outside the subnet.
    #[error("{value} is not inside the subnet {subnet}")]
    Outside {
        /// The value.
        value: String,
        /// The subnet.
        subnet: IpNetwork,
    },
    /// Two entries share an address.
    #[error("{second} overlaps {first}; merge the two")]
    Overlap {
        /// The earlier entry.
        first: IpRange,
        /// The later entry.
        second: IpRange,
    },
    /// The gateway would be given to a pod.
    #[error("{0} is one of the pool's ips; add it to excludeIPs")]
    GatewayAllocatable(IpAddr),
    /// A pool may not have a default route.
    #[error("{0} is a default route; set the pool's gateway instead")]
    DefaultRoute(IpNetwork),
    /// Two routes to one destination.
    #[error("{0} has a route already; remove one of the two")]
    DuplicateRoute(IpNetwork),
}

impl InvalidValue {
    /// The problem with the key it is about.
    pub(crate) fn at(self, key: impl Into<String>) -> InvalidPool {
        InvalidPool { key: key.into(), problem: self }
    }
}

/// What may have been meant.
fn advice(nearest: Option<&str>, known: &[&str]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("known are {}", known.join(", ")),
    }
}
