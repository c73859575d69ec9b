//! Replies as the kernel would send them for the drivers mlx5, bnxt and ice; each file in `replies/` names the functions of
//! the driver that its values come from. None was captured: there was no such card.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::{collections::BTreeMap, fmt::Debug};

use ethtool_netlink::{
    Duplex, ExtendedState, ExtendedSubstate, Fec, FecBin, FecCounter, FecMode, FecStatistics, HalfPage,
    HalfPageAddress, LinkExtState, LinkModes, LinkState, LinkStatistics, Malformed, ManagementInterface,
    ModuleEeprom, ModuleLane, ModuleMemory, ModulePower, Pause, PauseStatistics, PowerMode, PowerModePolicy,
    SizeBucket, Thresholds,
};

macro_rules! reply {
    ($name:literal) => {
        include_str!(concat!("replies/", $name, ".hex"))
    };
}

/// The headers before the attributes: `nlmsghdr` and `genlmsghdr`.
const HEADERS: usize = 20;

/// Returns the bytes of hexadecimal text; `#` begins a comment line.
fn bytes(text: &str) -> Vec<u8> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// Returns the attributes of a reply, whose length and command are checked.
fn attributes(text: &str, command: u8) -> Vec<u8> {
    let message = bytes(text);
    let length = u32::from_le_bytes(message[..4].try_into().unwrap());
    assert_eq!((length as usize, message[16]), (message.len(), command));
    message[HEADERS..].to_vec()
}

/// Parses a reply, and all that is left of it if it ends early or has one byte changed: no parser may panic.
fn parse<T: Debug>(text: &str, command: u8, parse: impl Fn(&[u8]) -> Result<T, Malformed>) -> T {
    let whole = attributes(text, command);
    for end in 0..whole.len() {
        let _ = parse(&whole[..end]);
        for byte in [0, 1, 3, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[end] = byte;
            let _ = parse(&changed);
        }
    }
    // An attribute at the end, of which a byte is missing.
    if !whole.is_empty() {
        let cut: Vec<u8> = [&whole[..], &[8, 0, 0x7f, 0, 1, 2, 3]].concat();
        assert_eq!(parse(&cut).unwrap_err(), Malformed::Truncated);
    }
    parse(&whole).unwrap()
}

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
}

/// A module whose half pages are in a file, each after a line with its address.
struct Recorded(BTreeMap<HalfPageAddress, HalfPage>);

impl Recorded {
    fn new(text: &str) -> Self {
        let mut pages = BTreeMap::new();
        for part in text.split("# page ").skip(1) {
            let (address, message) = part.split_once('\n').unwrap();
            pages.insert(self::address(address), parse(message, 32, HalfPage::parse));
        }
        Self(pages)
    }

    /// Changes a byte, by its number in the specification.
    fn with(mut self, address: HalfPageAddress, number: u8, byte: u8) -> Self {
        let page = self.0.get_mut(&address).unwrap();
        let mut bytes = page_bytes(page);
        bytes[usize::from(number % 128)] = byte;
        *page = HalfPage::try_from(&bytes[..]).unwrap();
        self
    }

    fn without(mut self, address: HalfPageAddress) -> Self {
        self.0.remove(&address).unwrap();
        self
    }

    fn read_all(mut self) -> ModuleEeprom {
        ModuleEeprom::read(&mut self).unwrap()
    }
}

fn page_bytes(page: &HalfPage) -> Vec<u8> {
    page.as_bytes().to_vec()
}

fn address(text: &str) -> HalfPageAddress {
    let fields: Vec<_> = text.split(' ').collect();
    HalfPageAddress {
        i2c_address: u8::from_str_radix(fields[0], 16).unwrap(),
        page: u8::from_str_radix(fields[1], 16).unwrap(),
        offset: fields[2].parse().unwrap(),
    }
}

impl ModuleMemory for Recorded {
    type Error = HalfPageAddress;

    fn read(&mut self, address: HalfPageAddress) -> Result<HalfPage, HalfPageAddress> {
        self.0.get(&address).cloned().ok_or(address)
    }

    fn read_optional(&mut self, address: HalfPageAddress) -> Result<Option<HalfPage>, HalfPageAddress> {
        Ok(self.0.get(&address).cloned())
    }
}

fn lane(lane: u8, rx: u32, tx: u32, bias: u32) -> ModuleLane {
    ModuleLane {
        lane,
        rx_power_nanowatts: Some(rx),
        tx_power_nanowatts: Some(tx),
        tx_bias_microamperes: Some(bias),
    }
}

fn limits<T>([high_alarm, low_alarm, high_warning, low_warning]: [T; 4]) -> Option<Thresholds<T>> {
    Some(Thresholds { high_alarm, low_alarm, high_warning, low_warning })
}

fn assert_vendor(module: &ModuleEeprom, expected: [&str; 3]) {
    let vendor = module.vendor.as_ref().unwrap();
    assert_eq!([&vendor.name[..], &vendor.part_number, &vendor.serial_number], expected);
}

#[test]
fn an_osfp_module_with_cmis() {
    let module = Recorded::new(reply!("mlx5_osfp_cmis")).read_all();
    assert_eq!((module.identifier, module.form_factor()), (0x19, Some("OSFP")));
    assert_eq!(module.interface, Some(ManagementInterface::Cmis));
    assert_vendor(&module, ["ACME OPTICS", "AC-OSFP-400SR8", "AC2401000017"]);
    assert_eq!(module.temperature_millicelsius, Some(51_500));
    assert_eq!(module.supply_microvolts, Some(3_301_200));
    // The bias current has the factor 2.
    assert_eq!(module.lanes[0], lane(1, 1_100_000, 1_200_000, 7000));
    assert_eq!(module.lanes[3], lane(4, 0, 1_230_000, 7000), "no light");
    assert_eq!((module.lanes.len(), module.lanes[7].lane), (8, 8));
    let thresholds = module.thresholds.unwrap();
    assert_eq!(thresholds.temperature_millicelsius, limits([75_000, -5000, 70_000, 0]));
    assert_eq!(thresholds.supply_microvolts, limits([3_630_000, 2_970_000, 3_465_000, 3_135_000]));
    assert_eq!(thresholds.tx_power_nanowatts, limits([2_511_900, 125_900, 1_995_300, 251_200]));
    assert_eq!(thresholds.rx_power_nanowatts, limits([2_511_900, 100_000, 1_995_300, 199_500]));
    assert_eq!(thresholds.tx_bias_microamperes, limits([14_000, 3000, 13_000, 4000]));
}

#[test]
fn a_cmis_module_with_fewer_lanes_and_monitors() {
    let module = Recorded::new(reply!("mlx5_osfp_cmis"))
        .with(HalfPageAddress::upper(0), 210, 0b1111_0000)
        .with(HalfPageAddress::upper(1), 159, 0b01)
        // The received power, and a reserved factor of the bias current.
        .with(HalfPageAddress::upper(1), 160, 0b0001_1101);
    let module = module.read_all();
    assert_eq!((module.temperature_millicelsius, module.supply_microvolts), (Some(51_500), None));
    let lanes: Vec<_> = module.lanes.iter().map(|lane| (lane.lane, lane.rx_power_nanowatts)).collect();
    assert_eq!(lanes, [(1, Some(1_100_000)), (2, Some(1_090_000)), (3, Some(1_080_000)), (4, Some(0))]);
    assert!(module.lanes.iter().all(|lane| lane.tx_power_nanowatts.is_none()));
    assert!(module.lanes.iter().all(|lane| lane.tx_bias_microamperes.is_none()));
    assert_eq!(module.thresholds.unwrap().tx_bias_microamperes, None);
}

#[test]
fn pages_that_a_driver_refuses_are_left_out() {
    let recorded = || Recorded::new(reply!("mlx5_osfp_cmis"));
    let module =
        recorded().without(HalfPageAddress::upper(0x11)).without(HalfPageAddress::upper(2)).read_all();
    assert!(module.lanes.is_empty() && module.thresholds.is_none());
    assert_eq!(module.temperature_millicelsius, Some(51_500));
    let mut without_identity = recorded().without(HalfPageAddress::upper(0));
    assert_eq!(ModuleEeprom::read(&mut without_identity), Err(HalfPageAddress::upper(0)));
}

#[test]
fn copper_cables_measure_nothing() {
    let module = Recorded::new(reply!("mlx5_qsfp_dd_copper")).read_all();
    assert_eq!(module.form_factor(), Some("QSFP-DD"));
    assert_vendor(&module, ["ACME CABLES", "AC-QDD-DAC-1M", "AC2401000018"]);
    assert_unmeasured(&module);
    let module = Recorded::new(reply!("ice_qsfp28_copper")).read_all();
    assert_eq!(module.interface, Some(ManagementInterface::Sff8636));
    assert_vendor(&module, ["ACME CABLES", "AC-Q28-DAC-2M", "AC2401000020"]);
    assert_unmeasured(&module);
}

fn assert_unmeasured(module: &ModuleEeprom) {
    assert_eq!((module.temperature_millicelsius, module.supply_microvolts), (None, None));
    assert!(module.lanes.is_empty() && module.thresholds.is_none(), "{module:?}");
}

#[test]
fn a_qsfp28_module_with_sff_8636() {
    let module = Recorded::new(reply!("bnxt_qsfp28")).read_all();
    assert_eq!((module.identifier, module.form_factor()), (0x11, Some("QSFP28")));
    assert_vendor(&module, ["ACME OPTICS", "AC-Q28-100SR4", "AC2401000019"]);
    assert_eq!(module.temperature_millicelsius, Some(-2250));
    assert_eq!(module.supply_microvolts, Some(3_280_000));
    let lanes = [
        lane(1, 900_000, 800_000, 6800),
        lane(2, 910_000, 810_000, 6800),
        lane(3, 0, 820_000, 6800),
        lane(4, 930_000, 830_000, 6800),
    ];
    assert_eq!(module.lanes, lanes);
    let thresholds = module.thresholds.unwrap();
    assert_eq!(thresholds.temperature_millicelsius, limits([80_000, -10_000, 75_000, -5000]));
    assert_eq!(thresholds.rx_power_nanowatts, limits([3_467_400, 50_000, 1_737_800, 100_000]));
    assert_eq!(thresholds.tx_bias_microamperes, limits([13_000, 1000, 12_000, 2000]));
    assert_eq!(thresholds.tx_power_nanowatts, limits([3_467_400, 100_000, 1_737_800, 200_000]));
}

#[test]
fn a_sfp28_module_with_sff_8472() {
    let recorded = || Recorded::new(reply!("ice_sfp28"));
    let module = recorded().read_all();
    assert_eq!((module.identifier, module.interface), (3, Some(ManagementInterface::Sff8472)));
    assert_vendor(&module, ["ACME OPTICS", "AC-SFP28-25SR", "AC2401000021"]);
    assert_eq!(module.temperature_millicelsius, Some(38_500));
    assert_eq!(module.supply_microvolts, Some(3_315_000));
    assert_eq!(module.lanes, [lane(1, 430_000, 560_000, 6200)]);
    let thresholds = module.thresholds.unwrap();
    assert_eq!(thresholds.temperature_millicelsius, limits([78_000, -13_000, 73_000, -8000]));
    assert_eq!(thresholds.supply_microvolts, limits([3_700_000, 2_900_000, 3_600_000, 3_000_000]));
    assert_eq!(thresholds.rx_power_nanowatts, limits([1_778_300, 40_000, 1_412_500, 64_000]));

    let (implemented, externally_calibrated) = (1 << 6, 1 << 4);
    let raw = recorded().with(HalfPageAddress::LOWER, 92, implemented | externally_calibrated).read_all();
    assert_unmeasured(&raw);
    assert_unmeasured(&recorded().with(HalfPageAddress::LOWER, 92, 0).read_all());
}

#[test]
fn an_unknown_identifier_is_reported() {
    let module = Recorded::new(reply!("bnxt_qsfp28")).with(HalfPageAddress::LOWER, 0, 0x7f).read_all();
    assert_eq!((module.identifier, module.interface, module.form_factor()), (0x7f, None, None));
    assert!(module.vendor.is_none());
    assert_unmeasured(&module);
}

#[test]
fn any_content_of_a_module_is_read() {
    let mut state = 1_u32;
    for identifier in (0..=u8::MAX).chain(0..=u8::MAX) {
        let mut memory = Random { identifier, state };
        let module = ModuleEeprom::read(&mut memory).unwrap();
        assert_eq!(module.identifier, identifier);
        state = memory.state;
    }
}

/// A module with the given identifier, and anything else in its memory.
struct Random {
    identifier: u8,
    state: u32,
}

impl ModuleMemory for Random {
    type Error = Malformed;

    fn read(&mut self, address: HalfPageAddress) -> Result<HalfPage, Malformed> {
        let mut bytes = Vec::new();
        for _ in 0..128 {
            self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.push(self.state.to_be_bytes()[0]);
        }
        if address == HalfPageAddress::LOWER {
            bytes[0] = self.identifier;
        }
        HalfPage::try_from(&bytes[..])
    }

    fn read_optional(&mut self, address: HalfPageAddress) -> Result<Option<HalfPage>, Malformed> {
        self.read(address).map(Some)
    }
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
