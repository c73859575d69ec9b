//! The memory of modules, in replies as the kernel would send them; each file in `replies/` says where its values come from. None was
//! captured: there was no such card.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod reply;

use std::collections::BTreeMap;

use ethtool_netlink::{
    HalfPage, HalfPageAddress, Malformed, ManagementInterface, ModuleEeprom, ModuleLane, ModuleMemory,
    Thresholds,
};

use self::reply::{parse, reply};

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
    let bias_of = |lane_monitors| {
        let module =
            Recorded::new(reply!("mlx5_osfp_cmis")).with(HalfPageAddress::upper(1), 160, lane_monitors);
        module.read_all().lanes.first().map(|lane| (lane.tx_bias_microamperes, lane.tx_power_nanowatts))
    };
    // The factors 1 and 4 of the bias current; one monitor alone.
    assert_eq!(bias_of(0b0000_0111), Some((Some(3500), Some(1_200_000))));
    assert_eq!(bias_of(0b0001_0111), Some((Some(14_000), Some(1_200_000))));
    assert_eq!(bias_of(0b0000_0010), Some((None, Some(1_200_000))));
    assert_eq!(bias_of(0b0000_1000), None, "no lane is measured");
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
    assert_eq!(thresholds.supply_microvolts, limits([3_630_000, 2_970_000, 3_465_000, 3_135_000]));
    assert_eq!(thresholds.rx_power_nanowatts, limits([3_467_400, 50_000, 1_737_800, 100_000]));
    assert_eq!(thresholds.tx_bias_microamperes, limits([13_000, 1000, 12_000, 2000]));
    assert_eq!(thresholds.tx_power_nanowatts, limits([3_467_400, 100_000, 1_737_800, 200_000]));
}

#[test]
fn a_module_that_measures_the_transmitted_power_need_not_say_so() {
    let with = |dark: &[u8]| {
        let silent = Recorded::new(reply!("bnxt_qsfp28")).with(HalfPageAddress::upper(0), 220, 0);
        let bytes = dark.iter().flat_map(|lane| [50 + 2 * (lane - 1), 51 + 2 * (lane - 1)]);
        let module =
            bytes.fold(silent, |module, byte| module.with(HalfPageAddress::LOWER, byte, 0)).read_all();
        module.lanes.into_iter().map(|lane| lane.tx_power_nanowatts).collect::<Vec<_>>()
    };
    assert_eq!(with(&[1]), [Some(0), Some(810_000), Some(820_000), Some(830_000)]);
    assert_eq!(with(&[1, 2, 3, 4]), [None; 4]);
}

#[test]
fn an_older_module_need_not_say_that_it_measures_its_temperature_either() {
    let silent = || Recorded::new(reply!("bnxt_qsfp28")).with(HalfPageAddress::upper(0), 220, 0);
    let values = |module: &ModuleEeprom| (module.temperature_millicelsius, module.supply_microvolts);
    assert_eq!(values(&silent().read_all()), (Some(-2250), Some(3_280_000)));
    let zero = [22, 23, 26, 27].into_iter();
    let zero = zero.fold(silent(), |module, byte| module.with(HalfPageAddress::LOWER, byte, 0));
    assert_eq!(values(&zero.read_all()), (None, None), "0 without the bit is no value");
}

#[test]
fn a_flat_sff_8636_module_has_no_thresholds() {
    let flat = Recorded::new(reply!("bnxt_qsfp28")).with(HalfPageAddress::LOWER, 2, 1 << 2).read_all();
    assert!(flat.thresholds.is_none() && flat.lanes.len() == 4, "{flat:?}");
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
    assert_eq!(thresholds.tx_power_nanowatts, limits([1_778_300, 100_000, 1_412_500, 125_900]));
    assert_eq!(thresholds.tx_bias_microamperes, limits([12_000, 1000, 11_000, 2000]));

    let (implemented, externally_calibrated) = (1 << 6, 1 << 4);
    let raw = recorded().with(HalfPageAddress::LOWER, 92, implemented | externally_calibrated).read_all();
    assert_unmeasured(&raw);
    assert_unmeasured(&recorded().with(HalfPageAddress::LOWER, 92, 0).read_all());
}

#[test]
fn the_identifier_selects_the_specification() {
    let interface = |identifier| {
        let module = ModuleEeprom::read(&mut Random { identifier, state: 1 }).unwrap();
        assert_eq!(module.interface.is_some(), module.form_factor().is_some(), "{identifier:#x}");
        module.interface
    };
    assert_eq!(interface(0x03), Some(ManagementInterface::Sff8472));
    assert_eq!([0x0c, 0x0d, 0x11].map(interface), [Some(ManagementInterface::Sff8636); 3]);
    let cmis = [0x18, 0x19, 0x1b, 0x1e, 0x1f, 0x20, 0x21];
    assert_eq!(cmis.map(interface), [Some(ManagementInterface::Cmis); 7]);
    assert_eq!([0x00, 0x0b, 0x1a, 0x1c, 0x1d, 0x22].map(interface), [None; 6]);
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
