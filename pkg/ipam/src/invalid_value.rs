//! Errors of the values of a pool's specification.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

use crate::{InvalidIpRange, InvalidPoolName, IpFamily, IpRange};

/// A pool's specification contains an invalid value. Prints as `key: problem`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct InvalidPool {
    /// The key path, with the index of a list item, for example `routes[1].gw`.
    pub key: String,
    /// Why the value is invalid.
    pub problem: InvalidValue,
}

/// Why a value is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// A required key is missing.
    #[error("missing")]
    Missing,
    /// The value has the wrong type or format.
    #[error("expected {expected}, found {found}")]
    Type {
        /// The expected type or format, for example `a list`.
        expected: &'static str,
        /// The value as written.
        found: String,
    },
    /// The key is unknown.
    #[error("unknown key; {}", advice(*nearest, known))]
    UnknownKey {
        /// The most similar known key, if any.
        nearest: Option<&'static str>,
        /// All known keys.
        known: Vec<&'static str>,
    },
    /// The name is not valid, see [`InvalidPoolName`].
    #[error(transparent)]
    Name(#[from] InvalidPoolName),
    /// The range is not valid, see [`InvalidIpRange`].
    #[error(transparent)]
    Range(#[from] InvalidIpRange),
    /// The subnet has host bits set.
    #[error("{written:?} has host bits set; write {canonical}")]
    NotCanonical {
        /// The subnet as written.
        written: String,
        /// The subnet with its host bits cleared.
        canonical: IpNetwork,
    },
    /// `ipVersion` or an address does not have the family of the subnet.
    #[error("{value} does not belong to the {family} subnet {subnet}")]
    Family {
        /// The value as written.
        value: String,
        /// The subnet's family.
        family: IpFamily,
        /// The subnet of the pool.
        subnet: IpNetwork,
    },
    /// The address is not in the subnet.
    #[error("{value} is not inside the subnet {subnet}")]
    Outside {
        /// The value as written.
        value: String,
        /// The subnet of the pool.
        subnet: IpNetwork,
    },
    /// Two ranges overlap.
    #[error("{second} overlaps {first}; merge the two")]
    Overlap {
        /// The range with the lower first address.
        first: IpRange,
        /// The range with the higher first address.
        second: IpRange,
    },
    /// The gateway is one of the allocatable addresses.
    #[error("{0} is one of the pool's ips; add it to excludeIPs")]
    GatewayAllocatable(IpAddr),
    /// A route of a pool must not be a default route.
    #[error("{0} is a default route; set the pool's gateway instead")]
    DefaultRoute(IpNetwork),
    /// Two routes have the same destination.
    #[error("{0} already has a route; remove one of the two")]
    DuplicateRoute(IpNetwork),
}

impl InvalidValue {
    /// Returns the error for `key`.
    pub(crate) fn at(self, key: impl Into<String>) -> InvalidPool {
        InvalidPool { key: key.into(), problem: self }
    }
}

/// Returns the most similar key, or all known keys.
fn advice(nearest: Option<&str>, known: &[&str]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("known keys: {}", known.join(", ")),
    }
}
