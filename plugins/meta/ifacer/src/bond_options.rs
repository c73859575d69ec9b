//! The options of a bond: `"miimon=100;primary=eth0"`.

use std::net::Ipv4Addr;

use identifiers::{LinkName, MacAddr};
use rtnl::{DefaultNla, Handle, InfoBond};

/// How the kernel encodes the value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueType {
    /// An unsigned number with this number of bytes.
    Number(usize),
    /// The name of a slave, encoded as its index.
    Slave,
    /// A MAC address.
    Mac,
    /// A list of IPv4 addresses: `["10.0.0.1","10.0.0.2"]`, or one without brackets.
    Addresses,
}

/// The names of the options, with their `IFLA_BOND_` numbers.
const OPTIONS: [(&str, u16, ValueType); 25] = [
    ("miimon", 3, ValueType::Number(4)),
    ("up_delay", 4, ValueType::Number(4)),
    ("updelay", 4, ValueType::Number(4)),
    ("downdelay", 5, ValueType::Number(4)),
    ("use_carrier", 6, ValueType::Number(1)),
    ("arp_interval", 7, ValueType::Number(4)),
    ("arp_ip_target", 8, ValueType::Addresses),
    ("arp_validate", 9, ValueType::Number(4)),
    ("arp_all_targets", 10, ValueType::Number(4)),
    ("primary", 11, ValueType::Slave),
    ("primary_reselect", 12, ValueType::Number(1)),
    ("fail_over_mac", 13, ValueType::Number(1)),
    ("xmit_hash_policy", 14, ValueType::Number(1)),
    ("resend_igmp", 15, ValueType::Number(4)),
    // The Go plugin sets the number of notifications by this name, not their delay.
    ("peer_notif_delay", 16, ValueType::Number(1)),
    ("all_slaves_active", 17, ValueType::Number(1)),
    ("min_links", 18, ValueType::Number(4)),
    ("lp_interval", 19, ValueType::Number(4)),
    ("packets_per_slave", 20, ValueType::Number(4)),
    ("lacp_rate", 21, ValueType::Number(1)),
    ("ad_select", 22, ValueType::Number(1)),
    ("ad_actor_sys_prio", 24, ValueType::Number(2)),
    ("ad_user_port_key", 25, ValueType::Number(2)),
    ("ad_actor_system", 26, ValueType::Mac),
    ("tlb_dynamic_lb", 27, ValueType::Number(1)),
];

/// An option that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BondOption {
    attribute: u16,
    value: OptionValue,
}

#[derive(Debug, PartialEq, Eq)]
enum OptionValue {
    Bytes(Vec<u8>),
    Slave(LinkName),
}

/// Reads options that are separated by semicolons. Empty ones are skipped.
///
/// # Errors
/// What was expected instead of an option, and the option.
pub(crate) fn parse(text: &str) -> Result<Vec<BondOption>, String> {
    text.split(';').map(str::trim).filter(|option| !option.is_empty()).map(parse_option).collect()
}

fn parse_option(text: &str) -> Result<BondOption, String> {
    let expected = |expected: &str| format!("expected {expected}, found {text:?}");
    let (name, value) = text.split_once('=').ok_or_else(|| expected("name=value"))?;
    let known = OPTIONS.into_iter().find(|(known, ..)| known.eq_ignore_ascii_case(name.trim()));
    let Some((_, attribute, kind)) = known else {
        let names: Vec<_> = OPTIONS.iter().map(|(name, ..)| *name).collect();
        return Err(expected(&format!("one of the options {}", names.join(", "))));
    };
    let value = value.trim().trim_matches('"');
    let (value, form) = match kind {
        ValueType::Number(bytes) => (number(value, bytes), "a number that the kernel can store"),
        ValueType::Slave => (value.parse().ok().map(OptionValue::Slave), "the name of an interface"),
        ValueType::Mac => (mac(value), "a MAC address"),
        ValueType::Addresses => (addresses(value), "a list of IPv4 addresses"),
    };
    Ok(BondOption { attribute, value: value.ok_or_else(|| expected(form))? })
}

fn number(text: &str, bytes: usize) -> Option<OptionValue> {
    let number: u32 = text.parse().ok()?;
    let encoded = match bytes {
        1 => u8::try_from(number).ok()?.to_ne_bytes().to_vec(),
        2 => u16::try_from(number).ok()?.to_ne_bytes().to_vec(),
        _ => number.to_ne_bytes().to_vec(),
    };
    Some(OptionValue::Bytes(encoded))
}

fn mac(text: &str) -> Option<OptionValue> {
    let mac: MacAddr = text.parse().ok()?;
    Some(OptionValue::Bytes(mac.bytes().to_vec()))
}

/// Encodes addresses as attributes of four bytes with the numbers from 0 on.
fn addresses(text: &str) -> Option<OptionValue> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let mut encoded = Vec::new();
    for (number, address) in inner.split(',').enumerate() {
        let address: Ipv4Addr = address.trim().trim_matches('"').parse().ok()?;
        encoded.extend(8_u16.to_ne_bytes());
        encoded.extend(u16::try_from(number).ok()?.to_ne_bytes());
        encoded.extend(address.octets());
    }
    Some(OptionValue::Bytes(encoded))
}

impl BondOption {
    /// Returns the name of the slave that the option selects, if it selects one.
    pub(crate) fn slave(&self) -> Option<&LinkName> {
        match &self.value {
            OptionValue::Slave(name) => Some(name),
            OptionValue::Bytes(_) => None,
        }
    }

    /// Returns the attribute for the kernel.
    ///
    /// # Errors
    /// Not found, if the slave that it selects does not exist.
    pub(crate) fn encode(&self, links: &Handle) -> Result<InfoBond, rtnl::Error> {
        let bytes = match &self.value {
            OptionValue::Bytes(bytes) => bytes.clone(),
            OptionValue::Slave(name) => links.link_called(name.as_str())?.index.to_ne_bytes().to_vec(),
        };
        Ok(InfoBond::Other(DefaultNla::new(self.attribute, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        let [BondOption { value: OptionValue::Bytes(bytes), .. }]: [_; 1] =
            parse(text).unwrap().try_into().unwrap()
        else {
            panic!("{text} selects a slave")
        };
        bytes
    }

    #[test]
    fn options_are_read_as_the_go_plugin_writes_them() {
        assert_eq!(parse("").unwrap(), []);
        assert_eq!(parse("miimon=100;primary=eth0; ;MIN_LINKS = 1").unwrap().len(), 3);
        assert_eq!(bytes("lacp_rate=1"), [1]);
        assert_eq!(bytes("ad_actor_sys_prio=65535"), [255, 255]);
        assert_eq!(bytes("miimon=100"), 100_u32.to_ne_bytes());
        assert_eq!(bytes("ad_actor_system=02:00:00:00:00:01"), [2, 0, 0, 0, 0, 1]);
        let one = [8_u16.to_ne_bytes().as_slice(), &0_u16.to_ne_bytes(), &[10, 0, 0, 1]].concat();
        assert_eq!(bytes("arp_ip_target=10.0.0.1"), one);
        let two = [one.as_slice(), &8_u16.to_ne_bytes(), &1_u16.to_ne_bytes(), &[10, 0, 0, 2]].concat();
        assert_eq!(bytes(r#"arp_ip_target=["10.0.0.1","10.0.0.2"]"#), two);
    }

    #[test]
    fn a_malformed_option_is_named() {
        for (text, expected) in [
            ("miimon", "name=value"),
            ("miimon=fast", "a number"),
            ("lacp_rate=256", "a number"),
            ("mii=100", "one of the options miimon"),
            ("active_slave=eth0", "one of the options"),
            ("arp_ip_target=[10.0.0]", "IPv4"),
            ("ad_actor_system=02", "a MAC address"),
            ("primary=a/b", "the name of an interface"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(expected) && why.contains(text), "{why}");
        }
    }
}
