//! Names and addresses as texts: what is printed reads back as the same, and is safe where it is used.

use std::{fmt::Display, str::FromStr};

use cni::{CniArgs, Operation, Version};
use identifiers::{Attachment, ContainerId, LinkName, MacAddr, PciAddress, VlanId, VlanProto, VlanQos};
use ipam::{IpRange, PoolName};
use serde::{Serialize, de::DeserializeOwned};
use sysfs::Function;

/// One text, read as everything that is read from a text.
pub(super) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    stored::<MacAddr>(text);
    stored::<PciAddress>(text).inspect(|pci| is_a_file_name(&pci.to_string()));
    stored::<Function>(text).inspect(|function| is_a_file_name(&function.to_string()));
    stored::<LinkName>(text).inspect(|name| is_a_file_name(name.as_str()));
    stored::<ContainerId>(text).inspect(|id| is_a_file_name(id.as_str()));
    printed::<VlanProto>(text);
    printed::<IpRange>(text);
    printed::<PoolName>(text).inspect(|name| is_a_file_name(name.as_str()));
    printed::<Attachment>(text)
        .inspect(|attachment| is_a_file_name(&format!("{attachment}.sriov.journal.bad")));
    vlan(text);
    let _ = Version::from_conf(text).inspect(|version| assert!(text.is_empty() || version.as_str() == text));
    let _ = Operation::from_command(text).inspect(|verb| assert_eq!(verb.as_str(), text));
    arguments(text);
}

/// What is printed reads back as the same value, which prints the same.
fn printed<T: FromStr<Err: Display> + Display + PartialEq + std::fmt::Debug>(text: &str) -> Option<T> {
    let value = text.parse::<T>().inspect_err(|why| assert!(!why.to_string().is_empty())).ok()?;
    let again = value.to_string().parse::<T>();
    assert_eq!(again.ok().as_ref(), Some(&value), "{text:?} is printed as {:?}", value.to_string());
    Some(value)
}

/// The same also for the value as state files have it.
fn stored<T>(text: &str) -> Option<T>
where
    T: FromStr<Err: Display> + Display + PartialEq + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let value = printed::<T>(text)?;
    let json = serde_json::to_string(&value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&json).ok().as_ref(), Some(&value), "{text:?} is stored as {json}");
    Some(value)
}

/// One file in its directory, whatever it is joined to.
fn is_a_file_name(name: &str) {
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
