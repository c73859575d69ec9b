//! The devices that silkraild offers to the kubelet.

use crate::{Finding, FindingId, NodeFacts};

const INVALID: FindingId = FindingId::new(
    "resource-file-invalid",
    "A file with resources for the kubelet has an invalid key or value",
);
const NO_DEVICE: FindingId =
    FindingId::new("resource-without-device", "A resource for the kubelet has no device on this node");
const UNHEALTHY: FindingId =
    FindingId::new("resource-device-unhealthy", "The kubelet cannot give a device of a resource to a pod");

pub(super) const IDS: &[FindingId] = &[INVALID, NO_DEVICE, UNHEALTHY];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for invalid in &facts.resources.invalid {
        let finding = INVALID.error(&invalid.file, "a key or value is invalid");
        found.push(finding.because(&invalid.what).fix("correct the file, and restart silkraild"));
    }
    for resource in &facts.resources.offered {
        let name = &resource.name;
        if resource.unhealthy.is_empty() && resource.healthy == 0 {
            let finding =
                NO_DEVICE.info(name, "no device of this node matches the selectors of the resource");
            found.push(
                finding
                    .fix("if there should be one: silkrail devices --all shows the keys that do not match"),
            );
        }
        for device in &resource.unhealthy {
            // The reason is the one that silkraild tells the kubelet's users.
            let summary = format!("device of {name} is unhealthy: {}", device.reason);
            let finding = match resource.healthy {
                0 => UNHEALTHY
                    .error(&device.id, summary)
                    .because(format!("{name} has no healthy device: no pod gets it")),
                healthy => UNHEALTHY
                    .warning(&device.id, summary)
                    .because(format!("{name} has {healthy} healthy devices")),
            };
            found.push(finding.fix("remove the cause; silkrail devices shows when the device is healthy"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, with};
    use crate::{InvalidResource, OfferedResource, ResourceFacts, Severity, UnhealthyDevice};

    fn offered(healthy: usize, unhealthy: &[&str]) -> ResourceFacts {
        let device =
            |id: &&str| UnhealthyDevice { id: (*id).into(), reason: "the port of p0 is down".into() };
        let unhealthy = unhealthy.iter().map(device).collect();
        ResourceFacts {
            offered: vec![OfferedResource { name: "a.io/vf".into(), healthy, unhealthy }],
            invalid: vec![],
        }
    }

    #[test]
    fn an_unhealthy_device_is_an_error_if_no_pod_gets_another_one() {
        for (healthy, severity) in [(0, Severity::Error), (1, Severity::Warning)] {
            let report = findings(|facts| facts.resources = offered(healthy, &["0000:af:00.2"]));
            let [finding] = &report[..] else { panic!("{report:?}") };
            assert_eq!((finding.severity, finding.object.as_str()), (severity, "0000:af:00.2"));
            assert_eq!(finding.summary, "device of a.io/vf is unhealthy: the port of p0 is down");
        }
    }

    #[test]
    fn a_resource_without_a_device_is_info_and_an_invalid_file_an_error() {
        assert_eq!(with(|facts| facts.resources = offered(0, &[])), ["resource-without-device a.io/vf"]);
        assert!(with(|facts| facts.resources = offered(2, &[])).is_empty());
        let invalid = InvalidResource { file: "/r.yaml".into(), what: "line 3: unknown key".into() };
        let facts = ResourceFacts { invalid: vec![invalid], offered: vec![] };
        assert_eq!(with(|it| it.resources = facts), ["resource-file-invalid /r.yaml"]);
    }
}
