//! The pod map, and the devices that it lists.

use podmap::{AttachMode, Entry};

use crate::{Finding, FindingId, NodeFacts};

const BROKEN: FindingId =
    FindingId::new("podmap-broken", "An entry of the pod map is invalid: the metrics do not contain its pod");
const ON_HOST: FindingId = FindingId::new(
    "podmap-device-at-home",
    "The pod map assigns a device to a pod, but the device is in the host namespace",
);
const GONE: FindingId = FindingId::new(
    "podmap-device-gone",
    "The pod map assigns a device to a pod, but the device does not exist",
);
const UNMAPPED: FindingId = FindingId::new(
    "device-elsewhere",
    "The RDMA device of a VF is in another namespace, and the pod map has no entry for it",
);

pub(super) const IDS: &[FindingId] = &[BROKEN, ON_HOST, GONE, UNMAPPED];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for why in &facts.pod_map.broken {
        let path = why.split(": ").next().unwrap_or(why);
        let finding = BROKEN.warning(path, "the entry is invalid: the metrics do not contain its pod");
        found.push(
            finding
                .because(why)
                .fix("run: silkrail gc; it reports whether resources of the attachment remain"),
        );
    }
    let exclusive = || facts.pod_map.entries.iter().filter(|entry| entry.rdma.mode == AttachMode::Exclusive);
    found.extend(exclusive().filter_map(|entry| judge(facts, entry)));
    // uverbs without an RDMA device: the device is in another namespace.
    for function in
        facts.functions.iter().filter(|function| function.rdma.is_empty() && !function.uverbs.is_empty())
    {
        let mapped =
            exclusive().any(|entry| entry.rdma.pci.is_some_and(|pci| pci.to_string() == function.address));
        if !mapped {
            let finding = UNMAPPED.info(
                &function.address,
                "its RDMA device is in another network namespace, and the pod map has no entry for it",
            );
            found.push(
                finding
                    .because(format!("{} exists, but no RDMA device", function.uverbs.join(", ")))
                    .because("another plugin (rdma-cni, ib-sriov-cni) may have moved the device"),
            );
        }
    }
}

fn judge(facts: &NodeFacts, entry: &Entry) -> Option<Finding> {
    let pci = entry.rdma.pci?.to_string();
    let pod = entry
        .pod
        .as_ref()
        .map_or(entry.container.sandbox_id.clone(), |pod| format!("{}/{}", pod.namespace, pod.name));
    let Some(function) = facts.function(&pci) else {
        if facts.functions.is_empty() {
            return None; // sysfs shows no PCI functions
        }
        let finding =
            GONE.error(&pci, format!("the pod map assigns it to {pod}, but there is no such PCI device"));
        return Some(finding.because(format!("interface {} of {pod}", entry.network.ifname)).fix(
            "the VF was removed while the pod was running (sriov_numvfs, driver reload): delete the pod",
        ));
    };
    let device = function.rdma.first()?;
    let finding = ON_HOST.warning(
        &pci,
        format!("the pod map assigns its RDMA device to {pod}, but {device} is in the host namespace"),
    );
    Some(
        finding
            .because(format!(
                "interface {} of {pod}, in {}",
                entry.network.ifname,
                entry.container.netns_path.display()
            ))
            .fix(
                "run: silkrail gc; it reports whether the pod is gone; a running pod has no RDMA: delete it",
            ),
    )
}

#[cfg(test)]
mod tests {
    use identifiers::Attachment;
    use podmap::{AttachMode, Entry};

    use super::super::testing::with;
    use crate::NodeFacts;

    fn entry(facts: &mut NodeFacts, pci: &str) {
        let attachment = Attachment { container_id: "c1".parse().unwrap(), ifname: "net1".parse().unwrap() };
        let mut entry = Entry::new("rdma", attachment);
        (entry.rdma.mode, entry.rdma.pci) = (AttachMode::Exclusive, Some(pci.parse().unwrap()));
        facts.pod_map.entries.push(entry);
    }

    #[test]
    fn a_device_of_a_pod_is_not_in_the_host_namespace() {
        assert_eq!(
            with(|facts| entry(facts, "0000:af:00.1")),
            ["warning podmap-device-at-home 0000:af:00.1"]
        );
        let in_the_pod = with(|facts| {
            entry(facts, "0000:af:00.1");
            facts.functions[2].rdma.clear();
        });
        assert!(in_the_pod.is_empty(), "{in_the_pod:?}");
        let shared = with(|facts| {
            entry(facts, "0000:af:00.1");
            facts.pod_map.entries[0].rdma.mode = AttachMode::Shared;
        });
        assert!(shared.is_empty(), "{shared:?}");
    }

    #[test]
    fn a_device_of_a_pod_exists() {
        assert_eq!(with(|facts| entry(facts, "0000:ff:00.1")), ["error podmap-device-gone 0000:ff:00.1"]);
    }

    #[test]
    fn a_device_in_another_namespace_has_an_entry() {
        assert_eq!(with(|facts| facts.functions[2].rdma.clear()), ["info device-elsewhere 0000:af:00.1"]);
        let of_other = with(|facts| {
            facts.functions[2].rdma.clear();
            facts.functions[3].rdma.clear();
            entry(facts, "0000:b0:00.1");
        });
        assert_eq!(of_other, ["info device-elsewhere 0000:af:00.1"]);
    }

    #[test]
    fn an_invalid_entry_is_reported() {
        let found = with(|facts| facts.pod_map.broken.push("/run/x.json: invalid JSON".into()));
        assert_eq!(found, ["warning podmap-broken /run/x.json"]);
    }
}
