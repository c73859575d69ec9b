//! What the settings of each driver look like: see `replies`.

use crate::replies::{bnxt, ice, kernel, mlx5, settings};
use dcb::{AppPriority, AppSelector, DcbSettings, DcbxMode, Ets, Pfc, PortBuffers, TransmissionSelection::*};

fn app(selector: AppSelector, protocol: u16, priority: u8) -> AppPriority {
    AppPriority { selector, protocol, priority }
}

/// The mode of a host that negotiates with IEEE.
const HOST: DcbxMode = DcbxMode { host: true, lld_managed: false, cee: false, ieee: true, is_static: false };
const FIRMWARE: DcbxMode = DcbxMode { host: false, lld_managed: true, ..HOST };

/// Classes that a driver leaves zero.
fn no_ets(max_classes: u8) -> Ets {
    Ets {
        willing: false,
        max_classes,
        credit_based_shaper: false,
        priority_class: [0; 8],
        transmit_bandwidth: [0; 8],
        receive_bandwidth: [0; 8],
        algorithm: [Strict; 8],
        recommended_bandwidth: [0; 8],
        recommended_algorithm: [Strict; 8],
        recommended_priority_class: [0; 8],
    }
}

#[test]
fn mlx5_after_probe() {
    let ets = Ets {
        priority_class: [1, 0, 2, 3, 4, 5, 6, 7],
        transmit_bandwidth: [100; 8],
        algorithm: [Vendor; 8],
        ..no_ets(8)
    };
    let buffers =
        PortBuffers { priority_buffer: [0; 8], size: [262_016, 0, 0, 0, 0, 0, 0, 0], total_size: 262_016 };
    let expected = DcbSettings {
        pfc: Some(Pfc { capacity: 8, delay: 7, ..Pfc::default() }),
        ets: Some(ets),
        max_rate: Some([0; 8]),
        buffers: Some(buffers),
        apps: Vec::new(),
        trust: None,
        dcbx: Some(DcbxMode { cee: true, ..HOST }),
    };
    assert_eq!(settings(mlx5::AFTER_PROBE), expected);
    assert!(!expected.trusts_dscp());
}

#[test]
fn mlx5_with_roce() {
    let settings = settings(mlx5::ROCE);
    let pfc = Pfc {
        enabled: vec![3],
        capacity: 8,
        delay: 7,
        macsec_bypass: false,
        requests: [0, 0, 0, 1_234_567, 0, 0, 0, 0],
        indications: [0, 0, 0, 89, 0, 0, 0, 5_000_000_000],
    };
    assert_eq!(settings.pfc, Some(pfc));
    let ets = settings.ets.as_ref().unwrap();
    assert_eq!(ets.transmit_bandwidth, [50, 100, 100, 50, 100, 100, 100, 100]);
    assert_eq!(ets.algorithm, [Ets, Strict, Strict, Ets, Strict, Strict, Strict, Strict]);
    assert_eq!(ets.priority_class, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(settings.max_rate.unwrap()[..2], [10_000_000, 0]);
    assert_eq!(settings.buffers.as_ref().unwrap().priority_buffer, [0, 0, 0, 1, 0, 0, 0, 0]);
    let dscps = (0..64).rev().map(|dscp| app(AppSelector::Dscp, dscp, u8::try_from(dscp / 8).unwrap()));
    assert_eq!(settings.apps, dscps.collect::<Vec<_>>());
    assert!(settings.trusts_dscp());
}

#[test]
fn mlx5_whose_firmware_manages_dcb() {
    let expected = DcbSettings {
        pfc: Some(Pfc { enabled: vec![4, 5], capacity: 8, ..Pfc::default() }),
        max_rate: Some([0; 8]),
        dcbx: Some(DcbxMode { host: false, cee: true, ..HOST }),
        ..DcbSettings::default()
    };
    assert_eq!(settings(mlx5::FIRMWARE), expected);
    assert!(expected.dcbx.unwrap().is_by_firmware() && !HOST.is_by_firmware());
}

#[test]
fn bnxt_before_anything_was_set() {
    let expected = DcbSettings {
        pfc: Some(Pfc { capacity: 2, ..Pfc::default() }),
        ets: Some(no_ets(8)),
        dcbx: Some(HOST),
        ..DcbSettings::default()
    };
    assert_eq!(settings(bnxt::HOST_UNSET), expected);
}

#[test]
fn bnxt_with_roce() {
    let ets = Ets {
        priority_class: [0, 0, 0, 1, 0, 0, 0, 2],
        transmit_bandwidth: [50, 50, 0, 0, 0, 0, 0, 0],
        algorithm: [Ets, Ets, Strict, Strict, Strict, Strict, Strict, Strict],
        ..no_ets(8)
    };
    let pfc = Pfc {
        enabled: vec![3],
        capacity: 2,
        requests: [0, 0, 0, 77, 0, 0, 0, 0],
        indications: [0, 0, 0, 88, 0, 0, 0, 0],
        ..Pfc::default()
    };
    let apps = vec![
        app(AppSelector::Dscp, 26, 3),
        app(AppSelector::DatagramPort, 4791, 3),
        app(AppSelector::Ethertype, 0x8915, 3),
    ];
    let expected =
        DcbSettings { pfc: Some(pfc), ets: Some(ets), apps, dcbx: Some(HOST), ..DcbSettings::default() };
    assert_eq!(settings(bnxt::HOST_ROCE), expected);
}

#[test]
fn bnxt_whose_firmware_manages_dcb() {
    let settings = settings(bnxt::FIRMWARE);
    assert_eq!(settings.dcbx, Some(FIRMWARE));
    assert_eq!(settings.ets.unwrap().transmit_bandwidth, [60, 40, 0, 0, 0, 0, 0, 0]);
    assert_eq!(settings.pfc.unwrap().enabled, [3]);
    assert_eq!(settings.apps, []);
}

#[test]
fn a_vf_of_bnxt() {
    let settings = settings(bnxt::VF);
    assert_eq!(settings.dcbx, Some(DcbxMode { host: false, ..HOST }));
    assert_eq!((settings.ets, settings.pfc), (Some(no_ets(1)), Some(Pfc::default())));
}

#[test]
fn ice_with_lldp_in_software() {
    let whole = [100, 0, 0, 0, 0, 0, 0, 0];
    let algorithm = [Ets, Strict, Strict, Strict, Strict, Strict, Strict, Strict];
    let ets = Ets {
        willing: true,
        transmit_bandwidth: whole,
        receive_bandwidth: whole,
        algorithm,
        recommended_bandwidth: whole,
        recommended_algorithm: algorithm,
        ..no_ets(8)
    };
    let expected = DcbSettings {
        pfc: Some(Pfc { capacity: 8, delay: 32, ..Pfc::default() }),
        ets: Some(ets),
        dcbx: Some(HOST),
        ..DcbSettings::default()
    };
    assert_eq!(settings(ice::SOFTWARE), expected);
}

#[test]
fn ice_that_trusts_dscp() {
    let settings = settings(ice::SOFTWARE_DSCP);
    assert!(settings.trusts_dscp());
    assert_eq!(settings.apps, [app(AppSelector::Dscp, 26, 3)]);
    let ets = settings.ets.unwrap();
    assert_eq!((ets.willing, ets.priority_class, ets.algorithm), (false, [0, 1, 2, 3, 4, 5, 6, 7], [Ets; 8]));
    let pfc = settings.pfc.unwrap();
    assert_eq!((pfc.enabled, pfc.requests[3], pfc.indications[3]), (vec![3], 11, 22));
}

#[test]
fn ice_with_lldp_in_firmware() {
    let settings = settings(ice::FIRMWARE);
    assert_eq!(settings.dcbx, Some(FIRMWARE));
    assert_eq!(settings.ets.unwrap().max_classes, 8, "0 in the TLV stands for 8");
    assert_eq!(
        settings.apps,
        [app(AppSelector::StreamPort, 3260, 4), app(AppSelector::Ethertype, 0x8906, 3)]
    );
    assert_eq!(settings.pfc.unwrap().enabled, [3]);
}

#[test]
fn a_driver_with_a_trust_order() {
    let settings = settings(kernel::TRUST);
    assert_eq!(settings.trust, Some(vec![AppSelector::Dscp, AppSelector::Pcp]));
    assert!(settings.trusts_dscp());
    let apps =
        [app(AppSelector::Pcp, 9, 1), app(AppSelector::Dscp, 46, 5), app(AppSelector::Ethertype, 0, 2)];
    assert_eq!(settings.apps, apps);
    assert_eq!(settings.dcbx, None);
    let second = DcbSettings { trust: Some(vec![AppSelector::Pcp, AppSelector::Dscp]), ..settings.clone() };
    assert!(second.trusts_dscp(), "of frames without a VLAN tag");
    let untrusted = DcbSettings { trust: Some(vec![AppSelector::Pcp]), ..settings };
    assert!(!untrusted.trusts_dscp(), "the order decides, not the entries");
}

#[test]
fn what_is_not_sent_is_absent() {
    assert_eq!(settings(kernel::NOTHING), DcbSettings::default());
}

#[test]
fn settings_are_json_with_the_names_of_the_field() {
    let json = serde_json::to_value(settings(mlx5::ROCE)).unwrap();
    assert_eq!(json["pfc"]["enabled"], serde_json::json!([3]));
    assert_eq!(json["pfc"]["macsecBypass"], false);
    assert_eq!(json["ets"]["algorithm"][1], "strict");
    assert_eq!(json["ets"]["priorityClass"][3], 3);
    assert_eq!(json["maxRate"][0], 10_000_000);
    assert_eq!(json["apps"][0], serde_json::json!({"selector": "dscp", "protocol": 63, "priority": 7}));
    assert_eq!(json["trust"], serde_json::Value::Null);
    assert_eq!(
        json["dcbx"],
        serde_json::json!({"host": true, "lldManaged": false, "cee": true, "ieee": true, "static": false})
    );
}
