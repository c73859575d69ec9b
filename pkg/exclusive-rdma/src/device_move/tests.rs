//! Tests of which device is the one that was moved.

use journal::Change as _;
use rdma::Guid;

use super::*;
use crate::RdmaChange;

/// An RDMA device of the node.
pub(crate) fn device(index: u32, name: &str, guid: u64) -> Device {
    Device {
        index,
        name: name.into(),
        node_guid: Guid(guid),
        sys_image_guid: Guid(0),
        fw_version: None,
        node_type: None,
        protocol: None,
        ports: 1,
        adaptive_moderation: None,
    }
}

/// The move of `mlx5_3` with the index 7 and the node GUID 1.
fn device_move() -> DeviceMove {
    let (owner, function) = ("c0ffee@net1".parse().unwrap(), "0000:af:00.3".parse().unwrap());
    let (index, node_guid) = (Some(7), Some(Guid(1).to_string()));
    DeviceMove { index, node_guid, ..DeviceMove::from_go_state(&owner, &function, "mlx5_3", None) }
}

#[test]
fn a_device_is_identified_by_its_name_or_its_index_and_by_its_guid() {
    for (is, expected) in [
        (device(7, "mlx5_3", 1), true),
        (device(7, "renamed", 1), true),
        (device(8, "mlx5_3", 1), true),
        (device(8, "renamed", 1), false),
        (device(7, "mlx5_3", 2), false),
    ] {
        assert_eq!(device_move().is(&is), expected, "{is:?}");
    }
}

#[test]
fn a_device_that_the_go_plugin_moved_is_identified_by_its_name() {
    let by_go = DeviceMove { index: None, node_guid: None, ..device_move() };
    assert!(by_go.is(&device(8, "mlx5_3", 2)));
    assert!(!by_go.is(&device(7, "renamed", 1)));
}

#[test]
fn a_name_that_is_no_file_name_is_replaced() {
    for (name, expected) in [
        ("mlx5_3", true),
        ("..mlx", true),
        ("", false),
        (".", false),
        ("..", false),
        ("a/b", false),
        ("a\u{fffd}", false),
    ] {
        assert_eq!(is_file_name(name), expected, "{name:?}");
    }
}

#[test]
fn after_a_reboot_the_device_is_on_the_host_already() {
    let moved = RdmaChange::Move(device_move());
    assert!(!moved.survives_reboot() && !moved.revert_last());
}
