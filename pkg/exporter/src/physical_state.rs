//! The physical state of a port: of its link, over ethtool netlink, and of its card's slot, from sysfs.

use std::{
    fs,
    time::{Duration, Instant},
};

use ethtool_netlink::{Fec, Handle, LinkModes, LinkState, LinkStatistics, Module, Pause};
use identifiers::LinkName;
use sysfs::Sysfs;

use crate::{CollectError, Collector, ErrorReason};

/// How long a reading is used at least. One of a module takes up to a second, in which the kernel changes no other link.
pub(crate) const MIN_AGE: Duration = Duration::from_secs(30);

/// How long a module that could not be read is not read again: the driver of mlx5 logs each attempt at an empty cage.
const EMPTY_CAGE_AGE: Duration = Duration::from_secs(600);

/// The physical state of a port. What the driver does not report is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PhysicalState {
    /// Speed and link modes.
    pub modes: Option<LinkModes>,
    /// Why the link is down, and how often it was.
    pub state: Option<LinkState>,
    /// Forward error correction.
    pub fec: Option<Fec>,
    /// Pause settings and frames.
    pub pause: Option<Pause>,
    /// Symbol errors and other counters of the PHY and the MAC.
    pub statistics: Option<LinkStatistics>,
    /// The plug-in module.
    pub module: Option<Module>,
    /// When the module could not be read, as that of an empty cage.
    pub module_unreadable: Option<Instant>,
    /// The card's slot.
    pub pcie: Option<PcieState>,
}

/// The PCI Express link of a card, and its errors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PcieState {
    /// The speed in transfers per second and lane.
    pub speed: Option<f64>,
    /// The maximum speed of the card.
    pub max_speed: Option<f64>,
    /// The number of lanes.
    pub lanes: Option<u32>,
    /// The maximum number of lanes of the card.
    pub max_lanes: Option<u32>,
    /// Errors by severity (`correctable`, `nonfatal`, `fatal`); empty without AER.
    pub errors: Vec<(&'static str, u64)>,
}

impl PhysicalState {
    /// Reads the state of a link of this thread's network namespace, and of its PCI function. `former` is the last one.
    pub(crate) fn read(
        former: Option<&Self>,
        sysfs: &Sysfs,
        link: Option<&LinkName>,
        function: Option<&str>,
        errors: &mut Vec<CollectError>,
    ) -> Self {
        let mut state =
            Self { pcie: function.map(|function| PcieState::read(sysfs, function)), ..Self::default() };
        let Some(link) = link else { return state };
        let handle = match Handle::open() {
            Ok(handle) => handle,
            // A kernel before 5.6.
            Err(ethtool_netlink::Error::Unsupported) => return state,
            Err(error) => {
                errors.push(CollectError::new(Collector::Physical, &error));
                return state;
            }
        };
        state.modes = note(handle.link_modes(link), errors);
        state.state = note(handle.link_state(link), errors);
        state.fec = note(handle.fec(link), errors);
        state.pause = note(handle.pause(link), errors);
        state.statistics = note(handle.statistics(link), errors);
        state.module_unreadable =
            former.and_then(|state| state.module_unreadable).filter(|since| since.elapsed() < EMPTY_CAGE_AGE);
        if state.module_unreadable.is_none() {
            let module = handle.module(link);
            let is_unreadable = matches!(module, Err(ethtool_netlink::Error::ModuleUnreadable { .. }));
            state.module_unreadable = is_unreadable.then(Instant::now);
            state.module = note(module, errors);
        }
        state
    }
}

/// Returns a value that was read. A link that is gone and a cage without a module are no errors.
fn note<T>(read: Result<Option<T>, ethtool_netlink::Error>, errors: &mut Vec<CollectError>) -> Option<T> {
    use ethtool_netlink::Error;
    match read {
        Ok(value) => value,
        Err(Error::NoSuchLink { .. } | Error::ModuleUnreadable { .. }) => None,
        Err(error) => {
            let error = CollectError::new(Collector::Physical, &error);
            // The EEPROM of a module needs CAP_NET_ADMIN, which silkraild does not have by default.
            let reason =
                if error.reason == ErrorReason::Permission { ErrorReason::Unreadable } else { error.reason };
            errors.push(CollectError { reason, ..error });
            None
        }
    }
}

impl PcieState {
    fn read(sysfs: &Sysfs, function: &str) -> Self {
        let dir = sysfs.root().join("bus/pci/devices").join(function);
        let text = |file: &str| fs::read_to_string(dir.join(file)).ok();
        let speed = |file: &str| Some(sysfs::parse_link_speed(&text(file)?)? * 1e9);
        let lanes = |file: &str| sysfs::parse_link_width(&text(file)?);
        let severities = [
            ("correctable", "aer_dev_correctable", "TOTAL_ERR_COR"),
            ("nonfatal", "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
            ("fatal", "aer_dev_fatal", "TOTAL_ERR_FATAL"),
        ];
        let errors = severities.into_iter().filter_map(|(severity, file, total)| {
            Some((severity, sysfs::parse_aer_total(&text(file)?, total)?))
        });
        Self {
            speed: speed("current_link_speed"),
            max_speed: speed("max_link_speed"),
            lanes: lanes("current_link_width"),
            max_lanes: lanes("max_link_width"),
            errors: errors.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_cage_and_a_link_that_is_gone_are_no_errors() {
        use ethtool_netlink::Error;
        let link: LinkName = "eth0".parse().unwrap();
        let cage =
            Error::ModuleUnreadable { link: link.clone(), i2c_address: 0x50, page: 0, reason: "EIO".into() };
        let mut errors = Vec::new();
        for (read, value) in [
            (Ok(Some(7)), Some(7)),
            (Ok(None), None),
            (Err(cage), None),
            (Err(Error::NoSuchLink { link }), None),
        ] {
            assert_eq!(note(read, &mut errors), value);
        }
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(note::<u32>(Err(Error::Unsupported), &mut errors), None);
        assert_eq!((errors[0].collector, errors[0].reason), (Collector::Physical, ErrorReason::Refused));
    }

    #[test]
    fn the_slot_of_a_card_and_its_errors_are_read() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("bus/pci/devices/0000:af:00.0");
        fs::create_dir_all(&dir).unwrap();
        for (file, text) in [
            ("current_link_speed", "16.0 GT/s PCIe\n"),
            ("max_link_speed", "32.0 GT/s PCIe\n"),
            ("current_link_width", "8\n"),
            ("max_link_width", "16\n"),
            ("aer_dev_correctable", "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n"),
            ("aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 1\n"),
        ] {
            fs::write(dir.join(file), text).unwrap();
        }
        let state = PcieState::read(&Sysfs::at(root.path()), "0000:af:00.0");
        assert_eq!((state.speed, state.max_speed), (Some(16e9), Some(32e9)));
        assert_eq!((state.lanes, state.max_lanes), (Some(8), Some(16)));
        assert_eq!(state.errors, [("correctable", 3), ("fatal", 1)]);
        fs::write(dir.join("current_link_speed"), "Unknown\n").unwrap();
        fs::write(dir.join("current_link_width"), "0\n").unwrap();
        let unknown = PcieState::read(&Sysfs::at(root.path()), "0000:af:00.0");
        assert_eq!((unknown.speed, unknown.lanes), (None, None));
    }
}
