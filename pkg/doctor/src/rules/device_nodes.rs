//! Device nodes in `/dev/infiniband`.

use crate::{Finding, FindingId, Known, NodeFacts, facts::nodes::DeviceNode};

const NO_UVERBS: FindingId = FindingId::new(
    "uverbs-node-missing",
    "A uverbs device of the kernel has no device node in /dev/infiniband",
);
const NO_CM: FindingId =
    FindingId::new("rdma-cm-node-missing", "/dev/infiniband/rdma_cm does not exist: RDMA-CM does not work");
const WRONG: FindingId = FindingId::new(
    "device-node-wrong",
    "A file in /dev/infiniband is not the device node of the kernel's device",
);
const CLOSED: FindingId =
    FindingId::new("device-node-permissions", "Only root can open a device node in /dev/infiniband");

pub(super) const IDS: &[FindingId] = &[NO_UVERBS, NO_CM, WRONG, CLOSED];

/// The permissions that processes need that are not root: read and write for others.
const OPEN: u32 = 0o006;

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    if facts.kernel.has_rdma != Known::Value(true) {
        return;
    }
    for node in &facts.nodes.uverbs {
        found.extend(judge(
            node,
            &NO_UVERBS,
            "the kernel has the device, but its device node does not exist: pods cannot use it",
        ));
    }
    let cm = &facts.nodes.rdma_cm;
    if facts.kernel.has_module("rdma_ucm") == Some(false) && cm.number.is_absent() {
        let finding = NO_CM.error(&cm.path, "RDMA-CM does not work: the module rdma_ucm is not loaded");
        found.push(
            finding
                .because("the module rdma_ucm creates /dev/infiniband/rdma_cm")
                .fix("modprobe rdma_ucm, and load it at boot (/etc/modules-load.d)"),
        );
    } else {
        found.extend(judge(cm, &NO_CM, "the kernel has RDMA-CM, but its device node does not exist"));
    }
}

fn judge(node: &DeviceNode, missing: &FindingId, text: &str) -> Option<Finding> {
    let number = node.number.get().map_or("unknown", String::as_str);
    let file = match &node.file {
        Known::Value(file) => file,
        Known::Absent => {
            let fix = "udevadm trigger --action=add --subsystem-match=infiniband_verbs --subsystem-match=misc; is devtmpfs \
                       mounted on /dev?";
            return Some(
                missing.error(&node.path, text).because(format!("its device number is {number}")).fix(fix),
            );
        }
        Known::Unknown => return None,
    };
    if !file.is_device || node.number.is_and(|number| *number != file.number) {
        let is = if file.is_device {
            format!("the device {}", file.number)
        } else {
            "not a character device".to_owned()
        };
        let finding = WRONG.error(&node.path, format!("the file is {is}; expected the device {number}"));
        return Some(finding.because(format!("{}: {is}", node.path)).fix(format!(
            "remove it, and run: udevadm trigger --action=add; was {} created manually?",
            node.path
        )));
    }
    if file.permissions & OPEN != OPEN {
        let finding = CLOSED.warning(&node.path, "only root can open the device");
        return Some(
            finding
                .because(format!("permissions: {:04o}; expected 0666", file.permissions))
                .fix("install rdma-core (its udev rules set 0666), or chmod 0666; opening the device grants no privileges"),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::{modules, node, with};
    use crate::{
        Known, NodeFacts,
        facts::nodes::{DeviceNode, DeviceNodeFile},
    };

    fn uverbs(facts: &mut NodeFacts) -> &mut DeviceNodeFile {
        match &mut facts.nodes.uverbs[0].file {
            Known::Value(file) => file,
            _ => panic!("a healthy node's uverbs0 is there"),
        }
    }

    #[test]
    fn a_missing_device_node_is_an_error() {
        let found = with(|facts| facts.nodes.uverbs[0].file = Known::Absent);
        assert_eq!(found, ["error uverbs-node-missing /dev/infiniband/uverbs0"]);
        let found = with(|facts| facts.nodes.rdma_cm.file = Known::Absent);
        assert_eq!(found, ["error rdma-cm-node-missing /dev/infiniband/rdma_cm"]);
        assert!(with(|facts| facts.nodes.uverbs[0].file = Known::Unknown).is_empty());
        let each = with(|facts| {
            facts.nodes.uverbs.push(DeviceNode { file: Known::Absent, ..node("uverbs1", "231:193") });
            facts.nodes.rdma_cm.file = Known::Absent;
        });
        let missing = "error rdma-cm-node-missing /dev/infiniband/rdma_cm";
        assert_eq!(each, ["error uverbs-node-missing /dev/infiniband/uverbs1", missing]);
    }

    #[test]
    fn without_its_module_rdma_cm_is_missing() {
        let found = with(|facts| {
            modules(facts).remove("rdma_ucm");
            (facts.nodes.rdma_cm.file, facts.nodes.rdma_cm.number) = (Known::Absent, Known::Absent);
        });
        assert_eq!(found, ["error rdma-cm-node-missing /dev/infiniband/rdma_cm"]);
    }

    #[test]
    fn a_wrong_device_node_is_an_error_and_a_restricted_one_a_warning() {
        assert_eq!(
            with(|facts| uverbs(facts).number = "1:3".into()),
            ["error device-node-wrong /dev/infiniband/uverbs0"]
        );
        assert_eq!(
            with(|facts| uverbs(facts).is_device = false),
            ["error device-node-wrong /dev/infiniband/uverbs0"]
        );
        for mode in [0o600, 0o664, 0o662] {
            let found = with(|facts| uverbs(facts).permissions = mode);
            assert_eq!(found, ["warning device-node-permissions /dev/infiniband/uverbs0"]);
        }
    }
}
