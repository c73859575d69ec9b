//! State files, possibly damaged by a kill, a full disk or another program.

use std::{fmt::Debug, net::IpAddr};

use child_link::ChildLinkPlugin;
use cni::ConfObject;
use ib_sriov_plugin::{GoIbSriovState, IbSriovPlugin};
use ifacer_plugin::IfacerPlugin;
use ipam::MapHeader;
use ipam_plugin::IpamPlugin;
use journal::{Change, JournalContent};
use macvlan_plugin::MacvlanKind;
use podmap::Entry;
use rdma_plugin::RdmaPlugin;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use sriov_plugin::SriovPlugin;
use state::claim::DeviceClaim;

/// One file, read as each kind of state file.
pub(super) fn run(input: &[u8]) {
    journal(input, plugin_runtime::read_journal::<ChildLinkPlugin<MacvlanKind>>);
    journal(input, plugin_runtime::read_journal::<SriovPlugin>);
    journal(input, plugin_runtime::read_journal::<IbSriovPlugin>);
    journal(input, plugin_runtime::read_journal::<RdmaPlugin>);
    journal(input, plugin_runtime::read_journal::<IfacerPlugin>);
    journal(input, plugin_runtime::read_journal::<IpamPlugin>);
    if let Ok(claim) = serde_json::from_slice::<DeviceClaim>(input) {
        assert_round_trip(&claim);
    }
    if let Ok(entry) = Entry::parse(input) {
        assert_round_trip(&entry);
    }
    if let Ok(object) = serde_json::from_slice(input) {
        go_file(&object);
    }
    map(input);
}

/// A journal survives a round trip, and a truncated last line is ignored.
fn journal<C: Change>(input: &[u8], read: fn(&[u8]) -> Result<JournalContent<C>, String>) {
    let content = match read(input) {
        Ok(content) => content,
        Err(why) => return assert!(!why.is_empty()),
    };
    let written = content.to_bytes().unwrap();
    let again = read(&written).unwrap();
    assert_eq!(again.to_bytes().unwrap(), written);
    assert_eq!((&again.head, again.complete), (&content.head, content.complete));
    assert!(content.changes.iter().all(|change| !change.to_string().is_empty()));
    let truncated = [written.as_slice(), br#"{"change":"#].concat();
    assert_eq!(read(&truncated).unwrap().to_bytes().unwrap(), written);
}

fn assert_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let written = serde_json::to_vec(value).unwrap();
    assert_eq!(serde_json::from_slice::<T>(&written).unwrap(), *value);
}

/// State of the Go plugins, whose decoder is case-insensitive.
fn go_file(object: &Map<String, Value>) {
    let fields = ConfObject::new(object, "");
    let sriov = sriov_plugin::GoSriovState::of(&fields);
    let ib_sriov = GoIbSriovState::of(&fields);
    let rdma = rdma_plugin::GoRdmaState::of(&fields);
    let upper: Map<_, _> = object.iter().map(|(k, v)| (k.to_ascii_uppercase(), v.clone())).collect();
    if upper.len() == object.len() {
        let fields = ConfObject::new(&upper, "");
        assert_eq!(sriov_plugin::GoSriovState::of(&fields), sriov);
        assert_eq!(GoIbSriovState::of(&fields), ib_sriov);
        assert_eq!(rdma_plugin::GoRdmaState::of(&fields), rdma);
    }
}

/// An invalid header is rejected; a valid map refers only to bits that it has.
fn map(input: &[u8]) {
    let Some((head, table)) = input.split_first_chunk() else { return };
    let Some(header) = MapHeader::from_bytes(head) else { return };
    assert_eq!(MapHeader::from_bytes(&header.to_bytes()), Some(header));
    // A file that was changed on purpose can have a matching hash.
    let family = head[40..41].iter().chain(table);
    let hash = family.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut forged = header.to_bytes();
    forged[16..24].copy_from_slice(&hash.to_le_bytes());
    let forged = MapHeader::from_bytes(&forged).unwrap();
    for header in [header, forged] {
        for address in addresses(table) {
            let _ = header.ordinal(table, address);
        }
    }
}

/// The addresses of a table, and the lowest and highest address.
fn addresses(table: &[u8]) -> impl Iterator<Item = IpAddr> {
    let named = table.chunks_exact(16).take(64).filter_map(|bytes| bytes.try_into().ok());
    let numbers = named.map(u128::from_le_bytes).chain([0, u128::MAX]);
    numbers.flat_map(|number| {
        let v4 = u32::try_from(number & u128::from(u32::MAX)).unwrap_or_default();
        [IpAddr::V6(number.into()), IpAddr::V4(v4.into())]
    })
}
