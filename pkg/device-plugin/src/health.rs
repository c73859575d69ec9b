//! Whether a device can be given to a container.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use crate::{Holder, NodeDevice, NodeState, OtherAllocation, PortState, ResourceMode, ResourceSpec};

/// Why a device cannot be given to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnhealthyReason {
    /// Its files cannot be read.
    Unreadable(String),
    /// No selector of its resource matches any more, such as after its driver was replaced.
    Unselected,
    /// It is not bound to a driver.
    NoDriver,
    /// It had an RDMA device, or the resource requires one.
    NoRdma,
    /// Its port, or that of its PF, is down.
    PortDown {
        /// The link or the RDMA device of the port.
        port: String,
    },
    /// The kubelet would give it to a second user.
    InUse(Holder),
    /// A pod has it as another resource.
    OtherAllocation(OtherAllocation),
    /// Pods share it, and the RDMA devices of the node are in exclusive mode.
    ExclusiveMode,
}

impl UnhealthyReason {
    /// Returns the reason as the value of a label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Unselected => "unselected",
            Self::NoDriver => "no_driver",
            Self::NoRdma => "no_rdma",
            Self::PortDown { .. } => "port_down",
            Self::InUse(_) | Self::OtherAllocation(_) => "in_use",
            Self::ExclusiveMode => "exclusive_mode",
        }
    }

    /// Whether the device must be well for a while before it is healthy again. Only what may flap is waited for.
    fn may_flap(&self) -> bool {
        !matches!(self, Self::InUse(_) | Self::OtherAllocation(_))
    }
}

/// Returns why a device cannot be given to a container of a resource; `None` if it can.
pub fn reason(device: &NodeDevice, spec: &ResourceSpec, node: &NodeState) -> Option<UnhealthyReason> {
    let own = own_reason(device, spec.requires_rdma(device));
    let is_ignored =
        |reason: &UnhealthyReason| spec.ignores_port && matches!(reason, UnhealthyReason::PortDown { .. });
    own.filter(|reason| !is_ignored(reason)).or_else(|| match spec.mode {
        ResourceMode::Shared { .. } => node.is_rdma_exclusive.then_some(UnhealthyReason::ExclusiveMode),
        ResourceMode::Exclusive(_) => {
            let resource = spec.name.to_string();
            let allocation = node.device_use.other_allocation(&resource, &device.id);
            let holder = || node.device_use.other_holder(&resource, device).map(UnhealthyReason::InUse);
            allocation.map(UnhealthyReason::OtherAllocation).or_else(holder)
        }
    })
}

/// Returns the reason that the device itself has.
fn own_reason(device: &NodeDevice, requires_rdma: bool) -> Option<UnhealthyReason> {
    if let Some(error) = &device.unreadable {
        return Some(UnhealthyReason::Unreadable(error.clone()));
    }
    if device.function.is_some() && device.driver.is_none() {
        return Some(UnhealthyReason::NoDriver);
    }
    if requires_rdma && !device.is_rdma() {
        return Some(UnhealthyReason::NoRdma);
    }
    // In a pod it has no link and no RDMA device here, which selectors may need.
    let is_in_pod = device.links.is_empty() && device.user_space.is_none();
    let is_rdma_away = device.rdma.is_empty() && !device.char_devices.is_empty();
    if device.is_unselected && !is_in_pod && !is_rdma_away {
        return Some(UnhealthyReason::Unselected);
    }
    match &device.port {
        Some(PortState { name, is_up: false }) => Some(UnhealthyReason::PortDown { port: name.clone() }),
        _ => None,
    }
}

/// The health of devices over time. A device that was healthy and then unhealthy becomes healthy again only after it has had
/// no reason for a while, so that a flapping port does not give pods a device again and again.
#[derive(Debug)]
pub struct HealthHistory {
    hold: Duration,
    devices: BTreeMap<String, DeviceHealth>,
}

/// The health of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DeviceHealth {
    /// Why it is unhealthy, or was before `well_since`.
    reason: Option<UnhealthyReason>,
    /// Since when there is no reason any more.
    well_since: Option<Instant>,
    /// Whether it has been healthy: a VF that was just created is not ready yet, and does not flap.
    was_healthy: bool,
}

/// A change of a device's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthChange {
    /// The device.
    pub id: String,
    /// Why it is unhealthy now; `None` if it is healthy.
    pub reason: Option<UnhealthyReason>,
}

impl HealthHistory {
    /// Creates an empty history; devices are healthy again `hold` after the last reason.
    pub fn new(hold: Duration) -> Self {
        Self { hold, devices: BTreeMap::new() }
    }

    /// Notes the reasons of all devices at a time. Returns the devices whose health has changed. A new device is healthy if it
    /// has no reason.
    pub fn update(
        &mut self,
        now: Instant,
        reasons: impl IntoIterator<Item = (String, Option<UnhealthyReason>)>,
    ) -> Vec<HealthChange> {
        let mut before = std::mem::take(&mut self.devices);
        let mut changes = Vec::new();
        for (id, reason) in reasons {
            let former = before.remove(&id);
            let former_reason = former.as_ref().and_then(|health| health.reason.clone());
            let health = self.next(now, former, reason);
            if health.reason != former_reason {
                changes.push(HealthChange { id: id.clone(), reason: health.reason.clone() });
            }
            self.devices.insert(id, health);
        }
        changes
    }

    fn next(
        &self,
        now: Instant,
        former: Option<DeviceHealth>,
        reason: Option<UnhealthyReason>,
    ) -> DeviceHealth {
        let healthy = DeviceHealth { reason: None, well_since: None, was_healthy: true };
        let was_healthy = former.as_ref().is_some_and(|former| former.was_healthy);
        match (reason, former) {
            (Some(reason), _) => DeviceHealth { reason: Some(reason), well_since: None, was_healthy },
            (None, Some(DeviceHealth { reason: Some(last), well_since, .. }))
                if was_healthy && last.may_flap() =>
            {
                let well_since = well_since.unwrap_or(now);
                if now.duration_since(well_since) >= self.hold {
                    return healthy;
                }
                DeviceHealth { reason: Some(last), well_since: Some(well_since), was_healthy }
            }
            (None, _) => healthy,
        }
    }

    /// Returns whether a device is healthy. An unknown one is not.
    pub fn is_healthy(&self, id: &str) -> bool {
        self.devices.get(id).is_some_and(|health| health.reason.is_none())
    }

    /// Returns why a device is unhealthy.
    pub fn reason(&self, id: &str) -> Option<&UnhealthyReason> {
        self.devices.get(id)?.reason.as_ref()
    }

    /// Returns the devices that are unhealthy, with their reasons.
    pub fn unhealthy(&self) -> impl Iterator<Item = (&str, &UnhealthyReason)> {
        self.devices.iter().filter_map(|(id, health)| Some((id.as_str(), health.reason.as_ref()?)))
    }

    /// Returns when a device may become healthy again, if no reason appears.
    pub fn next_change(&self) -> Option<Instant> {
        self.devices.values().filter_map(|health| Some(health.well_since? + self.hold)).min()
    }
}

impl fmt::Display for UnhealthyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "it does not answer: {error}"),
            Self::Unselected => f.write_str("no selector of its resource matches it any more"),
            Self::NoDriver => f.write_str("it is not bound to a driver"),
            Self::NoRdma => {
                f.write_str("it has no RDMA device: its driver has removed it, or does not create one")
            }
            Self::PortDown { port } => write!(f, "the port of {port} is down"),
            Self::InUse(holder) => {
                write!(f, "{holder} has it, and the kubelet has not allocated it to that")
            }
            Self::OtherAllocation(allocation) => allocation.fmt(f),
            Self::ExclusiveMode => f.write_str(
                "pods cannot share it, because the RDMA devices of this node are in exclusive mode: \
                 silkrail mode set shared --persist",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use sysfs::UserSpaceNodes;

    use super::*;
    use crate::{Config, device::fixture::vf};

    const HOLD: Duration = Duration::from_secs(5);

    fn down() -> Option<UnhealthyReason> {
        Some(UnhealthyReason::PortDown { port: "p0".into() })
    }

    struct Timeline {
        history: HealthHistory,
        start: Instant,
    }

    impl Timeline {
        fn new() -> Self {
            Self { history: HealthHistory::new(HOLD), start: Instant::now() }
        }

        /// Notes the reason of the device at a time in milliseconds. Returns whether it is healthy, and the number of changes.
        fn at(&mut self, milliseconds: u64, reason: Option<UnhealthyReason>) -> (bool, usize) {
            let now = self.start + Duration::from_millis(milliseconds);
            let changes = self.history.update(now, [("a".to_owned(), reason)]);
            (self.history.is_healthy("a"), changes.len())
        }
    }

    #[test]
    fn a_device_is_unhealthy_at_once_and_healthy_after_a_while() {
        let mut line = Timeline::new();
        assert_eq!(line.at(0, None), (true, 0), "a new device");
        assert_eq!(line.at(1000, down()), (false, 1));
        assert_eq!(line.at(2000, None), (false, 0));
        assert_eq!(line.history.next_change(), Some(line.start + Duration::from_secs(7)));
        assert_eq!(line.at(6999, None), (false, 0));
        assert_eq!(line.history.reason("a"), down().as_ref());
        assert_eq!(line.at(7000, None), (true, 1));
        assert_eq!(line.history.next_change(), None);
    }

    #[test]
    fn a_flapping_port_stays_unhealthy_without_further_changes() {
        let mut line = Timeline::new();
        line.at(0, None);
        let changes: usize =
            (1..100).map(|step| line.at(step * 100, if step % 2 == 1 { down() } else { None }).1).sum();
        assert_eq!((changes, line.history.is_healthy("a")), (1, false));
    }

    #[test]
    fn a_new_device_with_a_reason_is_unhealthy_and_a_removed_one_is_forgotten() {
        let mut line = Timeline::new();
        assert_eq!(line.at(0, Some(UnhealthyReason::NoDriver)), (false, 1));
        assert_eq!(line.history.update(line.start + HOLD, []), []);
        assert!(!line.history.is_healthy("a"));
        assert_eq!(line.at(6000, None), (true, 0));
    }

    #[test]
    fn a_new_device_is_healthy_as_soon_as_it_is_ready() {
        let mut line = Timeline::new();
        assert_eq!(line.at(0, Some(UnhealthyReason::NoDriver)), (false, 1));
        assert_eq!(line.at(100, Some(UnhealthyReason::NoRdma)), (false, 1));
        assert_eq!(line.at(200, None), (true, 1));
        assert_eq!(line.at(300, down()), (false, 1));
        assert_eq!(line.at(400, None), (false, 0), "now it may flap");
    }

    #[test]
    fn a_returned_device_is_healthy_at_once() {
        let mut line = Timeline::new();
        line.at(0, None);
        assert_eq!(line.at(100, Some(UnhealthyReason::InUse(Holder::Unknown))), (false, 1));
        assert_eq!(line.at(200, None), (true, 1));
    }

    #[test]
    fn each_device_has_its_own_health() {
        let (mut history, start) = (HealthHistory::new(HOLD), Instant::now());
        let mut at = |milliseconds, reasons: [Option<UnhealthyReason>; 2]| {
            let now = start + Duration::from_millis(milliseconds);
            let changes = history.update(now, ["a", "b"].map(str::to_owned).into_iter().zip(reasons));
            let unhealthy: Vec<_> = history.unhealthy().map(|(id, _)| id.to_owned()).collect();
            (changes.len(), unhealthy.concat(), history.next_change().map(|at| at - start))
        };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(at(0, [None, None]), (0, String::new(), None));
        assert_eq!(at(1000, [down(), down()]), (2, "ab".into(), None));
        assert_eq!(at(2000, [down(), None]), (0, "ab".into(), seconds(7)));
        assert_eq!(at(3000, [None, None]), (0, "ab".into(), seconds(7)), "the first of them");
        assert_eq!(at(7000, [None, None]), (1, "a".into(), seconds(8)));
        assert_eq!(at(8000, [None, None]), (1, String::new(), None));
        // The next failure begins a time of its own.
        assert_eq!(at(9000, [down(), None]), (1, "a".into(), None));
        assert_eq!(at(10_000, [None, None]), (0, "a".into(), seconds(15)));
    }

    #[test]
    fn another_reason_is_a_change() {
        let mut line = Timeline::new();
        line.at(0, down());
        assert_eq!(line.at(1, Some(UnhealthyReason::NoRdma)), (false, 1));
    }

    #[test]
    fn what_a_resource_requires_of_its_devices() {
        let resource = |text: &str| Config::parse(text).unwrap().resources.remove(0);
        let exclusive = |selectors: &str| {
            resource(&format!("resourceList: [{{resourceName: vf, selectors: {selectors}}}]"))
        };
        let shared = resource("configList: [{resourceName: hca, rdmaHcaMax: 1, devices: [p0]}]");
        let without = NodeDevice { rdma: Vec::new(), char_devices: Vec::new(), ..vf("p0", 0) };
        let down = NodeDevice { port: Some(PortState { name: "p0".into(), is_up: false }), ..vf("p0", 0) };
        let (free, mode) =
            (NodeState::default(), NodeState { is_rdma_exclusive: true, ..NodeState::default() });
        for (device, spec, node, expected) in [
            (&without, &exclusive("[{isRdma: true}, {isRdma: true}]"), &free, Some("no_rdma")),
            (&without, &exclusive("[{isRdma: true}, {isRdma: false}]"), &free, None),
            (&without, &exclusive("[{isRdma: false}, {isRdma: true}]"), &free, None),
            (&without, &shared, &free, Some("no_rdma")),
            (&vf("p0", 0), &shared, &free, None),
            (&vf("p0", 0), &shared, &mode, Some("exclusive_mode")),
            (&vf("p0", 0), &exclusive("[{}]"), &mode, None),
            (&down, &exclusive("[{}]"), &free, Some("port_down")),
            (&down, &exclusive("[{}], health: {port: ignore}"), &free, None),
            // What is wrong with the device itself comes first.
            (&without, &shared, &mode, Some("no_rdma")),
        ] {
            assert_eq!(reason(device, spec, node).map(|it| it.label()), expected, "{spec:?} {node:?}");
        }
    }

    #[test]
    fn the_reasons_of_a_device() {
        let healthy = NodeDevice { port: Some(PortState { name: "p0".into(), is_up: true }), ..vf("p0", 0) };
        assert_eq!(own_reason(&healthy, true), None);
        let in_pod = NodeDevice { rdma: Vec::new(), links: Vec::new(), ..healthy.clone() };
        assert_eq!(own_reason(&in_pod, true), None, "a device of a running pod is healthy");
        let unbound = NodeDevice { driver: None, ..healthy.clone() };
        assert_eq!(own_reason(&unbound, true), Some(UnhealthyReason::NoDriver));
        let without = NodeDevice { rdma: Vec::new(), char_devices: Vec::new(), ..healthy.clone() };
        assert_eq!(
            (own_reason(&without, true), own_reason(&without, false)),
            (Some(UnhealthyReason::NoRdma), None)
        );
        let port =
            NodeDevice { port: Some(PortState { name: "p0".into(), is_up: false }), ..healthy.clone() };
        assert_eq!(own_reason(&port, false), down());
        assert_eq!(down().unwrap().to_string(), "the port of p0 is down");
        let unselected = NodeDevice { is_unselected: true, ..healthy.clone() };
        let user_space = Some(UserSpaceNodes::default());
        let vfio = NodeDevice { user_space, links: Vec::new(), ..unselected.clone() };
        let of_pod = NodeDevice { links: Vec::new(), ..unselected.clone() };
        let rdma_of_pod = NodeDevice { rdma: Vec::new(), ..unselected.clone() };
        for (device, expected) in [
            (unselected, Some(UnhealthyReason::Unselected)),
            (vfio, Some(UnhealthyReason::Unselected)),
            (of_pod, None),
            (rdma_of_pod, None),
        ] {
            assert_eq!(own_reason(&device, false), expected, "{device:?}");
        }
        let dead = NodeDevice { unreadable: Some("Input/output error".into()), ..vf("p0", 0) };
        assert_eq!(own_reason(&dead, true).unwrap().to_string(), "it does not answer: Input/output error");
        let software = NodeDevice { function: None, driver: None, port: None, ..vf("p0", 0) };
        assert_eq!(own_reason(&software, true), None);
    }
}
