//! The pod map and the devices it tells of.

use podmap::{AttachMode, Entry};

use crate::{Finding, FindingId, NodeFacts};

const BROKEN: FindingId = FindingId::new(
    "podmap-broken",
    "An entry of the pod map cannot be understood: metrics leave its pod out",
);
const AT_HOME: FindingId = FindingId::new(
    "podmap-device-at-home",
    "The pod map says that a device is in a pod, and it is on the node",
);
const GONE: FindingId = FindingId::new(
    "podmap-device-gone",
    "The pod map says that a pod has a device that the node does not have",
);
const UNMAPPED: FindingId = FindingId::new(
    "device-elsewhere",
    "A VF's RDMA device is in another namespace, and the pod map does not say whose",
);

pub(super) const IDS: &[FindingId] = &[BROKEN, AT_HOME, GONE, UNMAPPED];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for why in &facts.pod_map.broken {
        let path = why.split(": ").next().unwrap_or(why);
        let finding = BROKEN.warning(path, "it cannot be understood: metrics leave its pod out");
        found.push(finding.because(why).fix("silkrail gc says whether anything of its attachment is left"));
    }
    let exclusive = || facts.pod_map.entries.iter().filter(|entry| entry.rdma.mode == AttachMode::Exclusive);
    found.extend(exclusive().filter_map(|entry| judge(facts, entry)));
    // Who sees another namespace's devices sees no pod's as missing.
    for function in
        facts.functions.iter().filter(|function| function.rdma.is_empty() && !function.uverbs.is_empty())
    {
        let mapped =
            exclusive().any(|entry| entry.rdma.pci.is_some_and(|pci| pci.to_string() == function.address));
        if !mapped {
            let finding = UNMAPPED.info(
                &function.address,
                "its RDMA device is in another network namespace, and the pod map does not say whose",
            );
            found.push(
                finding
                    .because(format!("{} is here, and no device of it", function.uverbs.join(", ")))
                    .because("another plugin (rdma-cni, ib-sriov-cni) may have moved it"),
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
            return None; // no PCI here to look at
        }
        let finding =
            GONE.error(&pci, format!("the pod map says that {pod} has it, and there is no such PCI device"));
        return Some(
            finding
                .because(format!("interface {} of {pod}", entry.network.ifname))
                .fix("the VF was taken away under the pod (sriov_numvfs, driver reload): delete the pod"),
        );
    };
    let device = function.rdma.first()?;
    let finding = AT_HOME.warning(
        &pci,
        format!("the pod map says that {pod} has its RDMA device, and {device} is on the node"),
    );
    Some(
        finding
            .because(format!(
                "interface {} of {pod}, in {}",
                entry.network.ifname,
                entry.container.netns_path.display()
            ))
            .fix("silkrail gc shows whether the pod is gone; if it lives, delete it: it has no RDMA"),
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
    fn a_device_of_a_pod_is_not_on_the_node() {
        assert_eq!(with(|facts| entry(facts, "0000:af:00.1")), ["podmap-device-at-home 0000:af:00.1"]);
        let in_the_pod = with(|facts| {
            entry(facts, "0000:af:00.1");
            facts.functions[2].rdma.clear();
        });
        assert!(in_the_pod.is_empty(), "{in_the_pod:?}");
    }

    #[test]
    fn a_device_of_a_pod_is_on_the_bus() {
        assert_eq!(with(|facts| entry(facts, "0000:ff:00.1")), ["podmap-device-gone 0000:ff:00.1"]);
    }

    #[test]
    fn a_device_that_is_elsewhere_has_an_entry() {
        assert_eq!(with(|facts| facts.functions[2].rdma.clear()), ["device-elsewhere 0000:af:00.1"]);
    }

    #[test]
    fn an_entry_that_cannot_be_understood_is_told_of() {
        let found = with(|facts| facts.pod_map.broken.push("/run/x.json: no JSON".into()));
        assert_eq!(found, ["podmap-broken /run/x.json"]);
    }
}
