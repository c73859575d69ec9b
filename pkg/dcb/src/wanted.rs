//! The wanted settings of a link, compared with its current ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    AppPriority, AppSelector, DcbChange, DcbSettings, TransmissionSelection, ieee_pfc::bitmap, uapi::MAX_TCS,
};

/// The wanted settings of a link. What is `None` is left as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WantedDcb {
    /// The priorities that have PFC. All others have none.
    pub pfc: Option<Vec<u8>>,
    /// What the port derives the priority of a received packet from.
    pub trust: Option<Trust>,
    /// The priority of each DSCP. DSCPs that are not listed are left as they are.
    pub dscp_priorities: Option<BTreeMap<u8, u8>>,
    /// The traffic classes, from class 0 on.
    pub traffic_classes: Option<Vec<TrafficClass>>,
}

/// What a port derives the priority of a received packet from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// The DSCP of its IP header.
    Dscp,
    /// The priority code point of its VLAN tag. Then no DSCP has a priority: drivers derive the trust from that.
    Pcp,
}

/// A traffic class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrafficClass {
    /// The priorities that use it.
    pub priorities: Vec<u8>,
    /// Its share of the bandwidth in percent; `None` for strict priority.
    pub bandwidth: Option<u8>,
}

/// Wanted settings that no link can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {what}")]
pub struct InvalidWantedDcb {
    /// The key.
    pub key: &'static str,
    /// What is wrong, and what is expected.
    pub what: String,
}

impl WantedDcb {
    /// Checks what the kernel does not: it stores any number, and drivers reply `EINVAL`.
    ///
    /// # Errors
    /// [`InvalidWantedDcb`].
    pub fn check(&self) -> Result<(), InvalidWantedDcb> {
        let wrong = |key, what: String| Err(InvalidWantedDcb { key, what });
        if let Some(pfc) = self.pfc.as_ref().filter(|pfc| bitmap(pfc).is_none()) {
            return wrong("pfc", format!("expected priorities from 0 to 7, found {pfc:?}"));
        }
        let dscps = self.dscp_priorities.iter().flatten();
        for (dscp, priority) in dscps {
            let app =
                AppPriority { selector: AppSelector::Dscp, protocol: (*dscp).into(), priority: *priority };
            if let Err(error) = app.check() {
                return wrong("dscpPriorities", error.to_string());
            }
        }
        let has_dscps = self.dscp_priorities.as_ref().is_some_and(|map| !map.is_empty());
        match self.trust {
            Some(Trust::Dscp) if !has_dscps => {
                let what = "dscp needs dscpPriorities: drivers trust the DSCP as long as one has a priority";
                wrong("trust", what.into())
            }
            Some(Trust::Pcp) if has_dscps => wrong(
                "trust",
                "pcp and dscpPriorities exclude each other: drivers trust the DSCP if one has a priority"
                    .into(),
            ),
            _ => self.traffic_classes.as_deref().map_or(Ok(()), check_classes),
        }
    }

    /// Returns the changes that a link needs, in the order in which they are made; none if it has the wanted settings.
    ///
    /// The former priority of a DSCP is removed before the new one is added: ice refuses a second one.
    pub fn changes(&self, settings: &DcbSettings) -> Vec<DcbChange> {
        let mut changes = Vec::new();
        let apps = self.app_changes(settings);
        changes.extend(apps.0.into_iter().map(DcbChange::RemoveApp));
        changes.extend(apps.1.into_iter().map(DcbChange::AddApp));
        // After the DSCPs: the first one gives the classes of ice other values.
        changes.extend(self.ets_change(settings));
        // Last, since the priorities must have their classes: the buffers of a card depend on both.
        changes.extend(self.pfc_change(settings));
        changes
    }

    /// Returns what the link does not have although it is wanted, and cannot be changed here: the driver does not support it.
    pub fn unsupported(&self, settings: &DcbSettings) -> Vec<&'static str> {
        let order = settings.trust.as_ref().and_then(|order| order.first());
        let has_other_trust = match self.trust {
            Some(Trust::Dscp) => order.is_some_and(|first| *first != AppSelector::Dscp),
            Some(Trust::Pcp) => order.is_some_and(|first| *first != AppSelector::Pcp),
            None => false,
        };
        let lacks = [
            ("PFC", self.pfc.is_some() && settings.pfc.is_none()),
            ("traffic classes", self.traffic_classes.is_some() && settings.ets.is_none()),
            ("another trust order", has_other_trust),
        ];
        lacks.into_iter().filter(|(_, is_lacking)| *is_lacking).map(|(what, _)| what).collect()
    }

    /// Whether a change that was made earlier is of a setting that is still wanted.
    pub fn wants_setting_of(&self, change: &DcbChange) -> bool {
        match change {
            DcbChange::Pfc { .. } => self.pfc.is_some(),
            DcbChange::Ets { .. } => self.traffic_classes.is_some(),
            DcbChange::AddApp(app) | DcbChange::RemoveApp(app) => {
                let is_listed =
                    |map: &BTreeMap<u8, u8>| map.keys().any(|dscp| u16::from(*dscp) == app.protocol);
                self.trust == Some(Trust::Pcp) || self.dscp_priorities.as_ref().is_some_and(is_listed)
            }
        }
    }

    fn pfc_change(&self, settings: &DcbSettings) -> Option<DcbChange> {
        let (wanted, is) = (self.pfc.as_ref()?, &settings.pfc.as_ref()?.enabled);
        let mut to = wanted.clone();
        to.sort_unstable();
        to.dedup();
        (to != *is).then(|| DcbChange::Pfc { from: is.clone(), to })
    }

    /// Returns the application priorities to remove and to add.
    fn app_changes(&self, settings: &DcbSettings) -> (Vec<AppPriority>, Vec<AppPriority>) {
        let of_dscp = || settings.apps.iter().copied().filter(|app| app.selector == AppSelector::Dscp);
        if self.trust == Some(Trust::Pcp) {
            return (of_dscp().collect(), Vec::new());
        }
        let wanted: Vec<_> = (self.dscp_priorities.iter().flatten())
            .map(|(dscp, priority)| AppPriority {
                selector: AppSelector::Dscp,
                protocol: (*dscp).into(),
                priority: *priority,
            })
            .collect();
        let is_other = |app: &AppPriority| {
            wanted.iter().any(|wanted| wanted.protocol == app.protocol && wanted.priority != app.priority)
        };
        let missing = wanted.iter().copied().filter(|app| !settings.apps.contains(app)).collect();
        (of_dscp().filter(is_other).collect(), missing)
    }

    fn ets_change(&self, settings: &DcbSettings) -> Option<DcbChange> {
        let (classes, from) = (self.traffic_classes.as_ref()?, settings.ets.as_ref()?);
        let mut to = from.clone();
        // Shares of classes without priorities would count too.
        for (algorithm, share) in to.algorithm.iter_mut().zip(&mut to.transmit_bandwidth) {
            if *algorithm == TransmissionSelection::Ets {
                (*algorithm, *share) = (TransmissionSelection::Strict, 0);
            }
        }
        for (number, class) in (0_u8..).zip(classes) {
            let at = usize::from(number);
            let algorithm =
                class.bandwidth.map_or(TransmissionSelection::Strict, |_| TransmissionSelection::Ets);
            set(&mut to.algorithm, at, algorithm);
            set(&mut to.transmit_bandwidth, at, class.bandwidth.unwrap_or(0));
            class
                .priorities
                .iter()
                .for_each(|priority| set(&mut to.priority_class, (*priority).into(), number));
        }
        (!from.transmits_as(&to)).then(|| DcbChange::Ets { from: Box::new(from.clone()), to: Box::new(to) })
    }
}

/// Sets an element; an index that does not exist is skipped, and [`WantedDcb::check`] refuses it.
fn set<T>(list: &mut [T; MAX_TCS], at: usize, value: T) {
    if let Some(element) = list.get_mut(at) {
        *element = value;
    }
}

fn check_classes(classes: &[TrafficClass]) -> Result<(), InvalidWantedDcb> {
    let wrong = |what| Err(InvalidWantedDcb { key: "trafficClasses", what });
    if classes.len() > MAX_TCS {
        return wrong(format!("expected at most {MAX_TCS} classes, found {}", classes.len()));
    }
    let mut priorities: Vec<u8> = classes.iter().flat_map(|class| &class.priorities).copied().collect();
    priorities.sort_unstable();
    if priorities != [0, 1, 2, 3, 4, 5, 6, 7] {
        return wrong(format!("expected each priority from 0 to 7 in one class, found {priorities:?}"));
    }
    let mut shares = classes.iter().filter_map(|class| class.bandwidth).map(u16::from).peekable();
    if shares.peek().is_none() {
        return Ok(());
    }
    let sum: u16 = shares.sum();
    if sum == 100 {
        Ok(())
    } else {
        wrong(format!("expected bandwidths that are 100 % together, found {sum} %"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ets, Pfc};

    fn wanted(json: &str) -> WantedDcb {
        serde_json::from_str(json).unwrap()
    }

    /// As a card has them after a reset.
    fn reset() -> DcbSettings {
        let mut ets = Ets::parse(&[0; 59]).unwrap();
        ets.algorithm = [TransmissionSelection::Vendor; 8];
        ets.transmit_bandwidth = [100; 8];
        DcbSettings {
            pfc: Some(Pfc { capacity: 8, ..Pfc::default() }),
            ets: Some(ets),
            ..DcbSettings::default()
        }
    }

    fn texts(wanted: &WantedDcb, settings: &DcbSettings) -> Vec<String> {
        wanted.changes(settings).iter().map(ToString::to_string).collect()
    }

    fn dscp(protocol: u16, priority: u8) -> AppPriority {
        AppPriority { selector: AppSelector::Dscp, protocol, priority }
    }

    #[test]
    fn only_differences_are_changed() {
        let lossless = wanted(r#"{"pfc": [3], "trust": "dscp", "dscpPriorities": {"26": 3, "48": 6}}"#);
        lossless.check().unwrap();
        let mut settings = reset();
        assert_eq!(
            texts(&lossless, &settings),
            [
                "add the application priority DSCP 26 to priority 3",
                "add the application priority DSCP 48 to priority 6",
                "change PFC from no priority to priority 3",
            ]
        );
        settings.pfc.as_mut().unwrap().enabled = vec![3];
        settings.apps = vec![dscp(48, 6), dscp(26, 3), dscp(0, 0)];
        assert!(lossless.changes(&settings).is_empty());
        assert!(wanted("{}").changes(&settings).is_empty());
        settings.pfc.as_mut().unwrap().enabled = vec![3, 4];
        assert!(wanted(r#"{"pfc": [4, 3, 4]}"#).changes(&settings).is_empty(), "in any order");
        assert_eq!(
            texts(&wanted(r#"{"pfc": []}"#), &settings),
            ["change PFC from priority 3, 4 to no priority"]
        );
    }

    #[test]
    fn a_dscp_has_one_priority_and_other_dscps_keep_theirs() {
        let mut settings = reset();
        settings.apps = vec![dscp(26, 2), dscp(26, 3), dscp(10, 1)];
        let to = wanted(r#"{"dscpPriorities": {"26": 4}}"#);
        assert_eq!(
            texts(&to, &settings),
            [
                "remove the application priority DSCP 26 to priority 2",
                "remove the application priority DSCP 26 to priority 3",
                "add the application priority DSCP 26 to priority 4",
            ]
        );
        let roce_v1 = AppPriority { selector: AppSelector::Ethertype, protocol: 0x8915, priority: 3 };
        let port_26 = AppPriority { selector: AppSelector::Port, ..dscp(26, 3) };
        settings.apps.extend([roce_v1, port_26]);
        assert_eq!(texts(&to, &settings).len(), 3, "a port is no DSCP");
        let changes = wanted(r#"{"trust": "pcp"}"#).changes(&settings);
        assert_eq!(changes.len(), 3, "all DSCPs, and no EtherType: {changes:?}");
    }

    #[test]
    fn a_change_is_wanted_as_long_as_its_setting_is() {
        let (removed, added) = (DcbChange::RemoveApp(dscp(26, 3)), DcbChange::AddApp(dscp(26, 3)));
        let of_dscp = |json: &str| [&removed, &added].map(|change| wanted(json).wants_setting_of(change));
        // The trust of the VLAN tag is that no DSCP has a priority.
        assert_eq!(of_dscp(r#"{"trust": "pcp"}"#), [true; 2]);
        assert_eq!(of_dscp(r#"{"dscpPriorities": {"26": 4}}"#), [true; 2]);
        for other in [r#"{"dscpPriorities": {"27": 3}}"#, r#"{"trust": "dscp"}"#, r#"{"pfc": [3]}"#] {
            assert_eq!(of_dscp(other), [false; 2], "{other}");
        }
        let ets = Box::new(reset().ets.unwrap());
        let pfc = DcbChange::Pfc { from: vec![3], to: Vec::new() };
        let classes = DcbChange::Ets { from: ets.clone(), to: ets };
        let of_both = |json: &str| [&pfc, &classes].map(|change| wanted(json).wants_setting_of(change));
        assert_eq!(of_both(r#"{"pfc": []}"#), [true, false]);
        assert_eq!(of_both(r#"{"trafficClasses": []}"#), [false, true]);
    }

    #[test]
    fn traffic_classes_are_compared_as_frames_are_transmitted() {
        let classes = wanted(
            r#"{"trafficClasses": [{"priorities": [0, 1, 2, 4, 5, 7], "bandwidth": 40},
                {"priorities": [3], "bandwidth": 60}, {"priorities": [6]}]}"#,
        );
        classes.check().unwrap();
        let mut settings = reset();
        let [DcbChange::Ets { to, .. }] = &classes.changes(&settings)[..] else { panic!("one change") };
        assert_eq!((to.priority_class, to.check(8)), ([0, 0, 0, 1, 0, 0, 2, 0], Ok(())));
        assert_eq!(to.transmit_bandwidth[..3], [40, 60, 0]);
        settings.ets = Some((**to).clone());
        assert!(classes.changes(&settings).is_empty());
        settings.ets.as_mut().unwrap().transmit_bandwidth[2] = 100;
        assert!(classes.changes(&settings).is_empty(), "the share of a strict class has no meaning");
        settings.ets.as_mut().unwrap().transmit_bandwidth[1] = 50;
        assert_eq!(classes.changes(&settings).len(), 1);
    }

    #[test]
    fn classes_that_are_no_longer_used_have_no_share() {
        let mut settings = reset();
        let former = settings.ets.as_mut().unwrap();
        (former.algorithm, former.transmit_bandwidth) = ([TransmissionSelection::Ets; 8], [12; 8]);
        let whole = wanted(
            r#"{"pfc": [3], "dscpPriorities": {"26": 3},
                "trafficClasses": [{"priorities": [0, 1, 2, 3, 4, 5, 6, 7], "bandwidth": 100}]}"#,
        );
        let changes = whole.changes(&settings);
        let [DcbChange::AddApp(_), DcbChange::Ets { to, .. }, DcbChange::Pfc { .. }] = &changes[..] else {
            panic!("the DSCPs, then the classes, then PFC: {changes:?}")
        };
        assert_eq!((to.check(8), to.transmit_bandwidth), (Ok(()), [100, 0, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn a_driver_without_a_setting_is_named() {
        let all = wanted(r#"{"pfc": [3], "trust": "pcp", "trafficClasses": []}"#);
        let none = DcbSettings::default();
        assert_eq!(all.unsupported(&none), ["PFC", "traffic classes"]);
        let order = DcbSettings { trust: Some(vec![AppSelector::Dscp]), ..reset() };
        assert_eq!(all.unsupported(&order), ["another trust order"]);
        assert!(all.unsupported(&reset()).is_empty());
        let trusts = |first| DcbSettings { trust: Some(vec![first, AppSelector::Dscp]), ..reset() };
        let dscp = wanted(r#"{"trust": "dscp", "dscpPriorities": {"26": 3}}"#);
        assert_eq!(dscp.unsupported(&trusts(AppSelector::Pcp)), ["another trust order"]);
        assert!(dscp.unsupported(&trusts(AppSelector::Dscp)).is_empty());
    }

    #[test]
    fn settings_that_no_link_can_have_are_refused() {
        let error = |json: &str| wanted(json).check().unwrap_err().to_string();
        assert_eq!(error(r#"{"pfc": [3, 8]}"#), "pfc: expected priorities from 0 to 7, found [3, 8]");
        assert!(
            error(r#"{"dscpPriorities": {"64": 3}}"#)
                .starts_with("dscpPriorities: application priority DSCP 64")
        );
        assert!(error(r#"{"dscpPriorities": {"26": 8}}"#).contains("the priority must be 0 to 7"));
        assert!(error(r#"{"trust": "dscp"}"#).starts_with("trust: dscp needs dscpPriorities"));
        assert!(error(r#"{"trust": "pcp", "dscpPriorities": {"26": 3}}"#).starts_with("trust: pcp and"));
        let classes = |text: &str| error(&format!(r#"{{"trafficClasses": [{text}]}}"#));
        assert!(classes(r#"{"priorities": [0, 1]}"#).contains("found [0, 1]"));
        let all = r#"{"priorities": [0, 1, 2, 3, 4, 5, 6, 7], "bandwidth": 90}"#;
        assert!(classes(all).ends_with("found 90 %"));
        let nine = [r#"{"priorities": []}"#; 9].join(", ");
        assert!(classes(&nine).contains("at most 8 classes, found 9"));
        for unknown in [r#"{"ets": []}"#, r#"{"trust": "vlan"}"#, r#"{"pfc": ["3"]}"#] {
            assert!(serde_json::from_str::<WantedDcb>(unknown).is_err(), "{unknown}");
        }
    }
}
