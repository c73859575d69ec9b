//! Messages of drivers and of the kernel about faults, from the kernel log.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    host_root::HostRoot,
    kernel_log::{self, KernelRecord},
};

/// What a message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum MessageKind {
    /// A command of a driver to the firmware did not end.
    CommandTimeout,
    /// The driver found its device or its firmware broken, or reset it.
    DeviceReset,
    /// The slot cannot deliver the power that the card needs.
    SlotPower,
    /// The card reports an error of a module.
    ModuleError,
    /// A sensor of the card is above its limit.
    DeviceHot,
    /// A PCIe error that lost a transaction.
    PcieError,
    /// A link has lost its carrier.
    LinkDown,
    /// The IOMMU refused an access to memory.
    IommuFault,
    /// A connection of the connection manager did not end.
    CmTimeout,
    /// The kernel killed a process to get memory.
    OutOfMemory,
}

/// The messages of one kind about one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KernelMessages {
    pub(crate) kind: MessageKind,
    /// The PCI address; of a link the PCI address, too. `None` if the message names no device.
    pub(crate) device: Option<String>,
    pub(crate) count: u32,
    /// The time of the last one, in seconds since boot.
    pub(crate) last: u64,
    /// The text of the last one.
    pub(crate) text: String,
}

/// Older messages are history: the fault was mended, or it logs again.
const RECENT_SECONDS: u64 = 6 * 3600;
/// More objects are not kept.
const MAX_OBJECTS: usize = 256;
/// Longer texts are cut.
const MAX_TEXT_CHARS: usize = 300;
const LOG: &str = "dev/kmsg";

/// Returns the recent messages.
pub(crate) fn read(tree: &HostRoot) -> Vec<KernelMessages> {
    let uptime = tree.text("proc/uptime").into_option();
    let now = uptime.and_then(|text| text.split('.').next()?.parse::<u64>().ok());
    let mut found = BTreeMap::new();
    let path = tree.path(LOG);
    match kernel_log::for_each(&path, |record| add(&mut found, record, now)) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => tree.note_unexamined(tree.shown(&path), error),
    }
    found.into_values().collect()
}

type MessagesByObject = BTreeMap<(MessageKind, Option<String>), KernelMessages>;

/// Adds a record to the messages, if it is one of them and not too old. `now` is in seconds since boot.
fn add(found: &mut MessagesByObject, record: KernelRecord<'_>, now: Option<u64>) {
    let last = record.micros / 1_000_000;
    if now.is_some_and(|now| last + RECENT_SECONDS < now) {
        return;
    }
    let Some(kind) = kind_of(record.text) else { return };
    let device = match kind {
        MessageKind::CmTimeout | MessageKind::OutOfMemory => None,
        _ => pci_address(record.text),
    };
    let key = (kind, device.clone());
    if found.len() >= MAX_OBJECTS && !found.contains_key(&key) {
        return;
    }
    let messages =
        found.entry(key).or_insert(KernelMessages { kind, device, count: 0, last, text: String::new() });
    (messages.count, messages.last) = (messages.count.saturating_add(1), last);
    messages.text = record.text.chars().take(MAX_TEXT_CHARS).collect();
}

/// The driver that logs a message and the parts of its text, as in the sources of Linux 6.12.
type MessagePattern = (MessageKind, &'static str, &'static [&'static str]);

const PATTERNS: [MessagePattern; 15] = [
    // mlx5/core/cmd.c: wait_func(), cb_timeout_handler()
    (MessageKind::CommandTimeout, "mlx5_core ", &["timeout. Will cause a leak of a command resource"]),
    // bnxt_re/qplib_rcfw.c: __bnxt_qplib_rcfw_send_message()
    (MessageKind::CommandTimeout, "bnxt_", &["cmdq[", "]=", " timedout ("]),
    // mlx5/core/health.c: poll_health()
    (MessageKind::DeviceReset, "mlx5_core ", &["device's health compromised"]),
    (MessageKind::DeviceReset, "mlx5_core ", &["Fatal error ", " detected"]),
    // bnxt_en/bnxt.c: bnxt_async_event_process(). A solicited reset is an administrator's.
    (MessageKind::DeviceReset, "bnxt_en ", &["Fatal firmware reset event, data1: "]),
    (MessageKind::DeviceReset, "bnxt_en ", &["Non-fatal firmware reset event, data1: "]),
    // irdma/main.c: irdma_request_reset()
    (MessageKind::DeviceReset, "", &["irdma", "Requesting a reset"]),
    // mlx5/core/events.c: mlx5_pcie_event(), port_module(), temp_warn()
    (MessageKind::SlotPower, "mlx5_core ", &["Detected insufficient power on the PCIe slot ("]),
    (MessageKind::ModuleError, "mlx5_core ", &["Port module event[error]: module "]),
    (MessageKind::DeviceHot, "mlx5_core ", &["High temperature on sensors with bit set"]),
    // pci/pcie/aer.c: aer_print_error(). The other severity is Corrected or Correctable.
    (MessageKind::PcieError, "", &["PCIe Bus Error: severity=Uncorrect"]),
    // iommu/amd/iommu.c: amd_iommu_report_page_fault(); iommu/intel/dmar.c: dmar_fault_do_one()
    (MessageKind::IommuFault, "", &["AMD-Vi: Event logged [IO_PAGE_FAULT"]),
    (MessageKind::IommuFault, "DMAR: [DMA ", &["] Request device [", " fault addr 0x"]),
    // infiniband/core/cm.c: cm_destroy_id_wait_timeout()
    (MessageKind::CmTimeout, "", &["cm_destroy_id_wait_timeout: cm_id=", " timed out"]),
    // mm/oom_kill.c: __oom_kill_process(), also for a memory cgroup
    (MessageKind::OutOfMemory, "", &["ut of memory: Killed process "]),
];

/// The drivers whose links are those of RDMA devices, and the ends of their messages about a lost carrier:
/// mlx5/core/en_main.c, bnxt_en/bnxt.c, ice/ice_main.c.
const LINK_DRIVERS: [&str; 3] = ["mlx5_core ", "bnxt_en ", "ice "];
const LINK_DOWN: [&str; 2] = [": Link down", ": NIC Link is Down"];

fn kind_of(text: &str) -> Option<MessageKind> {
    let is_of_link = LINK_DRIVERS.iter().any(|driver| text.starts_with(driver));
    if is_of_link && LINK_DOWN.iter().any(|end| text.trim_end().ends_with(end)) {
        return Some(MessageKind::LinkDown);
    }
    let matches = |(_, start, parts): &&MessagePattern| {
        let mut rest = text;
        text.starts_with(start)
            && parts.iter().all(|part| {
                let at = rest.find(part);
                rest = at.map_or("", |at| &rest[at + part.len()..]);
                at.is_some()
            })
    };
    PATTERNS.iter().find(matches).map(|(kind, ..)| *kind)
}

/// Returns the first PCI address of a text; without a domain, as the drivers of the IOMMU write it, that of domain 0.
fn pci_address(text: &str) -> Option<String> {
    let words = text.split([' ', '[', ']', '=', '(', ')', ',']);
    words.into_iter().find_map(|word| {
        let word = word.trim_end_matches(':');
        let is_hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let is_slot = |part: &str| {
            part.split_once('.').is_some_and(|(slot, number)| is_hex(slot, 2) && is_hex(number, 1))
        };
        match word.split(':').collect::<Vec<_>>()[..] {
            [domain, bus, slot] if is_hex(domain, 4) && is_hex(bus, 2) && is_slot(slot) => {
                Some(word.to_owned())
            }
            [bus, slot] if is_hex(bus, 2) && is_slot(slot) => Some(format!("0000:{word}")),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &str, uptime: &str) -> Vec<KernelMessages> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("dev/kmsg", log), ("proc/uptime", uptime)] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        read(&HostRoot::at(root.path()))
    }

    fn one(text: &str) -> Option<(MessageKind, Option<String>)> {
        let found = messages(&format!("3,1,5000000,-;{text}\n"), "60.00 100.00\n");
        assert!(found.len() < 2, "{found:?}");
        found.into_iter().next().map(|messages| (messages.kind, messages.device))
    }

    #[test]
    fn each_message_is_recognized_with_its_device() {
        let at = |address: &str| Some(address.to_owned());
        for (text, kind, device) in [
            (
                "mlx5_core 0000:18:00.0: wait_func:1155:(pid 1967079): TEARDOWN_HCA(0x103) timeout. Will cause a leak of a \
                 command resource",
                MessageKind::CommandTimeout,
                at("0000:18:00.0"),
            ),
            (
                "mlx5_core 0000:18:00.0: cmd_work_handler:1: cmd[3]: QUERY_QP(0x50b) Async, timeout. Will cause a leak of a \
                 command resource",
                MessageKind::CommandTimeout,
                at("0000:18:00.0"),
            ),
            (
                "bnxt_en 0000:21:00.0: cmdq[0x1f]=0x3 timedout (20000)msec",
                MessageKind::CommandTimeout,
                at("0000:21:00.0"),
            ),
            (
                "mlx5_core 0000:d8:00.1: poll_health:808:(pid 0): device's health compromised - reached miss count",
                MessageKind::DeviceReset,
                at("0000:d8:00.1"),
            ),
            (
                "mlx5_core 0000:d8:00.1: poll_health:795:(pid 0): Fatal error 3 detected",
                MessageKind::DeviceReset,
                at("0000:d8:00.1"),
            ),
            (
                "bnxt_en 0000:21:00.0 eth4: Fatal firmware reset event, data1: 0x1, data2: 0x2, min wait 100 ms, max wait 200 ms",
                MessageKind::DeviceReset,
                at("0000:21:00.0"),
            ),
            (
                "bnxt_en 0000:21:00.0 eth4: Non-fatal firmware reset event, data1: 0x1, data2: 0x2, min wait 1 ms, max wait 2 ms",
                MessageKind::DeviceReset,
                at("0000:21:00.0"),
            ),
            ("irdma 0000:31:00.0 irdma0: Requesting a reset", MessageKind::DeviceReset, at("0000:31:00.0")),
            (
                "mlx5_core 0000:04:00.0: mlx5_pcie_event:299:(pid 324): Detected insufficient power on the PCIe slot (25W).",
                MessageKind::SlotPower,
                at("0000:04:00.0"),
            ),
            (
                "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature",
                MessageKind::ModuleError,
                at("0000:5c:00.0"),
            ),
            (
                "mlx5_core 0000:41:00.1: temp_warn:170:(pid 0): High temperature on sensors with bit set 0 1",
                MessageKind::DeviceHot,
                at("0000:41:00.1"),
            ),
            (
                "mlx5_core 0000:81:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)",
                MessageKind::PcieError,
                at("0000:81:00.0"),
            ),
            (
                "nvidia 0000:0f:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer, (Receiver ID)",
                MessageKind::PcieError,
                at("0000:0f:00.0"),
            ),
            ("mlx5_core 0000:af:00.0 eth0: Link down", MessageKind::LinkDown, at("0000:af:00.0")),
            ("ice 0000:31:00.0 ens1f0: NIC Link is Down", MessageKind::LinkDown, at("0000:31:00.0")),
            (
                "mlx5_core 0000:af:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000b address=0xb6674000 flags=0x0000]",
                MessageKind::IommuFault,
                at("0000:af:00.0"),
            ),
            (
                "AMD-Vi: Event logged [IO_PAGE_FAULT device=08:00.0 domain=0x002c address=0xfffffffdf8000000 flags=0x0008]",
                MessageKind::IommuFault,
                at("0000:08:00.0"),
            ),
            (
                "DMAR: [DMA Read NO_PASID] Request device [af:00.0] fault addr 0x1000 [fault reason 0x06] PTE Read access is not set",
                MessageKind::IommuFault,
                at("0000:af:00.0"),
            ),
            (
                "cm_destroy_id_wait_timeout: cm_id=000000007ce44ace timed out. state 6 -> 0, refcnt=1",
                MessageKind::CmTimeout,
                None,
            ),
            (
                "Memory cgroup out of memory: Killed process 2343 (python3) total-vm:31763532kB, anon-rss:13928044kB",
                MessageKind::OutOfMemory,
                None,
            ),
            ("Out of memory: Killed process 91 (postgres) total-vm:1000kB", MessageKind::OutOfMemory, None),
        ] {
            assert_eq!(one(text), Some((kind, device)), "{text}");
        }
    }

    #[test]
    fn other_messages_are_none() {
        for text in [
            "NET: Registered PF_INET protocol family",
            "mlx5_core 0000:18:00.0: cmd[0]: ACCESS_REG(0x805) Async, recovered after timeout",
            "mlx5_core 0000:af:00.0 eth0: Link up",
            "e1000e 0000:00:1f.6 eth0: NIC Link is Down",
            "bnxt_en 0000:21:00.0 eth4: Solicited firmware reset event, data1: 0x1, data2: 0x2",
            "mlx5_core 0000:81:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
            "mlx5_core 0000:81:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
            "xhci_hcd 0000:00:14.0: Requesting a reset",
        ] {
            assert_eq!(one(text), None, "{text}");
        }
    }

    #[test]
    fn messages_are_counted_and_old_ones_are_left_out() {
        let line = |seconds: u64| {
            format!("6,1,{}000000,-;mlx5_core 0000:af:00.0 eth0: Link down\n SUBSYSTEM=pci\n", seconds)
        };
        let log = [10, 100_000, 100_100].map(line).concat();
        let found = messages(&log, "100200.50 1.0\n");
        let [messages] = &found[..] else { panic!("{found:?}") };
        assert_eq!((messages.count, messages.last), (2, 100_100));
    }

    #[test]
    fn a_flood_is_bounded() {
        let long = "x".repeat(1000);
        let log: String = (0..2000)
            .map(|number| {
                format!(
                    "6,1,1,-;mlx5_core 0000:{:02x}:{:02x}.0: Fatal error 1 detected {long}\n",
                    number % 256,
                    number / 256
                )
            })
            .collect();
        let found = messages(&log, "60.0 1.0\n");
        assert_eq!(found.len(), MAX_OBJECTS);
        assert!(found.iter().all(|messages| messages.text.len() <= MAX_TEXT_CHARS));
    }
}
