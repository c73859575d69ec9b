//! Faults that the kernel log of the last hours contains.

use crate::{
    Finding, FindingId, NodeFacts, Severity,
    facts::kernel_messages::{KernelMessages, MessageKind},
};

const TIMEOUT: FindingId =
    FindingId::new("kernel-command-timeout", "The firmware of a card did not answer a command of its driver");
const RESET: FindingId =
    FindingId::new("kernel-device-reset", "A driver found its card or its firmware broken, or reset it");
const POWER: FindingId =
    FindingId::new("kernel-slot-power", "The PCIe slot cannot deliver the power that a card needs");
const MODULE: FindingId =
    FindingId::new("kernel-module-error", "A card reported an error of a module or a cable");
const HOT: FindingId = FindingId::new("kernel-device-hot", "A card reported a temperature above its limit");
const PCIE: FindingId = FindingId::new(
    "kernel-pcie-error",
    "The kernel logged PCIe errors of a card or a GPU that lost a transaction",
);
const FLAPS: FindingId =
    FindingId::new("kernel-link-flaps", "The link of a card went down several times in the last hours");
const IOMMU: FindingId =
    FindingId::new("kernel-iommu-fault", "The IOMMU refused an access of a card or a GPU to memory");
const CM: FindingId =
    FindingId::new("kernel-cm-timeout", "A connection of the RDMA connection manager did not end");
const OOM: FindingId = FindingId::new(
    "kernel-out-of-memory",
    "The kernel killed a process to get memory: memory that is pinned for RDMA cannot be reclaimed",
);

pub(super) const IDS: &[FindingId] = &[TIMEOUT, RESET, POWER, MODULE, HOT, PCIE, FLAPS, IOMMU, CM, OOM];

/// One carrier is lost when a switch or a node reboots.
const FLAPS_THAT_ARE_NONE: u32 = 2;

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    found.extend(facts.kernel_messages.iter().filter_map(|messages| judge(facts, messages)));
}

/// Whether a message is about a card with RDMA or about a GPU.
fn is_examined(facts: &NodeFacts, device: &str) -> bool {
    let card = facts.function(device).is_some_and(|function| {
        // A driver that has lost its device has neither.
        function.has_rdma() || matches!(function.driver.as_deref(), Some("mlx5_core"))
    });
    card || facts.gpus.iter().any(|gpu| gpu.address == device)
}

/// No message is an error: it is in the log for hours after the node was mended. That a device does not work now is the finding
/// of another rule.
fn judge(facts: &NodeFacts, messages: &KernelMessages) -> Option<Finding> {
    let KernelMessages { kind, device, count, last, text } = messages;
    if device.as_deref().is_some_and(|device| !is_examined(facts, device)) {
        return None;
    }
    let is_global = matches!(kind, MessageKind::CmTimeout | MessageKind::OutOfMemory);
    let object = match device {
        Some(device) => device.as_str(),
        None if is_global => "kernel",
        None => return None,
    };
    let (id, severity, what, fix) = match kind {
        MessageKind::CommandTimeout => (
            TIMEOUT,
            Severity::Warning,
            "the firmware did not answer a command of the driver",
            "drain the node, and run: silkrail recover; if it continues, update the firmware or replace the card",
        ),
        MessageKind::DeviceReset => (
            RESET,
            Severity::Warning,
            "the driver found the card or its firmware broken, or reset it",
            "drain the node, and run: silkrail recover; if it continues, update the firmware or replace the card",
        ),
        MessageKind::SlotPower => (
            POWER,
            Severity::Warning,
            "the slot cannot deliver the power that the card needs",
            "use another slot, or connect the auxiliary power of the card",
        ),
        MessageKind::ModuleError => (
            MODULE,
            Severity::Warning,
            "the card reported an error of a module or a cable",
            "reseat or replace the module or the cable; the text names the error",
        ),
        MessageKind::DeviceHot => (
            HOT,
            Severity::Warning,
            "the card reported a temperature above its limit",
            "check the fans and the airflow of the node",
        ),
        MessageKind::PcieError => (
            PCIE,
            Severity::Warning,
            "the kernel logged PCIe errors that lost a transaction",
            "reseat the card or the riser; if it continues, replace them",
        ),
        MessageKind::LinkDown if *count <= FLAPS_THAT_ARE_NONE => return None,
        MessageKind::LinkDown => (
            FLAPS,
            Severity::Warning,
            "the link went down",
            "check the cable, the module and the switch port; ethtool -S shows errors of the line",
        ),
        MessageKind::IommuFault => (
            IOMMU,
            Severity::Warning,
            "the IOMMU refused an access to memory",
            "update driver and firmware; with GPUDirect, see acs-redirects and iommu-translates",
        ),
        MessageKind::CmTimeout => (
            CM,
            Severity::Info,
            "a connection of the connection manager did not end",
            "a peer that died explains it; if it continues, update the kernel",
        ),
        MessageKind::OutOfMemory => (
            OOM,
            Severity::Info,
            "the kernel killed a process to get memory",
            "raise the memory limit of the pod, or pin less: registered buffers count and cannot be reclaimed",
        ),
    };
    let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
    let when =
        facts.kernel.booted.map_or(format!("{last} s after the boot"), |boot| utc::rfc3339(boot + last));
    let finding = id.found(severity, object, format!("{what}: {times} in the last hours, last at {when}"));
    Some(finding.because(format!("dmesg: {text}")).fix(fix))
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use super::*;
    use crate::facts::functions::Gpu;

    fn logged(kind: MessageKind, device: Option<&str>, count: u32) -> KernelMessages {
        KernelMessages { kind, device: device.map(str::to_owned), count, last: 62, text: "text".into() }
    }

    #[test]
    fn each_kind_of_message_has_a_finding() {
        let card = Some("0000:af:00.0");
        for (kind, device, expected) in [
            (MessageKind::CommandTimeout, card, "warning kernel-command-timeout 0000:af:00.0"),
            (MessageKind::DeviceReset, card, "warning kernel-device-reset 0000:af:00.0"),
            (MessageKind::SlotPower, card, "warning kernel-slot-power 0000:af:00.0"),
            (MessageKind::ModuleError, card, "warning kernel-module-error 0000:af:00.0"),
            (MessageKind::DeviceHot, card, "warning kernel-device-hot 0000:af:00.0"),
            (MessageKind::PcieError, card, "warning kernel-pcie-error 0000:af:00.0"),
            (MessageKind::LinkDown, card, "warning kernel-link-flaps 0000:af:00.0"),
            (MessageKind::IommuFault, card, "warning kernel-iommu-fault 0000:af:00.0"),
            (MessageKind::CmTimeout, None, "info kernel-cm-timeout kernel"),
            (MessageKind::OutOfMemory, None, "info kernel-out-of-memory kernel"),
        ] {
            assert_eq!(with(|facts| facts.kernel_messages = vec![logged(kind, device, 3)]), [expected]);
        }
    }

    #[test]
    fn other_devices_and_a_single_loss_of_the_carrier_are_no_finding() {
        let disk = logged(MessageKind::PcieError, Some("0000:01:00.0"), 3);
        let unknown = logged(MessageKind::IommuFault, None, 3);
        let reboot_of_the_switch = logged(MessageKind::LinkDown, Some("0000:af:00.0"), 2);
        let none = with(|facts| facts.kernel_messages = vec![disk.clone(), unknown, reboot_of_the_switch]);
        assert!(none.is_empty(), "{none:?}");
        let gpu = with(|facts| {
            facts.gpus = vec![Gpu { address: "0000:01:00.0".into(), numa_node: Some(0), ..Gpu::default() }];
            facts.kernel_messages = vec![disk];
        });
        assert_eq!(gpu, ["warning kernel-pcie-error 0000:01:00.0"]);
        let of_function = |driver: &'static str| {
            with(move |facts| {
                let function = &mut facts.functions[3];
                function.rdma.clear();
                function.uverbs.clear();
                function.driver = Some(driver.into());
                facts.kernel_messages = vec![logged(MessageKind::DeviceReset, Some("0000:b0:00.1"), 1)];
            })
        };
        let has = |found: Vec<String>| found.contains(&"warning kernel-device-reset 0000:b0:00.1".to_owned());
        // Its driver has lost the device.
        assert!(has(of_function("mlx5_core")) && !has(of_function("iavf")));
    }

    #[test]
    fn a_finding_has_the_number_and_the_time_of_the_last() {
        let found = with(|facts| {
            facts.kernel.booted = Some(1_795_161_600);
            facts.kernel_messages = vec![logged(MessageKind::CommandTimeout, Some("0000:af:00.0"), 2)];
        });
        assert_eq!(found, ["warning kernel-command-timeout 0000:af:00.0"]);
    }
}
