//! Bit sets with the names of their bits.
//!
//! The kernel is asked for the verbose form, which names each bit. So the modes of a newer kernel than Silkrail are read as
//! well, where a table of numbers would lose them, and with them the highest speed of a port.

use crate::{
    Malformed,
    attributes::{Attribute, text},
};

/// `ETHTOOL_A_BITSET_`.
const NOMASK: u16 = 1;
const BITS: u16 = 3;
/// `ETHTOOL_A_BITSET_BITS_`.
const BITS_BIT: u16 = 1;
/// `ETHTOOL_A_BITSET_BIT_`.
const BIT_INDEX: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// One bit that the kernel listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bit {
    pub(crate) index: u32,
    /// The kernel's name, such as `400000baseSR8/Full`.
    pub(crate) name: String,
    /// Whether it is set. In a set with a mask, the kernel also lists bits that are not: those that can be.
    pub(crate) set: bool,
}

/// Reads a bit set in its verbose form.
pub(crate) fn bits(bitset: &Attribute<'_>) -> Result<Vec<Bit>, Malformed> {
    let (mut without_mask, mut listed) = (false, None);
    for attribute in bitset.nested() {
        let attribute = attribute?;
        match attribute.kind {
            NOMASK => without_mask = true,
            BITS => listed = Some(attribute),
            _ => {}
        }
    }
    let listed = listed.ok_or(Malformed::Missing { attribute: "ETHTOOL_A_BITSET_BITS" })?;
    let mut bits = Vec::new();
    for attribute in listed.nested() {
        let attribute = attribute?;
        if attribute.kind == BITS_BIT {
            bits.push(bit(&attribute, without_mask)?);
        }
    }
    Ok(bits)
}

fn bit(nest: &Attribute<'_>, without_mask: bool) -> Result<Bit, Malformed> {
    let (mut index, mut name, mut set) = (None, None, without_mask);
    for attribute in nest.nested() {
        let attribute = attribute?;
        match attribute.kind {
            BIT_INDEX => index = Some(attribute.u32("ETHTOOL_A_BITSET_BIT_INDEX")?),
            BIT_NAME => name = Some(text(attribute.value)),
            BIT_VALUE => set = true,
            _ => {}
        }
    }
    let index = index.ok_or(Malformed::Missing { attribute: "ETHTOOL_A_BITSET_BIT_INDEX" })?;
    let name = name.ok_or(Malformed::Missing { attribute: "ETHTOOL_A_BITSET_BIT_NAME" })?;
    Ok(Bit { index, name, set })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handle, attributes::attributes, command::Command};

    /// A command whose reply has bit sets on any link, with and without a mask.
    const FEATURES_GET: Command =
        Command { name: "ETHTOOL_MSG_FEATURES_GET", request: 11, reply: 11, header: 1 };
    const FEATURES_HW: u16 = 2;
    const FEATURES_ACTIVE: u16 = 4;

    fn find<'a>(bits: &'a [Bit], name: &str) -> Option<&'a Bit> {
        bits.iter().find(|bit| bit.name == name)
    }

    #[test]
    fn the_kernel_names_the_bits() {
        let reply = Handle::open().unwrap().request(&"lo".parse().unwrap(), &FEATURES_GET, 0, Vec::new());
        let reply = reply.unwrap().unwrap();
        let set = |kind| {
            let mut sent = attributes(&reply).map(Result::unwrap);
            bits(&sent.find(|attribute| attribute.kind == kind).unwrap()).unwrap()
        };
        let (changeable, active) = (set(FEATURES_HW), set(FEATURES_ACTIVE));
        // Without a mask only bits that are set are listed. The loopback device is one that cannot be changed.
        assert!(active.iter().all(|bit| bit.set) && active.len() < changeable.len());
        assert!(find(&active, "loopback").is_some(), "{active:?}");
        let loopback = find(&changeable, "loopback").unwrap();
        assert!(!loopback.set && changeable.iter().any(|bit| bit.set), "{changeable:?}");
        assert_eq!(find(&active, "loopback").unwrap().index, loopback.index);
    }
}
