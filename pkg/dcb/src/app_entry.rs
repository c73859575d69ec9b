//! The priorities of applications.

use std::fmt;

use netlink_packet_core::{DecodeError, DefaultNla};
use serde::{Deserialize, Serialize};

use crate::{AppSelector, structure::Fields};

/// The priority of an application's frames, `struct dcb_app`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[doc(alias = "dcb_app")]
pub struct AppPriority {
    /// What `protocol` is.
    pub selector: AppSelector,
    /// The EtherType, port, DSCP or PCP.
    pub protocol: u16,
    /// The priority: 0 to 7. An entry that CEE DCBX made has a bitmap of priorities instead: the kernel keeps both in one list.
    pub priority: u8,
}

/// Why an application priority is not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidApp {
    /// The priority is higher than 7.
    #[error("application priority {0}: the priority must be 0 to 7")]
    Priority(AppPriority),
    /// The protocol is higher than its selector allows.
    #[error("application priority {app}: the {} must be 0 to {max}", name(app.selector))]
    Protocol {
        /// The application priority.
        app: AppPriority,
        /// The highest protocol number.
        max: u16,
    },
}

impl AppPriority {
    /// Reads `struct dcb_app`. `protocol` has the byte order of the host.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::new("struct dcb_app", bytes);
        let [selector, priority] = fields.bytes()?;
        Ok(Self { selector: AppSelector::from_number(selector), protocol: fields.u16()?, priority })
    }

    /// Encodes the attribute of an entry.
    pub(crate) fn encode(self) -> DefaultNla {
        let [low, high] = self.protocol.to_ne_bytes();
        DefaultNla::new(self.selector.attribute(), vec![self.selector.number(), self.priority, low, high])
    }

    /// Checks what the kernel does not: it stores any number.
    ///
    /// # Errors
    /// [`InvalidApp`].
    pub(crate) fn check(self) -> Result<(), InvalidApp> {
        let max = self.selector.max_protocol();
        match self {
            Self { priority: 8.., .. } => Err(InvalidApp::Priority(self)),
            app if app.protocol > max => Err(InvalidApp::Protocol { app, max }),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for AppPriority {
    /// Writes `DSCP 26 to priority 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { selector, protocol, priority } = self;
        match selector {
            AppSelector::Ethertype => write!(f, "EtherType {protocol:#06x} to priority {priority}"),
            AppSelector::Other(number) => {
                write!(f, "protocol {protocol} of selector {number} to priority {priority}")
            }
            _ => write!(f, "{} {protocol} to priority {priority}", name(*selector)),
        }
    }
}

fn name(selector: AppSelector) -> &'static str {
    match selector {
        AppSelector::Ethertype => "EtherType",
        AppSelector::StreamPort => "TCP or SCTP port",
        AppSelector::DatagramPort => "UDP or DCCP port",
        AppSelector::Port => "port",
        AppSelector::Dscp => "DSCP",
        AppSelector::Pcp => "PCP",
        AppSelector::Other(_) => "protocol",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::encode;

    const DSCP_26: AppPriority = AppPriority { selector: AppSelector::Dscp, protocol: 26, priority: 3 };

    #[test]
    fn entries_have_the_attribute_type_of_their_selector() {
        let [low, high] = 26_u16.to_ne_bytes();
        assert_eq!(encode(&[DSCP_26.encode()])[2..], [1, 0, 5, 3, low, high]);
        let pcp = AppPriority { selector: AppSelector::Pcp, ..DSCP_26 };
        assert_eq!(encode(&[pcp.encode()])[2..], [2, 0, 255, 3, low, high]);
    }

    #[test]
    fn numbers_that_do_not_exist_are_refused() {
        assert_eq!(DSCP_26.check(), Ok(()));
        let text = |app: AppPriority| app.check().unwrap_err().to_string();
        assert_eq!(
            text(AppPriority { protocol: 64, ..DSCP_26 }),
            "application priority DSCP 64 to priority 3: the DSCP must be 0 to 63"
        );
        let of = |selector, protocol| AppPriority { selector, protocol, priority: 7 };
        for (selector, max) in
            [(AppSelector::Dscp, 63), (AppSelector::Pcp, 15), (AppSelector::DatagramPort, u16::MAX)]
        {
            assert_eq!(of(selector, max).check(), Ok(()), "{selector:?}");
            let refused = max.checked_add(1).map(|more| of(selector, more).check().is_err());
            assert_ne!(refused, Some(false), "{selector:?}");
        }
        let roce = AppPriority { selector: AppSelector::Ethertype, protocol: 0x8915, priority: 8 };
        assert_eq!(
            text(roce),
            "application priority EtherType 0x8915 to priority 8: the priority must be 0 to 7"
        );
    }

    #[test]
    fn every_selector_is_read_as_it_is_set() {
        for number in 0..=u8::MAX {
            assert_eq!(AppSelector::from_number(number).number(), number);
        }
    }
}
