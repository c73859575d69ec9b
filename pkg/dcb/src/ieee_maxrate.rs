//! Rate limits of the traffic classes.

use netlink_packet_core::DecodeError;

use crate::{structure::Fields, uapi::MAX_TCS};

/// Reads `struct ieee_maxrate`: for each traffic class the limit in kbit/s, 0 for none.
pub(crate) fn parse(bytes: &[u8]) -> Result<[u64; MAX_TCS], DecodeError> {
    Fields::new("struct ieee_maxrate", bytes).u64s()
}
