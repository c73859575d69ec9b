//! Receive buffers of a port.

use netlink_packet_core::DecodeError;
use serde::Serialize;

use crate::{structure::Fields, uapi::MAX_TCS};

/// The receive buffers of a link's port, `struct dcbnl_buffer`. Only mlx5 reports them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[doc(alias = "dcbnl_buffer")]
pub struct PortBuffers {
    /// The buffer of each priority, `prio2buffer`.
    pub priority_buffer: [u8; MAX_TCS],
    /// The size of each buffer in bytes, `buffer_size`. 0 means that the buffer is not used.
    pub size: [u32; MAX_TCS],
    /// The size of all buffers together in bytes, `total_size`.
    pub total_size: u32,
}

impl PortBuffers {
    /// Reads `struct dcbnl_buffer`, which has no holes.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Fields::new("struct dcbnl_buffer", bytes);
        Ok(Self { priority_buffer: fields.bytes()?, size: fields.u32s()?, total_size: fields.u32()? })
    }
}
