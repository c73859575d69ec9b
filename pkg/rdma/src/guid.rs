//! A GUID, the 64-bit identifier of an InfiniBand device.

use std::fmt;

/// A GUID. Its text is that of sysfs and `rdma`: `5054:00ff:fe00:0101`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

impl Guid {
    /// Whether all bits are zero: then the VF was bound to its driver before it had a MAC address or a GUID, and
    /// RDMA-CM does not work with it.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = [self.0 >> 48, self.0 >> 32, self.0 >> 16, self.0].map(|part| part & 0xffff);
        write!(f, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_prints_in_four_groups() {
        assert_eq!(Guid(0x5054_00ff_fe00_0101).to_string(), "5054:00ff:fe00:0101");
        assert_eq!(Guid(0).to_string(), "0000:0000:0000:0000");
    }
}
