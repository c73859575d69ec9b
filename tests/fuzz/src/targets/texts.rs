//! Names and addresses as text: they survive a round trip, and are safe as file names.

use std::{fmt::Display, str::FromStr};

use cni::{CniArgs, Operation, Version};
use identifiers::{
    Attachment, ContainerId, HardwareAddr, LinkName, MacAddr, PciAddress, VlanId, VlanProto, VlanQos,
};
use ipam::{IpRange, PoolName};
use serde::{Serialize, de::DeserializeOwned};
use sysfs::Function;

/// One text, parsed as every type that implements `FromStr`.
pub(super) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    parse_stored::<MacAddr>(text);
    parse_stored::<HardwareAddr>(text);
    parse_stored::<PciAddress>(text).inspect(|pci| assert_file_name(&pci.to_string()));
    parse_stored::<Function>(text).inspect(|function| assert_file_name(&function.to_string()));
    parse_stored::<LinkName>(text).inspect(|name| assert_file_name(name.as_str()));
    parse_stored::<ContainerId>(text).inspect(|id| assert_file_name(id.as_str()));
    parse_printed::<VlanProto>(text);
    parse_printed::<IpRange>(text);
    parse_printed::<PoolName>(text).inspect(|name| assert_file_name(name.as_str()));
    parse_printed::<Attachment>(text)
        .inspect(|attachment| assert_file_name(&format!("{attachment}.sriov.journal.bad")));
    vlan(text);
    let _ = Version::from_conf(text).inspect(|version| assert!(text.is_empty() || version.as_str() == text));
    let _ = Operation::from_command(text).inspect(|verb| assert_eq!(verb.as_str(), text));
    arguments(text);
}

/// Asserts that the printed value is parsed as the same value.
fn parse_printed<T: FromStr<Err: Display> + Display + PartialEq + std::fmt::Debug>(text: &str) -> Option<T> {
    let value = text.parse::<T>().inspect_err(|why| assert!(!why.to_string().is_empty())).ok()?;
    let again = value.to_string().parse::<T>();
    assert_eq!(again.ok().as_ref(), Some(&value), "{text:?} is printed as {:?}", value.to_string());
    Some(value)
}

/// Asserts the same for the JSON form of the value in state files.
fn parse_stored<T>(text: &str) -> Option<T>
where
    T: FromStr<Err: Display> + Display + PartialEq + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let value = parse_printed::<T>(text)?;
    let json = serde_json::to_string(&value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&json).ok().as_ref(), Some(&value), "{text:?} is stored as {json}");
    Some(value)
}

/// Asserts that the name is one path component of at most 255 bytes.
fn assert_file_name(name: &str) {
    assert!(!name.is_empty() && name.len() <= 255, "{name:?}");
    assert!(!name.contains(['/', '\0']) && name != "." && name != "..", "{name:?}");
}

fn vlan(text: &str) {
    let Ok(number) = text.parse::<i64>() else { return };
    if let Ok(id) = VlanId::try_from(number) {
        assert!(i64::from(id.get()) == number && number <= 4094);
    }
    if let Ok(qos) = VlanQos::try_from(number) {
        assert!(i64::from(qos.get()) == number && number <= 7);
    }
}

fn arguments(text: &str) {
    let Ok(args) = CniArgs::parse(text) else { return };
    assert_eq!(args.as_str(), text);
    assert_eq!(CniArgs::parse(args.as_str()), Ok(args.clone()));
    for (key, _) in text.split(';').filter_map(|pair| pair.split_once('=')) {
        assert!(args.get(key).is_none_or(|value| text.contains(&format!("{key}={value}"))));
    }
}
