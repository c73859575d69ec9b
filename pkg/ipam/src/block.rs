//! Blocks: aligned ranges of addresses that a node leases from a cluster.

use std::{fmt, net::IpAddr, str::FromStr};

use crate::{IpFamily, IpRange, IpRanges};

/// 2^0 to 2^8 addresses, aligned to their number, such as `10.16.1.64/26`.
///
/// A block depends on its addresses only and not on a pool: whatever pools contain an address, and however they are edited, the
/// address is in the same block of each size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpBlock {
    range: IpRange,
    size: BlockSize,
}

/// The number of addresses of a block: a power of two, at most 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSize {
    exponent: u8,
}

/// A number is not a block size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("block size {0:?}: expected 1, 2, 4, 8, 16, 32, 64, 128 or 256")]
pub struct InvalidBlockSize(pub String);

/// A string is not the name of a block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("block name {0:?}: expected an address and a prefix length like 10.16.1.64-26")]
pub struct InvalidBlockName(pub String);

impl BlockSize {
    /// The largest size. All blocks of this size are [parents](IpBlock::parent).
    pub const MAX: Self = Self { exponent: 8 };

    /// Returns the number of addresses.
    pub fn addresses(self) -> u16 {
        1 << self.exponent
    }
}

impl TryFrom<u64> for BlockSize {
    type Error = InvalidBlockSize;

    fn try_from(number: u64) -> Result<Self, InvalidBlockSize> {
        let exponent = (0..=Self::MAX.exponent).find(|exponent| 1 << exponent == number);
        exponent.map(|exponent| Self { exponent }).ok_or_else(|| InvalidBlockSize(number.to_string()))
    }
}

impl FromStr for BlockSize {
    type Err = InvalidBlockSize;

    fn from_str(text: &str) -> Result<Self, InvalidBlockSize> {
        let invalid = || InvalidBlockSize(text.to_owned());
        text.parse::<u64>().map_err(|_| invalid())?.try_into().map_err(|_| invalid())
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.addresses().fmt(f)
    }
}

impl IpBlock {
    /// Returns the block of that size that contains an address.
    pub fn containing(address: IpAddr, size: BlockSize) -> Self {
        Self { range: IpRange::aligned(address, size.exponent), size }
    }

    /// Returns the number of its addresses.
    pub fn size(self) -> BlockSize {
        self.size
    }

    /// Returns the addresses as a range.
    pub fn range(self) -> IpRange {
        self.range
    }

    /// Returns the block of 256 addresses that contains this one, perhaps itself.
    pub fn parent(self) -> Self {
        Self::containing(self.range.first(), BlockSize::MAX)
    }

    /// Whether the block contains the address.
    pub fn contains(self, address: IpAddr) -> bool {
        self.range.contains(address)
    }

    /// Whether the two blocks share an address.
    pub fn overlaps(self, other: Self) -> bool {
        self.range.overlaps(&other.range)
    }

    /// Returns all addresses in ascending order.
    pub fn addresses(self) -> impl Iterator<Item = IpAddr> {
        self.range.addresses()
    }

    /// Returns the number of its addresses that are in these ranges.
    pub fn count_in(self, ranges: &IpRanges) -> usize {
        self.addresses().filter(|address| ranges.contains(*address)).count()
    }

    /// Returns the length of the prefix that all addresses share.
    pub fn prefix(self) -> u8 {
        let bits = match self.range.family() {
            IpFamily::V4 => 32,
            IpFamily::V6 => 128,
        };
        bits - self.size.exponent
    }

    /// Returns the block in CIDR notation, `10.16.1.64/26`.
    pub fn cidr(self) -> String {
        format!("{}/{}", self.range.first(), self.prefix())
    }
}

/// Prints the name of the block, which is also a valid name of a Kubernetes object and of a file: `10.16.1.64-26`, or
/// `fd00-0-0-0-0-0-0-40-122` for `fd00::40/122`.
impl fmt::Display for IpBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range.first() {
            IpAddr::V4(first) => write!(f, "{first}")?,
            IpAddr::V6(first) => {
                for (index, segment) in first.segments().into_iter().enumerate() {
                    let dash = if index == 0 { "" } else { "-" };
                    write!(f, "{dash}{segment:x}")?;
                }
            }
        }
        write!(f, "-{}", self.prefix())
    }
}

impl fmt::Debug for IpBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for IpBlock {
    type Err = InvalidBlockName;

    /// Parses a name. Only the text that [`IpBlock`] prints is a name, so no two names are of one block.
    fn from_str(text: &str) -> Result<Self, InvalidBlockName> {
        let block = || {
            let (first, prefix) = text.rsplit_once('-')?;
            let first: IpAddr = match first.contains('.') {
                true => IpAddr::V4(first.parse().ok()?),
                false => IpAddr::V6(first.replace('-', ":").parse().ok()?),
            };
            let bits = if first.is_ipv4() { 32_u8 } else { 128 };
            let exponent = bits.checked_sub(prefix.parse().ok()?)?;
            let size = BlockSize { exponent };
            let block = (size <= BlockSize::MAX).then(|| Self::containing(first, size))?;
            (block.to_string() == text).then_some(block)
        };
        block().ok_or_else(|| InvalidBlockName(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ip_range::{address, number};

    fn block(text: &str) -> IpBlock {
        text.parse().unwrap()
    }

    #[test]
    fn a_block_has_one_name() {
        for (name, cidr) in [
            ("10.16.1.64-26", "10.16.1.64/26"),
            ("0.0.0.0-24", "0.0.0.0/24"),
            ("255.255.255.255-32", "255.255.255.255/32"),
            ("fd00-0-0-0-0-0-0-40-122", "fd00::40/122"),
            ("0-0-0-0-0-0-0-0-120", "::/120"),
        ] {
            let block = block(name);
            assert_eq!((block.to_string().as_str(), block.cidr().as_str()), (name, cidr));
        }
        for bad in [
            "",
            "-",
            "10.16.1.65-26",
            "10.16.1.64-23",
            "10.16.1.64-33",
            "10.16.1.64-026",
            "10.16.1.64/26",
            "010.16.1.64-26",
            "10.16.1.64",
            "fd00--40-122",
            "fd00-0-0-0-0-0-0-0040-122",
            "FD00-0-0-0-0-0-0-40-122",
            "fd00-0-0-0-0-0-0-40-119",
            "10.16.1.64-26-26",
            "../10.16.1.64-26",
        ] {
            assert!(bad.parse::<IpBlock>().is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn only_powers_of_two_are_sizes() {
        for (text, good) in [
            ("1", true),
            ("64", true),
            ("256", true),
            ("0", false),
            ("3", false),
            ("512", false),
            ("x", false),
        ] {
            assert_eq!(text.parse::<BlockSize>().is_ok(), good, "{text}");
        }
        assert_eq!(BlockSize::try_from(64).unwrap().to_string(), "64");
    }

    #[test]
    fn the_parent_has_256_addresses() {
        assert_eq!(block("10.16.1.64-26").parent(), block("10.16.1.0-24"));
        assert_eq!(block("10.16.1.0-24").parent(), block("10.16.1.0-24"));
        assert_eq!(block("fd00-0-0-0-0-0-0-1ff-128").parent(), block("fd00-0-0-0-0-0-0-100-120"));
    }

    #[test]
    fn the_addresses_of_a_pool_in_a_block_are_counted() {
        let ranges = |text: &str| IpRanges::new(IpFamily::V4, &[text.parse().unwrap()], &[]);
        assert_eq!(block("10.0.0.64-26").count_in(&ranges("10.0.0.100-10.0.0.200")), 28);
        assert_eq!(block("10.0.0.64-26").count_in(&ranges("10.0.1.0-10.0.1.9")), 0);
        assert_eq!(block("255.255.255.0-24").count_in(&ranges("255.255.255.255")), 1);
    }

    proptest! {
        #[test]
        fn every_address_is_in_one_block_of_each_size(bits: u128, v6: bool, exponent in 0_u8..=8, other in 0_u8..=8) {
            let family = if v6 { IpFamily::V6 } else { IpFamily::V4 };
            let any = address(family, if v6 { bits } else { bits & 0xffff_ffff }).unwrap();
            let of_size = |exponent| IpBlock::containing(any, BlockSize { exponent });
            let block = of_size(exponent);
            prop_assert!(block.contains(any) && block.range().contains(any));
            prop_assert_eq!(block.addresses().count(), usize::from(block.size().addresses()));
            prop_assert!(block.overlaps(of_size(other)) && block.parent().overlaps(block));
            prop_assert_eq!(block.to_string().parse::<IpBlock>().unwrap(), block);
            // The neighbours do not contain it.
            let after = address(family, (number(block.range().last())).wrapping_add(1));
            if let Some(after) = after.filter(|after| *after > any) {
                prop_assert!(!block.overlaps(IpBlock::containing(after, block.size())));
            }
        }
    }
}
