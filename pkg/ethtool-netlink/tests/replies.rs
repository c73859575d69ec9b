//! Replies as the kernel would send them for the drivers mlx5, bnxt and ice; each file in `replies/` names the functions of
//! the driver that its values come from. None was captured: there was no such card.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod reply;

use ethtool_netlink::{
    Duplex, ExtendedState, ExtendedSubstate, Fec, FecBin, FecCounter, FecMode, FecStatistics, HalfPage,
    LinkExtState, LinkModes, LinkState, LinkStatistics, Malformed, ModulePower, Pause, PauseStatistics,
    PowerMode, PowerModePolicy, SizeBucket,
};

use self::reply::{parse, reply};

fn link_modes(text: &str) -> LinkModes {
    parse(text, 4, LinkModes::parse)
}

fn link_state(text: &str) -> LinkState {
    parse(text, 6, LinkState::parse)
}

fn fec(text: &str) -> Fec {
    parse(text, 30, Fec::parse)
}

fn pause(text: &str) -> Pause {
    parse(text, 22, Pause::parse)
}

#[test]
fn a_400g_port_of_mlx5() {
    let modes = link_modes(reply!("mlx5_linkmodes_400g"));
    assert_eq!((modes.speed, modes.duplex, modes.lanes), (Some(400_000), Some(Duplex::Full), Some(8)));
    assert!(modes.autonegotiation);
    assert_eq!(modes.highest_supported_speed, Some(400_000));
    assert!(!modes.is_below_highest_speed());
    assert_eq!(modes.supported.len(), 20);
    assert!(modes.supported.iter().any(|mode| mode == "400000baseLR8_ER8_FR8/Full"));
    assert_eq!(modes.supported.len() - modes.advertised.len(), 3, "{:?}", modes.advertised);
    assert_eq!(modes.peer, ["Autoneg", "Pause", "200000baseCR4/Full", "400000baseCR8/Full"]);
}

#[test]
fn a_port_below_its_speed_is_recognized() {
    let modes = link_modes(reply!("mlx5_linkmodes_200g"));
    assert_eq!((modes.speed, modes.lanes), (Some(200_000), Some(4)));
    assert_eq!(modes.highest_supported_speed, Some(400_000));
    assert!(modes.is_below_highest_speed());
}

#[test]
fn a_bnxt_port_with_forced_speed_advertises_nothing() {
    let modes = link_modes(reply!("bnxt_linkmodes"));
    assert!(!modes.autonegotiation && modes.advertised.is_empty() && modes.peer.is_empty());
    assert_eq!((modes.speed, modes.lanes), (Some(200_000), Some(4)));
    assert_eq!(modes.highest_supported_speed, Some(200_000));
    assert!(!modes.is_below_highest_speed());
}

#[test]
fn an_ice_port_that_is_down_has_no_speed() {
    let modes = link_modes(reply!("ice_linkmodes_down"));
    assert_eq!((modes.speed, modes.duplex, modes.lanes), (None, None, None));
    assert_eq!(modes.highest_supported_speed, Some(100_000));
    assert!(!modes.is_below_highest_speed(), "its speed is not known");
    let shown = serde_json::to_value(&modes).unwrap();
    assert_eq!(shown["highestSupportedSpeed"], 100_000);
    assert_eq!(shown["speed"], serde_json::Value::Null);
}

#[test]
fn mlx5_says_why_a_link_is_down() {
    let down = |state, substate, down_events| LinkState {
        up: Some(false),
        sqi: None,
        sqi_max: None,
        extended: Some(ExtendedState { state, substate }),
        down_events,
    };
    let substate = |number, meaning| Some(ExtendedSubstate { number, meaning: Some(meaning) });
    assert_eq!(
        link_state(reply!("mlx5_linkstate_autoneg")),
        down(LinkExtState::Autoneg, substate(1, "no link partner detected"), Some(3))
    );
    assert_eq!(
        link_state(reply!("mlx5_linkstate_fec")),
        down(LinkExtState::LinkLogicalMismatch, substate(5, "the RS-FEC is not locked"), Some(12))
    );
    let no_cable = link_state(reply!("mlx5_linkstate_no_cable"));
    assert_eq!(no_cable, down(LinkExtState::NoCable, None, None));
    assert_eq!(serde_json::to_value(no_cable.extended).unwrap()["state"], "noCable");
}

#[test]
fn bnxt_and_ice_count_how_often_a_link_went_down() {
    let state = |up, down_events| LinkState {
        up: Some(up),
        sqi: None,
        sqi_max: None,
        extended: None,
        down_events: Some(down_events),
    };
    assert_eq!(link_state(reply!("bnxt_linkstate_up")), state(true, 5));
    assert_eq!(link_state(reply!("ice_linkstate_down")), state(false, 2));
}

fn total(total: u64) -> Option<FecCounter> {
    Some(FecCounter { total, lanes: Vec::new() })
}

#[test]
fn fec_of_mlx5() {
    let bin = |low, high, blocks| FecBin { low, high, blocks, lanes: Vec::new() };
    let rs = Fec {
        active: Some(FecMode::Rs),
        auto: true,
        modes: Vec::new(),
        statistics: FecStatistics {
            corrected_blocks: total(123_456),
            uncorrectable_blocks: total(2),
            corrected_bits: total(987_654),
            histogram: vec![bin(0, 0, 10_000_000_000), bin(1, 1, 120_000), bin(2, 15, 3456)],
        },
    };
    assert_eq!(fec(reply!("mlx5_fec_rs")), rs);

    let fire_code = fec(reply!("mlx5_fec_firecode"));
    assert_eq!((fire_code.active, fire_code.auto), (Some(FecMode::BaseR), false));
    assert_eq!(fire_code.modes, [FecMode::BaseR]);
    let counter = |total, lanes: [u64; 4]| Some(FecCounter { total, lanes: lanes.to_vec() });
    assert_eq!(fire_code.statistics.corrected_blocks, counter(10, [1, 2, 3, 4]));
    assert_eq!(fire_code.statistics.uncorrectable_blocks, counter(5, [0, 0, 5, 0]));
    assert_eq!(fire_code.statistics.corrected_bits, total(17));
}

/// Returns an attribute with its padding.
fn nla(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap();
    let mut bytes = [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn fec_of_a_driver_that_lists_what_it_supports_and_counts_lanes() {
    let bit = |index: u32, name: &[u8], set: &[u8]| {
        nla(1, &[&nla(1, &index.to_ne_bytes())[..], &nla(2, name), set].concat())
    };
    // With a mask: a bit that is not set is one that can be set.
    let bits = [bit(49, b"None\0", &[]), bit(50, b"RS\0", &nla(3, &[])), bit(74, b"LLRS\0", &[])].concat();
    let lanes: Vec<u8> = [4_u64, 5].iter().flat_map(|blocks| blocks.to_ne_bytes()).collect();
    let number = |kind, value: u32| nla(kind, &value.to_ne_bytes());
    let bin = [number(2, 1), number(3, 15), number(4, 9), nla(5, &lanes)].concat();
    let reply = [nla(2, &nla(3, &bits)), nla(3, &[0]), nla(5, &nla(5, &bin))].concat();
    let fec = Fec::parse(&reply).unwrap();
    assert_eq!((fec.modes, fec.auto, fec.active), (vec![FecMode::Rs], false, None));
    assert_eq!(fec.statistics.histogram, [FecBin { low: 1, high: 15, blocks: 9, lanes: vec![4, 5] }]);
}

#[test]
fn fec_of_bnxt() {
    let rs = fec(reply!("bnxt_fec_rs"));
    assert_eq!((rs.active, rs.auto), (Some(FecMode::Rs), true));
    assert_eq!(rs.modes, [FecMode::Rs, FecMode::Llrs]);
    let bits_only = FecStatistics { corrected_bits: total(42), ..FecStatistics::default() };
    assert_eq!(rs.statistics, bits_only);

    let statistics = FecStatistics::default();
    let none = Fec { active: None, auto: false, modes: Vec::new(), statistics };
    assert_eq!(fec(reply!("bnxt_fec_none")), none);
}

#[test]
fn fec_of_ice() {
    let ice = fec(reply!("ice_fec"));
    assert_eq!((ice.active, ice.auto), (Some(FecMode::Rs), true));
    assert_eq!(ice.modes, [FecMode::Rs, FecMode::BaseR]);
    assert_eq!(ice.statistics.corrected_blocks, total(7000));
    assert_eq!(ice.statistics.uncorrectable_blocks, total(1));
    assert_eq!(ice.statistics.corrected_bits, None);
    assert_eq!(serde_json::to_value(&ice).unwrap()["modes"], serde_json::json!(["rs", "baseR"]));
}

#[test]
fn pause_frames() {
    let counted = |tx, rx| PauseStatistics { tx_frames: Some(tx), rx_frames: Some(rx) };
    assert_eq!(
        pause(reply!("mlx5_pause")),
        Pause { autonegotiation: false, rx: true, tx: true, statistics: counted(15, 1 << 33) }
    );
    assert_eq!(
        pause(reply!("bnxt_pause")),
        Pause { autonegotiation: true, rx: true, tx: false, statistics: counted(0, 9) }
    );
    let statistics = PauseStatistics::default();
    assert_eq!(pause(reply!("ice_pause")), Pause { autonegotiation: true, rx: false, tx: false, statistics });
}

#[test]
fn standard_counters() {
    let mlx5 = parse(reply!("mlx5_stats"), 33, LinkStatistics::parse);
    let bucket = |low, high, packets| SizeBucket { low, high, packets };
    let expected = LinkStatistics {
        symbol_errors: Some(3),
        frames_transmitted: Some(1000),
        frames_received: Some(2000),
        fcs_errors: Some(6),
        octets_transmitted: Some(64_000),
        octets_received: Some(128_000),
        in_range_length_errors: Some(7),
        out_of_range_length_fields: Some(8),
        too_long_frames: Some(9),
        undersize_packets: Some(11),
        fragments: Some(12),
        jabbers: Some(13),
        received_sizes: vec![bucket(0, 64, 100), bucket(65, 127, 200)],
        ..LinkStatistics::default()
    };
    assert_eq!(mlx5, expected);
    let ice = parse(reply!("ice_stats"), 33, LinkStatistics::parse);
    assert_eq!((ice.symbol_errors, ice.fcs_errors, ice.oversize_packets), (None, Some(1), Some(4)));
    assert_eq!(ice.received_sizes[1], bucket(1523, 9522, 2));
    assert_eq!(ice.transmitted_sizes, [bucket(0, 64, 3)]);
}

#[test]
fn power_modes() {
    let power = parse(reply!("module_power"), 35, ModulePower::parse);
    assert_eq!((power.policy, power.mode), (Some(PowerModePolicy::Auto), Some(PowerMode::High)));
    assert_eq!(parse(reply!("module_power_none"), 35, ModulePower::parse), ModulePower::default());
    let of =
        |policy, mode| ModulePower::parse(&[5, 0, 2, 0, policy, 0, 0, 0, 5, 0, 3, 0, mode, 0, 0, 0]).unwrap();
    assert_eq!(of(1, 1), ModulePower { policy: Some(PowerModePolicy::High), mode: Some(PowerMode::Low) });
    let newer = ModulePower { policy: Some(PowerModePolicy::Other(3)), mode: Some(PowerMode::Other(3)) };
    assert_eq!(of(3, 3), newer);
}

#[test]
fn replies_that_the_kernel_does_not_send_are_refused() {
    let missing = |attribute| Malformed::Missing { attribute };
    assert_eq!(Fec::parse(&[]), Err(missing("ETHTOOL_A_FEC_AUTO")));
    assert_eq!(Pause::parse(&[]), Err(missing("ETHTOOL_A_PAUSE_AUTONEG")));
    assert_eq!(HalfPage::parse(&[]), Err(missing("ETHTOOL_A_MODULE_EEPROM_DATA")));
    // ETHTOOL_A_FEC_MODES in the compact form, which was not requested: a size and a value.
    let compact = [8, 0, 2, 0, 6, 0, 0, 0, 8, 0, 4, 0, 1, 0, 0, 0];
    let modes = [&[20, 0, 2, 0x80][..], &compact].concat();
    assert_eq!(Fec::parse(&modes), Err(missing("ETHTOOL_A_BITSET_BITS")));
    // ETHTOOL_A_LINKSTATE_LINK with two bytes.
    let long = [6, 0, 2, 0, 1, 0, 0, 0];
    let length = Malformed::Length { attribute: "ETHTOOL_A_LINKSTATE_LINK", length: 2, expected: "1" };
    assert_eq!(LinkState::parse(&long), Err(length));
    // A half page of which the driver read nothing.
    let length = Malformed::Length { attribute: "ETHTOOL_A_MODULE_EEPROM_DATA", length: 0, expected: "128" };
    assert_eq!(HalfPage::parse(&[4, 0, 7, 0]), Err(length));
}
