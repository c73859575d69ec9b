//! A simulated card, since the behaviour of firmware cannot be tested here.

use std::{collections::BTreeMap, sync::Mutex};

use dcb::{DcbChange, DcbSettings};
use identifiers::{PciAddress, VfIndex};
use inventory::{Inventory, PciIds, Pf, PfLink, Vf};
use rtnl::{VfSetting, VfSettings};

use crate::{DcbReading, NodeReading, PciBackend, PciBackendError, step};

pub(super) const PF: &str = "0000:af:00.0";

pub(super) fn pci(text: &str) -> PciAddress {
    text.parse().unwrap()
}

pub(crate) fn pf(vfs: u32) -> Pf {
    let link = PfLink {
        index: 7,
        name: "ens6f0np0".parse().unwrap(),
        mac: "08:c0:eb:01:02:03".parse().ok(),
        permanent_mac: "08:c0:eb:01:02:03".parse().ok(),
        mtu: 1500,
        up: true,
        infiniband: false,
    };
    Pf {
        pci: pci(PF),
        ids: Some(PciIds { vendor: "15b3".into(), device: "101d".into() }),
        driver: Some("mlx5_core".into()),
        link: Some(link),
        rdma: vec!["mlx5_0".into()],
        guid: Some(0x0c42_a103_0065_1234),
        total_vfs: 8,
        num_vfs: vfs,
        autoprobe: Some(true),
        protections: Vec::new(),
        users: Vec::new(),
        vfs: (0..vfs).map(|index| vf(index, true)).collect(),
    }
}

/// A VF as the driver creates it: without an assigned address.
pub(crate) fn vf(index: u32, bound: bool) -> Vf {
    let settings = VfSettings {
        mac: Some([0; 6].into_mac()),
        trust: Some(false),
        spoofchk: Some(true),
        link_state: Some(0),
        ..VfSettings::default()
    };
    Vf {
        index: VfIndex(index),
        pci: pci(&format!("0000:af:00.{}", index + 1)),
        driver: bound.then(|| "mlx5_core".into()),
        link: bound.then(|| format!("eth{index}").parse().unwrap()),
        mac: None,
        mtu: bound.then_some(1500),
        rdma: bound.then(|| format!("mlx5_{}", index + 1)),
        node_guid: bound.then(|| "0000:0000:0000:0000".into()),
        settings: Some(settings),
        users: Vec::new(),
    }
}

trait IntoMac {
    fn into_mac(self) -> identifiers::MacAddr;
}

impl IntoMac for [u8; 6] {
    fn into_mac(self) -> identifiers::MacAddr {
        identifiers::MacAddr::from_bytes(&self).unwrap()
    }
}

/// A card that executes operations and fails at operation `fails_at`.
pub(super) struct FakeCard {
    pub(super) pf: Mutex<Pf>,
    pub(super) log: Mutex<Vec<String>>,
    pub(super) fails_at: usize,
    /// Whether its firmware creates no VFs.
    pub(super) makes_none: bool,
    /// Whether its firmware does not answer then.
    pub(super) hangs: bool,
    /// Whether it refuses changes of its DCB settings.
    pub(super) refuses_dcb: bool,
    /// Its DCB settings, if its driver has some.
    pub(super) dcb: Mutex<Option<DcbSettings>>,
}

impl FakeCard {
    pub(super) fn of(pf: Pf) -> Self {
        Self {
            pf: Mutex::new(pf),
            log: Mutex::default(),
            fails_at: usize::MAX,
            makes_none: false,
            hangs: false,
            refuses_dcb: false,
            dcb: Mutex::default(),
        }
    }

    /// A node with this card and without records.
    pub(super) fn reading(&self) -> NodeReading {
        let inventory = Inventory { pfs: vec![self.pf.lock().unwrap().clone()] };
        let dcb = self.dcb.lock().unwrap().clone();
        let dcb = dcb.map(|settings| (pci(PF), DcbReading::Settings(Box::new(settings))));
        NodeReading { inventory, records: BTreeMap::new(), dcb: dcb.into_iter().collect() }
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn record(&self, what: String, then: impl FnOnce(&mut Pf)) -> Result<(), PciBackendError> {
        let mut log = self.log.lock().unwrap();
        if log.len() == self.fails_at {
            return Err(PciBackendError::TimedOut { what, limit: std::time::Duration::ZERO });
        }
        log.push(what);
        then(&mut self.pf.lock().unwrap());
        Ok(())
    }
}

impl PciBackend for FakeCard {
    fn set_num_vfs(&self, _: PciAddress, count: u32) -> Result<(), PciBackendError> {
        if self.makes_none && self.hangs {
            let what = format!("numvfs {count}");
            return Err(PciBackendError::TimedOut { what, limit: std::time::Duration::ZERO });
        }
        if self.makes_none {
            return Err(PciBackendError::Fewer { wanted: count, made: 0 });
        }
        self.record(format!("numvfs {count}"), |pf| {
            assert!(
                count == 0 || pf.num_vfs == 0,
                "EBUSY: the kernel changes the number of VFs only from or to 0"
            );
            let bound = pf.autoprobe == Some(true);
            pf.num_vfs = count;
            pf.vfs = (0..count).map(|index| vf(index, bound)).collect();
        })
    }

    fn set_autoprobe(&self, _: PciAddress, on: bool) -> Result<(), PciBackendError> {
        self.record(format!("autoprobe {}", u8::from(on)), |pf| pf.autoprobe = Some(on))
    }

    fn configure(&self, _: PciAddress, vf: VfIndex, change: VfSetting) -> Result<(), PciBackendError> {
        self.record(format!("vf {vf} {}", step::VfSettingText(change)), |pf| {
            let settings = pf.vfs[vf.0 as usize].settings.as_mut().unwrap();
            match change {
                VfSetting::Mac(mac) => settings.mac = Some(mac),
                VfSetting::Trust(on) => settings.trust = Some(on),
                VfSetting::SpoofCheck(on) => settings.spoofchk = Some(on),
                VfSetting::LinkState(state) => settings.link_state = Some(state),
                VfSetting::NodeGuid(guid) => settings.node_guid = Some(guid),
                VfSetting::PortGuid(guid) => settings.port_guid = Some(guid),
                VfSetting::Vlan(_) | VfSetting::Rate(..) => {
                    panic!("unexpected change {change:?}")
                }
            }
        })
    }

    fn unbind(&self, _: PciAddress, number: VfIndex) -> Result<(), PciBackendError> {
        self.record(format!("unbind {number}"), |pf| {
            let settings = pf.vfs[number.0 as usize].settings.clone();
            assert!(pf.vfs[number.0 as usize].is_free(), "a VF in use is never unbound");
            pf.vfs[number.0 as usize] = Vf { settings, ..vf(number.0, false) };
        })
    }

    fn bind(&self, _: PciAddress, number: VfIndex) -> Result<(), PciBackendError> {
        self.record(format!("bind {number}"), |pf| {
            assert_eq!(
                pf.autoprobe,
                Some(true),
                "ENODEV: the kernel does not bind VFs while autoprobe is off"
            );
            let settings = pf.vfs[number.0 as usize].settings.clone().unwrap();
            let has_address = settings.mac.is_some_and(|mac| !mac.is_zero());
            let guid = if has_address { "0800:ebff:fe01:0203" } else { "0000:0000:0000:0000" };
            let new = Vf { node_guid: Some(guid.into()), settings: Some(settings), ..vf(number.0, true) };
            pf.vfs[number.0 as usize] = new;
        })
    }

    fn set_mtu(&self, _: PciAddress, vf: Option<VfIndex>, mtu: u32) -> Result<(), PciBackendError> {
        self.record(format!("mtu {:?} {mtu}", vf.map(|vf| vf.0)), |pf| match vf {
            Some(vf) => pf.vfs[vf.0 as usize].mtu = Some(mtu),
            None => pf.link.as_mut().unwrap().mtu = mtu,
        })
    }

    fn set_up(&self, _: PciAddress) -> Result<(), PciBackendError> {
        self.record("up".into(), |pf| pf.link.as_mut().unwrap().up = true)
    }

    fn change_dcb(&self, _: PciAddress, change: &DcbChange) -> Result<(), PciBackendError> {
        if self.refuses_dcb {
            return Err(PciBackendError::TimedOut {
                what: change.to_string(),
                limit: std::time::Duration::ZERO,
            });
        }
        self.record(change.to_string(), |_| {
            let mut settings = self.dcb.lock().unwrap();
            let settings = settings.as_mut().unwrap();
            match change {
                DcbChange::Pfc { to, .. } => settings.pfc.as_mut().unwrap().enabled.clone_from(to),
                DcbChange::Ets { to, .. } => settings.ets = Some((**to).clone()),
                DcbChange::AddApp(app) => settings.apps.push(*app),
                DcbChange::RemoveApp(app) => settings.apps.retain(|other| other != app),
            }
        })
    }
}
