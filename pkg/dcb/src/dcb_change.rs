//! A single change of a link's settings, which can be reverted.

use std::fmt;

use identifiers::LinkName;
use serde::{Deserialize, Serialize};

use crate::{AppPriority, DcbSettings, Error, Ets, Handle, TransmissionSelection};

/// A change of a link's settings: one request to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DcbChange {
    /// Change the priorities that have PFC.
    Pfc {
        /// The current priorities.
        from: Vec<u8>,
        /// The new priorities.
        to: Vec<u8>,
    },
    /// Change the traffic classes.
    Ets {
        /// The current traffic classes.
        from: Box<Ets>,
        /// The new traffic classes.
        to: Box<Ets>,
    },
    /// Remove an application priority.
    RemoveApp(AppPriority),
    /// Add an application priority.
    AddApp(AppPriority),
}

impl DcbChange {
    /// Makes the change.
    ///
    /// # Errors
    /// Those of [`Handle::set_pfc`], [`Handle::set_ets`], [`Handle::add_app`] and [`Handle::del_app`].
    pub fn make(&self, handle: &Handle, link: &LinkName) -> Result<(), Error> {
        match self {
            Self::Pfc { to, .. } => handle.set_pfc(link, to),
            Self::Ets { to, .. } => handle.set_ets(link, to),
            Self::RemoveApp(app) => handle.del_app(link, *app),
            Self::AddApp(app) => handle.add_app(link, *app),
        }
    }

    /// Returns the change that reverts this one.
    #[must_use]
    pub fn inverse(&self) -> Self {
        match self.clone() {
            Self::Pfc { from, to } => Self::Pfc { from: to, to: from },
            Self::Ets { from, to } => Self::Ets { from: to, to: from },
            Self::RemoveApp(app) => Self::AddApp(app),
            Self::AddApp(app) => Self::RemoveApp(app),
        }
    }

    /// Whether the settings are those that the change leads to. If they are not, another program has changed them since, and a
    /// revert would overwrite its change.
    pub fn is_in_place(&self, settings: &DcbSettings) -> bool {
        match self {
            Self::Pfc { to, .. } => settings.pfc.as_ref().is_some_and(|pfc| pfc.enabled == *to),
            Self::Ets { to, .. } => settings.ets.as_ref().is_some_and(|ets| ets.transmits_as(to)),
            Self::RemoveApp(app) => !settings.apps.contains(app),
            Self::AddApp(app) => settings.apps.contains(app),
        }
    }

    /// Adds a change to the list of those that were made. Changes that revert each other are removed, and several of one setting
    /// become one.
    pub fn record(self, made: &mut Vec<Self>) {
        if made.contains(&self) {
            return; // another program has reverted it, and it was made again
        }
        let is_same_setting = |other: &Self| match (other, &self) {
            (Self::Pfc { .. }, Self::Pfc { .. }) | (Self::Ets { .. }, Self::Ets { .. }) => true,
            _ => *other == self.inverse(),
        };
        let earlier = made.iter().position(is_same_setting).map(|at| made.remove(at));
        let merged = match (earlier, self) {
            (Some(Self::Pfc { from, .. }), Self::Pfc { to, .. }) => Self::Pfc { from, to },
            (Some(Self::Ets { from, .. }), Self::Ets { to, .. }) => Self::Ets { from, to },
            (Some(_), _) => return,
            (None, change) => change,
        };
        match &merged {
            Self::Pfc { from, to } if from == to => {}
            Self::Ets { from, to } if from == to => {}
            _ => made.push(merged),
        }
    }
}

impl fmt::Display for DcbChange {
    /// Writes `change PFC from no priority to 3, 4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pfc { from, to } => write!(f, "change PFC from {} to {}", priorities(from), priorities(to)),
            Self::Ets { from, to } => {
                write!(
                    f,
                    "change the traffic classes from {} to {}",
                    TrafficClassesText(from),
                    TrafficClassesText(to)
                )
            }
            Self::RemoveApp(app) => write!(f, "remove the application priority {app}"),
            Self::AddApp(app) => write!(f, "add the application priority {app}"),
        }
    }
}

/// Returns `priority 3, 4`, or `no priority`.
fn priorities(list: &[u8]) -> String {
    match list {
        [] => "no priority".into(),
        _ => format!("priority {}", list.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Displays the classes that priorities use: `class 0 (priority 0, 1, 2, 4, 5, 6, 7; 50 %), class 3 (priority 3; strict)`.
struct TrafficClassesText<'a>(&'a Ets);

impl fmt::Display for TrafficClassesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ets) = self;
        let mut separator = "";
        for (class, (algorithm, share)) in (0_u8..).zip(ets.algorithm.iter().zip(ets.transmit_bandwidth)) {
            let of_class: Vec<u8> =
                (0_u8..).zip(ets.priority_class).filter(|(_, is)| *is == class).map(|(it, _)| it).collect();
            if of_class.is_empty() {
                continue;
            }
            write!(f, "{separator}class {class} ({}; ", priorities(&of_class))?;
            match algorithm {
                TransmissionSelection::Strict => write!(f, "strict)")?,
                TransmissionSelection::CreditBasedShaper => write!(f, "shaper)")?,
                TransmissionSelection::Ets => write!(f, "{share} %)")?,
                TransmissionSelection::Vendor => write!(f, "vendor)")?,
                TransmissionSelection::Other(number) => write!(f, "algorithm {number})")?,
            }
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppSelector, Pfc};

    fn app(protocol: u16, priority: u8) -> AppPriority {
        AppPriority { selector: AppSelector::Dscp, protocol, priority }
    }

    fn pfc(from: &[u8], to: &[u8]) -> DcbChange {
        DcbChange::Pfc { from: from.to_vec(), to: to.to_vec() }
    }

    /// Changes the class of priority 3.
    fn ets(from: u8, to: u8) -> DcbChange {
        let [from, to] = [from, to].map(|class| {
            let mut ets = Ets::parse(&[0; 59]).unwrap();
            ets.priority_class[3] = class;
            Box::new(ets)
        });
        DcbChange::Ets { from, to }
    }

    fn recorded(changes: &[DcbChange]) -> Vec<DcbChange> {
        let mut made = Vec::new();
        changes.iter().cloned().for_each(|change| change.record(&mut made));
        made
    }

    #[test]
    fn changes_of_one_setting_become_one_and_reverts_none() {
        assert_eq!(recorded(&[pfc(&[], &[3]), pfc(&[3], &[4])]), [pfc(&[], &[4])]);
        assert!(recorded(&[pfc(&[], &[3]), pfc(&[3], &[])]).is_empty());
        let (add, remove) = (DcbChange::AddApp(app(26, 3)), DcbChange::RemoveApp(app(26, 3)));
        assert!(recorded(&[add.clone(), remove.clone()]).is_empty());
        assert!(recorded(&[remove.clone(), add.clone()]).is_empty());
        let both = [remove.clone(), DcbChange::AddApp(app(26, 4))];
        assert_eq!(recorded(&both), both);
        assert_eq!(recorded(&[add.clone(), add.clone()]), std::slice::from_ref(&add));
        // Those of other settings stay, with the state before the first change.
        let others = [pfc(&[], &[3]), add.clone(), pfc(&[3], &[3, 4]), ets(0, 1), ets(1, 2)];
        assert_eq!(recorded(&others), [add.clone(), pfc(&[], &[3, 4]), ets(0, 2)]);
        assert_eq!(recorded(&[&others[..], &[ets(2, 0), add.inverse()]].concat()), [pfc(&[], &[3, 4])]);
    }

    #[test]
    fn a_change_is_in_place_until_another_program_changes_the_setting() {
        let settings = |enabled: &[u8], apps: &[AppPriority]| DcbSettings {
            pfc: Some(Pfc { enabled: enabled.to_vec(), ..Pfc::default() }),
            apps: apps.to_vec(),
            ..DcbSettings::default()
        };
        assert!(pfc(&[], &[3]).is_in_place(&settings(&[3], &[])));
        assert!(!pfc(&[], &[3]).is_in_place(&settings(&[3, 4], &[])));
        let add = DcbChange::AddApp(app(26, 3));
        assert!(add.is_in_place(&settings(&[], &[app(26, 3)])));
        assert!(!add.is_in_place(&settings(&[], &[app(26, 4)])));
        assert!(add.inverse().is_in_place(&settings(&[], &[])));
        assert!(add.inverse().is_in_place(&settings(&[], &[app(26, 4)])));
        assert!(!add.inverse().is_in_place(&settings(&[], &[app(26, 4), app(26, 3)])));
        assert!(!pfc(&[], &[3]).is_in_place(&DcbSettings::default()));
        let DcbChange::Ets { to, .. } = ets(0, 1) else { panic!("traffic classes") };
        let now = DcbSettings { ets: Some(*to), ..DcbSettings::default() };
        assert!(ets(0, 1).is_in_place(&now) && !ets(0, 1).inverse().is_in_place(&now));
    }

    #[test]
    fn a_change_is_described_in_words() {
        assert_eq!(pfc(&[], &[3, 4]).to_string(), "change PFC from no priority to priority 3, 4");
        let add = DcbChange::AddApp(app(26, 3));
        assert_eq!(add.to_string(), "add the application priority DSCP 26 to priority 3");
        assert_eq!(add.inverse().to_string(), "remove the application priority DSCP 26 to priority 3");
        let mut from = Ets::parse(&[0; 59]).unwrap();
        from.algorithm = [TransmissionSelection::Vendor; 8];
        let mut to = from.clone();
        to.priority_class[3] = 1;
        to.algorithm[..2].copy_from_slice(&[TransmissionSelection::Ets, TransmissionSelection::Strict]);
        to.transmit_bandwidth[0] = 100;
        let text = DcbChange::Ets { from: Box::new(from), to: Box::new(to) }.to_string();
        assert_eq!(
            text,
            "change the traffic classes from class 0 (priority 0, 1, 2, 3, 4, 5, 6, 7; vendor) to \
             class 0 (priority 0, 1, 2, 4, 5, 6, 7; 100 %), class 1 (priority 3; strict)"
        );
    }

    #[test]
    fn a_change_is_read_as_it_is_written() {
        let ets = Box::new(Ets::parse(&[0; 59]).unwrap());
        let all =
            [pfc(&[], &[3]), DcbChange::AddApp(app(26, 3)), DcbChange::Ets { from: ets.clone(), to: ets }];
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Vec<DcbChange>>(&text).unwrap(), all);
    }
}
