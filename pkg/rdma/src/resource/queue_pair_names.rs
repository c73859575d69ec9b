//! Types and states of queue pairs.

use std::fmt;

/// The transport of a queue pair. Its text is that of `rdma resource`, in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "ib_qp_type")]
pub enum QpType {
    /// Subnet management, queue pair 0.
    Smi,
    /// General services, queue pair 1, which the kernel uses for connection management.
    Gsi,
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Raw IPv6.
    RawIpv6,
    /// Raw Ethertype.
    RawEthertype,
    /// Raw Ethernet frames.
    RawPacket,
    /// Extended reliable connection, the initiator's end.
    XrcIni,
    /// Extended reliable connection, the target's end.
    XrcTgt,
    /// A transport of the driver: DCI and DCT of mlx5, SRD of efa.
    Driver,
    /// A type unknown to this crate.
    Other(u8),
}

/// The state of a queue pair. Its text is that of `rdma resource`, in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "ib_qp_state")]
pub enum QpState {
    /// Newly created, or reset.
    Reset,
    /// Initialised: receives can be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// The send queue is being drained.
    Sqd,
    /// The send queue is in error.
    Sqe,
    /// The queue pair is in error.
    Err,
    /// A state unknown to this crate.
    Other(u8),
}

impl From<u8> for QpType {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Smi,
            1 => Self::Gsi,
            2 => Self::Rc,
            3 => Self::Uc,
            4 => Self::Ud,
            5 => Self::RawIpv6,
            6 => Self::RawEthertype,
            8 => Self::RawPacket,
            9 => Self::XrcIni,
            10 => Self::XrcTgt,
            0xff => Self::Driver,
            other => Self::Other(other),
        }
    }
}

impl From<u8> for QpState {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Reset,
            1 => Self::Init,
            2 => Self::Rtr,
            3 => Self::Rts,
            4 => Self::Sqd,
            5 => Self::Sqe,
            6 => Self::Err,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for QpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smi => "smi",
            Self::Gsi => "gsi",
            Self::Rc => "rc",
            Self::Uc => "uc",
            Self::Ud => "ud",
            Self::RawIpv6 => "raw_ipv6",
            Self::RawEthertype => "raw_ethertype",
            Self::RawPacket => "raw_packet",
            Self::XrcIni => "xrc_ini",
            Self::XrcTgt => "xrc_tgt",
            Self::Driver => "driver",
            Self::Other(number) => return write!(f, "type_{number}"),
        })
    }
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "reset",
            Self::Init => "init",
            Self::Rtr => "rtr",
            Self::Rts => "rts",
            Self::Sqd => "sqd",
            Self::Sqe => "sqe",
            Self::Err => "err",
            Self::Other(number) => return write!(f, "state_{number}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_number_has_a_name_of_its_own() {
        let types: BTreeSet<_> = (0..=u8::MAX).map(|number| QpType::from(number).to_string()).collect();
        let states: BTreeSet<_> = (0..=u8::MAX).map(|number| QpState::from(number).to_string()).collect();
        assert_eq!((types.len(), states.len()), (256, 256));
        let types = [0, 1, 2, 3, 4, 8, 9, 10, 0xff].map(|number| QpType::from(number).to_string());
        assert_eq!(types, ["smi", "gsi", "rc", "uc", "ud", "raw_packet", "xrc_ini", "xrc_tgt", "driver"]);
        let states = [0, 1, 2, 3, 4, 5, 6].map(|number| QpState::from(number).to_string());
        assert_eq!(states, ["reset", "init", "rtr", "rts", "sqd", "sqe", "err"]);
    }
}
