//! Kernel modules and drivers: whether the node has RDMA.

use crate::{Finding, FindingId, Known, NodeFacts, Severity};

const NO_CORE: FindingId =
    FindingId::new("rdma-missing", "The kernel's RDMA core (ib_core) is not loaded: this node has no RDMA");
const NO_DEVICE: FindingId =
    FindingId::new("rdma-no-device", "The RDMA core is loaded, but the node has no RDMA device");
const NOT_LOADED: FindingId = FindingId::new(
    "rdma-module-missing",
    "The driver of a card is loaded, but the RDMA module of the driver is not",
);
const NO_UVERBS: FindingId =
    FindingId::new("uverbs-module-missing", "ib_uverbs is not loaded: no program can use an RDMA device");
const MIXED: FindingId =
    FindingId::new("rdma-stack-mixed", "Some RDMA modules come from the kernel tree, others from a vendor");
const STACK: FindingId = FindingId::new("rdma-stack-vendor", "The RDMA stack comes from a vendor");

const UNKNOWN: FindingId =
    FindingId::new("rdma-unknown", "It could not be determined whether this node has RDMA");

pub(super) const IDS: &[FindingId] = &[NO_CORE, UNKNOWN, NO_DEVICE, NOT_LOADED, NO_UVERBS, MIXED, STACK];

/// The driver of a card, and the module that creates the RDMA devices of its functions.
const MODULES: [(&str, &str); 11] = [
    ("mlx5_core", "mlx5_ib"),
    ("mlx4_core", "mlx4_ib"),
    ("ice", "irdma"),
    ("i40e", "irdma"),
    ("idpf", "irdma"),
    ("bnxt_en", "bnxt_re"),
    ("qede", "qedr"),
    ("cxgb4", "iw_cxgb4"),
    ("hns3", "hns_roce_hw_v2"),
    ("mana", "mana_ib"),
    ("ionic", "ionic_rdma"),
];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    match facts.kernel.has_rdma {
        Known::Value(true) => {}
        Known::Value(false) | Known::Absent => found.push(no_core(facts)),
        Known::Unknown => {
            let finding = UNKNOWN.error("/sys", "it cannot be determined whether this node has RDMA");
            let fix = "mount sysfs on /sys; in a container, pass --root with the root directory of the host";
            found.push(finding.because("/sys/class could not be read").fix(fix));
        }
    }
    for (driver, module) in MODULES {
        found.extend(not_loaded(facts, driver, module));
    }
    if facts.kernel.has_rdma == Known::Value(true) {
        found.extend(no_device(facts));
        found.extend(no_uverbs(facts));
    }
    found.extend(stack(facts));
}

fn no_core(facts: &NodeFacts) -> Finding {
    let cards = cards(facts);
    let fix = match cards.first() {
        Some((driver, module, _)) => format!("modprobe {module} (the driver {driver} of the card is loaded)"),
        None => {
            "install the driver of the card and load its RDMA module (Mellanox: modprobe mlx5_ib)".to_owned()
        }
    };
    let because = match cards.is_empty() {
        true => "no card has a driver that is known to support RDMA".to_owned(),
        false => {
            cards.iter().map(|(driver, _, pci)| format!("{pci} ({driver})")).collect::<Vec<_>>().join(", ")
        }
    };
    NO_CORE
        .error("ib_core", "this node has no RDMA: the kernel's RDMA core is not loaded")
        .because("/sys/class/infiniband does not exist")
        .because(because)
        .fix(fix)
}

/// Returns the cards whose driver has an RDMA module: driver, module, PCI address.
fn cards(facts: &NodeFacts) -> Vec<(&'static str, &'static str, &str)> {
    let card = |(driver, module)| {
        let with = facts.functions.iter().find(|function| function.driver.as_deref() == Some(driver))?;
        Some((driver, module, with.address.as_str()))
    };
    MODULES.into_iter().filter_map(card).collect()
}

fn not_loaded(facts: &NodeFacts, driver: &str, module: &str) -> Option<Finding> {
    let with: Vec<&str> = facts
        .functions
        .iter()
        .filter(|function| function.driver.as_deref() == Some(driver))
        .filter(|function| function.rdma.is_empty() && function.uverbs.is_empty())
        .map(|function| function.address.as_str())
        .collect();
    if with.is_empty() || facts.kernel.has_module(module) != Some(false) {
        return None;
    }
    // If other cards have RDMA, these may be intended for other traffic.
    let severity = if facts.devices.is_empty() { Severity::Warning } else { Severity::Info };
    let text = format!("cards with the driver {driver} have no RDMA device: {module} is not loaded");
    let finding = NOT_LOADED.found(severity, module, text).because(with.join(", "));
    Some(finding.fix(format!(
        "modprobe {module}, and load it at boot (/etc/modules-load.d), if these cards are used for RDMA"
    )))
}

fn no_device(facts: &NodeFacts) -> Option<Finding> {
    let elsewhere = facts.functions.iter().any(|function| !function.uverbs.is_empty());
    if !facts.devices.is_empty() || elsewhere {
        return None;
    }
    let fix = cards(facts)
        .first()
        .map_or("load the RDMA module of the card (Mellanox: modprobe mlx5_ib)".to_owned(), |card| {
            format!("modprobe {}; if it is loaded, check dmesg for messages of {}", card.1, card.0)
        });
    let none =
        NO_DEVICE.error("/sys/class/infiniband", "the RDMA core is loaded, but there is no RDMA device");
    Some(none.fix(fix))
}

fn no_uverbs(facts: &NodeFacts) -> Option<Finding> {
    if facts.kernel.has_module("ib_uverbs")? || !facts.nodes.uverbs.is_empty() {
        return None;
    }
    let finding = NO_UVERBS
        .error("ib_uverbs", "no program can use an RDMA device: the module ib_uverbs is not loaded")
        .because("the module is neither in /proc/modules nor in /sys/module");
    Some(finding.fix("modprobe ib_uverbs, and load it at boot (/etc/modules-load.d)"))
}

/// Checks that all modules of the stack have the same origin: their symbols and structures are not compatible.
fn stack(facts: &NodeFacts) -> Option<Finding> {
    let modules = facts.kernel.modules.get()?;
    // irdma and bnxt_re are not in the list: their vendors also provide them for the core of the kernel tree.
    let rdma = ["ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "mlx5_ib", "mlx5_core"];
    let of = |vendor: bool| -> Vec<&str> {
        let is = |name: &&str| modules.get(*name).is_some_and(|taint| taint.contains('O') == vendor);
        rdma.into_iter().filter(is).collect()
    };
    let (vendor, kernel) = (of(true), of(false));
    if !vendor.is_empty() && !kernel.is_empty() {
        let mixed =
            MIXED.error("ib_core", "some RDMA modules come from the kernel tree, others from a vendor");
        return Some(
            mixed
                .because(format!("from a vendor (out of tree): {}", vendor.join(", ")))
                .because(format!("from the kernel tree: {}", kernel.join(", ")))
                .fix("reinstall the vendor's stack for this kernel, or remove it completely, and reboot"),
        );
    }
    let version = facts.kernel.stack_version.get()?;
    Some(STACK.info("ib_core", format!("the RDMA stack comes from a vendor, version {version}")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{modules, with};
    use crate::Known;

    #[test]
    fn a_node_without_the_rdma_core_has_no_rdma() {
        let found = with(|facts| {
            facts.kernel.has_rdma = Known::Value(false);
            facts.mode.now = None;
            facts.devices.clear();
            facts.nodes.uverbs.clear();
        });
        assert_eq!(found, ["error rdma-missing ib_core"]);
    }

    #[test]
    fn an_unreadable_sysfs_is_an_error() {
        assert_eq!(with(|facts| facts.kernel.has_rdma = Known::Unknown), ["error rdma-unknown /sys"]);
    }

    #[test]
    fn a_core_without_a_device_is_an_error() {
        let found = with(|facts| {
            facts.devices.clear();
            facts.functions.clear();
        });
        assert_eq!(found, ["error rdma-no-device /sys/class/infiniband"]);
        let in_pods = with(|facts| {
            facts.devices.clear();
            facts.functions.iter_mut().for_each(|function| function.rdma.clear());
        });
        assert!(in_pods.iter().all(|finding| finding.starts_with("info device-elsewhere")), "{in_pods:?}");
    }

    #[test]
    fn a_card_without_its_rdma_module_is_reported() {
        let found = with(|facts| {
            facts.functions[1].driver = Some("ice".into());
            facts.functions[1].uverbs.clear();
            facts.functions[1].rdma.clear();
            facts.functions[1].vfs.clear();
            facts.functions[1].num_vfs = Known::Value(0);
            facts.functions.truncate(3);
        });
        assert_eq!(found, ["info rdma-module-missing irdma"]);
        let all = with(|facts| {
            facts.devices.clear();
            facts.functions.truncate(1);
            facts.functions[0].vfs.clear();
            facts.functions[0].num_vfs = Known::Value(0);
            facts.functions[0].rdma.clear();
            facts.functions[0].uverbs.clear();
            modules(facts).remove("mlx5_ib");
        });
        let no_device = "error rdma-no-device /sys/class/infiniband";
        assert_eq!(all, [no_device, "warning rdma-module-missing mlx5_ib"]);
    }

    #[test]
    fn without_uverbs_no_program_has_rdma() {
        let found = with(|facts| {
            modules(facts).remove("ib_uverbs");
            facts.nodes.uverbs.clear();
        });
        assert_eq!(found, ["error uverbs-module-missing ib_uverbs"]);
    }

    #[test]
    fn modules_of_two_origins_are_an_error() {
        let set = |name: &str| {
            let name = name.to_owned();
            with(move |facts| {
                modules(facts).insert(name, "OE".into());
            })
        };
        assert_eq!(set("mlx5_ib"), ["error rdma-stack-mixed ib_core"]);
        assert_eq!(set("ib_core"), ["error rdma-stack-mixed ib_core"]);
        let whole = with(|facts| {
            modules(facts).values_mut().for_each(|taint| *taint = "OE".into());
            facts.kernel.stack_version = Known::Value("24.10".into());
        });
        assert_eq!(whole, ["info rdma-stack-vendor ib_core"]);
    }
}
