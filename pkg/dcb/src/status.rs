//! The status of a change.

use netlink_packet_core::DecodeError;
use nix::errno::Errno;

use crate::{DcbMessage, attribute::attributes, settings::number};

/// The status in the reply to a change: the kernel does not report a failed change as an error of the request, but in an
/// attribute of one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    /// The lowest byte of a negative error number.
    Failed(Errno),
    /// A positive number of the driver: 1 to 127.
    DriverCode(u8),
}

impl Status {
    /// Reads the attribute `kind` of a reply to `command`.
    pub(crate) fn parse(reply: &DcbMessage, command: u8, kind: u16) -> Result<Self, DecodeError> {
        if reply.command != command {
            return Err(format!("a reply to DCB command {}, not to {command}", reply.command).into());
        }
        for attribute in attributes(&reply.attributes) {
            let (found, value) = attribute?;
            if found == kind {
                return number(value).map(Self::from_byte);
            }
        }
        Err(format!("the reply lacks attribute {kind}, the status").into())
    }

    fn from_byte(byte: u8) -> Self {
        match byte.cast_signed() {
            0 => Self::Done,
            code @ 1.. => Self::DriverCode(code.cast_unsigned()),
            code => Self::Failed(Errno::from_raw(-i32::from(code))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_an_error_number_or_a_number_of_the_driver() {
        assert_eq!(Status::from_byte(0), Status::Done);
        assert_eq!(Status::from_byte(0xea), Status::Failed(Errno::EINVAL));
        assert_eq!(Status::from_byte(0xa1), Status::Failed(Errno::EOPNOTSUPP));
        assert_eq!(Status::from_byte((-524_i32).to_le_bytes()[0]), Status::Failed(Errno::ENOMEM));
        assert_eq!(Status::from_byte(0x80), Status::Failed(Errno::from_raw(128)));
        assert_eq!(Status::from_byte(2), Status::DriverCode(2));
    }
}
