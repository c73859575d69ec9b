//! Spiderpool's plugin `coordinator`: routes between the networks of a pod.

use serde_json::Value;

use super::{plugin::Plugin, values::without_effect};
use crate::{InvalidDocument, fields::Fields};

/// Its settings. Those that are not set, the plugin asks Spiderpool's agent for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Coordinator {
    mode: String,
    tune_pod_routes: bool,
    tx_queue_length: u64,
    /// By the keys of the plugin's configuration.
    others: Vec<(&'static str, Value)>,
}

const MODES: [&str; 4] = ["auto", "underlay", "overlay", "disabled"];

impl Coordinator {
    /// Reads `enableCoordinator` and `coordinator`; `None` if the network has none.
    pub(super) fn read(spec: &mut Fields<'_>) -> Result<Option<Self>, InvalidDocument> {
        let is_enabled = spec.flag("enableCoordinator")?.unwrap_or(true);
        let coordinator = match spec.object("coordinator")? {
            Some(settings) => Self::settings(settings)?,
            None => Self::default(),
        };
        Ok(is_enabled.then_some(coordinator))
    }

    fn settings(mut settings: Fields<'_>) -> Result<Self, InvalidDocument> {
        let mode = settings.text("mode")?.unwrap_or(MODES[0]);
        if !MODES.contains(&mode) {
            return Err(
                settings.invalid("mode", format!("expected one of {}, found {mode:?}", MODES.join(", ")))
            );
        }
        let mut coordinator = Self {
            mode: mode.to_owned(),
            tune_pod_routes: settings.flag("tunePodRoutes")?.unwrap_or(true),
            tx_queue_length: settings.number("txQueueLen", u64::from(u32::MAX))?.unwrap_or_default(),
            others: Vec::new(),
        };
        // As the controller does, which passes this key on only with that one.
        let (rp_filter, cidr_type) = (settings.value("podRPFilter"), settings.text("podCIDRType")?);
        let rp_filter = rp_filter.filter(|_| cidr_type.is_some());
        coordinator.others.extend(rp_filter.map(|value| ("podRPFilter", value.clone())));
        // The key of the route's link has another spelling in the plugin's configuration. The last two are of versions before 1.0.
        for (key, of_plugin) in [
            ("podMACPrefix", "podMACPrefix"),
            ("podDefaultRouteNIC", "podDefaultRouteNic"),
            ("hijackCIDR", "hijackCIDR"),
            ("policyRoutes", "policyRoutes"),
            ("vethLinkAddress", "vethLinkAddress"),
            ("vethMTU", "vethMTU"),
            ("detectIPConflict", "detectIPConflict"),
            ("detectGateway", "detectGateway"),
        ] {
            let value = settings.value(key).filter(|value| !is_empty(value));
            coordinator.others.extend(value.map(|value| (of_plugin, value.clone())));
        }
        // They are not passed on.
        without_effect(&mut settings, &["hostRuleTable", "hostRPFilter", "logOptions"]);
        settings.end()?;
        Ok(coordinator)
    }

    pub(super) fn plugin(&self) -> Plugin {
        let plugin = Plugin::new("coordinator")
            .with("mode", self.mode.clone())
            .with("tunePodRoutes", self.tune_pod_routes)
            .with("txQueueLen", self.tx_queue_length);
        self.others.iter().fold(plugin, |plugin, (key, value)| plugin.with(key, value.clone()))
    }

    /// Whether the addresses of a pod are probed first. Silkrail's plugins do that themselves.
    pub(super) fn detects_conflicts(&self) -> bool {
        self.mode != "disabled"
            && self.others.iter().any(|(key, value)| *key == "detectIPConflict" && *value == true)
    }

    /// Returns what a network without it does not have. Values that the controller sets in every network are left out.
    pub(super) fn effects(&self) -> Vec<String> {
        if self.mode == "disabled" {
            return Vec::new();
        }
        let mut effects = vec![
            "without the coordinator there are no routes from the pod to its node and to the cluster network; see the keys rail \
             and defaultRoute of the plugins"
                .to_owned(),
        ];
        let usual = ["podRPFilter", "vethMTU"];
        let others = self.others.iter().filter(|(key, _)| !usual.contains(key));
        effects.extend(
            others.map(|(key, value)| format!("without the coordinator {key} has no effect: {value}")),
        );
        effects
    }
}

/// Whether a value is none: the controller writes empty texts and lists, too.
fn is_empty(value: &Value) -> bool {
    value == "" || value == false || value.as_array().is_some_and(Vec::is_empty)
}

impl Default for Coordinator {
    fn default() -> Self {
        Self { mode: MODES[0].to_owned(), tune_pod_routes: true, tx_queue_length: 0, others: Vec::new() }
    }
}
