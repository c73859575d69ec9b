//! The devices that silkraild offers to the kubelet.

use std::collections::BTreeMap;

use crate::{Finding, FindingId, NodeFacts, OfferedResource};

const INVALID: FindingId = FindingId::new(
    "resource-file-invalid",
    "The file with resources for the kubelet has an invalid key or value",
);
const NOT_SERVED: FindingId = FindingId::new(
    "resource-not-served",
    "A resource for the kubelet is configured, and silkraild does not serve it",
);
const NO_DEVICE: FindingId =
    FindingId::new("resource-without-device", "A resource for the kubelet has no device on this node");
const UNHEALTHY: FindingId =
    FindingId::new("resource-device-unhealthy", "The kubelet cannot give a device of a resource to a pod");

pub(super) const IDS: &[FindingId] = &[INVALID, NOT_SERVED, NO_DEVICE, UNHEALTHY];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for invalid in &facts.resources.invalid {
        let finding = INVALID.error(&invalid.file, "a key or value is invalid");
        found.push(finding.because(&invalid.what).fix("correct the file, and restart silkraild"));
    }
    for resource in &facts.resources.offered {
        if resource.is_served == Some(false) {
            let finding = NOT_SERVED.warning(&resource.name, "silkraild does not serve the resource");
            found.push(
                finding
                    .fix("run silkraild with --device-plugin and the file, or remove the resource from it"),
            );
        } else if resource.unhealthy.is_empty() && resource.healthy == 0 {
            let finding = NO_DEVICE
                .info(&resource.name, "no device of this node matches the selectors of the resource");
            let fix = "if there should be one: silkrail devices --all shows the keys that do not match";
            found.push(finding.fix(fix));
        } else {
            examine_health(resource, found);
        }
    }
}

/// One finding for each reason: all VFs of a PF have the same port. The reason is the one that silkraild logs.
fn examine_health(resource: &OfferedResource, found: &mut Vec<Finding>) {
    let name = &resource.name;
    let mut devices: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for device in &resource.unhealthy {
        devices.entry(&device.reason).or_default().push(device.id.as_str());
    }
    for (reason, devices) in devices {
        let summary = format!("{} of its devices cannot be given to pods: {reason}", devices.len());
        let finding = match resource.healthy {
            0 => UNHEALTHY
                .error(name, summary)
                .because("the resource has no healthy device: pods do not get it"),
            healthy => UNHEALTHY.warning(name, summary).because(format!("healthy devices: {healthy}")),
        };
        let finding = finding.because(format!("unhealthy: {}", devices.join(", ")));
        found.push(finding.fix("remove the cause; silkrail devices shows when the devices are healthy"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::{InvalidResource, OfferedResource, ResourceFacts, UnhealthyDevice};

    fn offered(healthy: usize, unhealthy: &[(&str, &str)]) -> ResourceFacts {
        let device = |&(id, reason): &(&str, &str)| UnhealthyDevice { id: id.into(), reason: reason.into() };
        let unhealthy = unhealthy.iter().map(device).collect();
        let resource = OfferedResource { name: "a.io/vf".into(), is_served: Some(true), healthy, unhealthy };
        ResourceFacts { offered: vec![resource], ..ResourceFacts::default() }
    }

    #[test]
    fn an_unhealthy_device_is_an_error_if_pods_get_no_other_one() {
        for (healthy, severity) in [(0, "error"), (1, "warning")] {
            let devices = [
                ("a", "the port of p0 is down"),
                ("b", "it has no RDMA device"),
                ("c", "the port of p0 is down"),
            ];
            // One for each reason.
            let found = with(|facts| facts.resources = offered(healthy, &devices));
            let expected = format!("{severity} resource-device-unhealthy a.io/vf");
            assert_eq!(found, [expected.clone(), expected]);
        }
    }

    #[test]
    fn a_resource_without_a_device_is_info_and_one_that_is_not_served_a_warning() {
        assert_eq!(with(|facts| facts.resources = offered(0, &[])), ["info resource-without-device a.io/vf"]);
        assert!(with(|facts| facts.resources = offered(2, &[])).is_empty());
        let mut not_served = offered(0, &[("a", "it is not bound to a driver")]);
        not_served.offered[0].is_served = Some(false);
        assert_eq!(with(|facts| facts.resources = not_served), ["warning resource-not-served a.io/vf"]);
    }

    #[test]
    fn an_invalid_file_is_an_error_and_what_is_unknown_is_not_healthy() {
        let invalid = vec![InvalidResource { file: "/r.yaml".into(), what: "line 3: unknown key".into() }];
        let facts = ResourceFacts { invalid, ..ResourceFacts::default() };
        assert_eq!(with(|it| it.resources = facts), ["error resource-file-invalid /r.yaml"]);
    }
}
