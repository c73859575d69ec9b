//! PFs and their VFs.

use crate::{Finding, FindingId, Known, NodeFacts, Severity, facts::functions::FunctionFacts};

const NO_DRIVER: FindingId = FindingId::new("vf-without-driver", "A VF is not bound to a driver");
const NO_RDMA: FindingId =
    FindingId::new("vf-without-rdma", "A VF has no RDMA device, although its PF has one");
const COUNT_DIFFERS: FindingId =
    FindingId::new("vf-count-differs", "A PF has a different number of VFs than sriov_numvfs");
const AUTOPROBE: FindingId =
    FindingId::new("vf-autoprobe-off", "The kernel does not bind new VFs of a PF to a driver");
const NOT_BOUND: FindingId =
    FindingId::new("pf-without-driver", "A network card with RDMA is not bound to a driver");

pub(super) const IDS: &[FindingId] = &[NO_DRIVER, NO_RDMA, COUNT_DIFFERS, AUTOPROBE, NOT_BOUND];

/// The vendor ID of Mellanox, all of whose cards support RDMA.
const MELLANOX: &str = "0x15b3";

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for function in &facts.functions {
        match function.pf.as_deref().and_then(|pf| facts.function(pf)) {
            Some(pf) => found.extend(vf(function, pf)),
            None => found.extend(pf(function)),
        }
    }
}

fn pf(pf: &FunctionFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if pf.driver.is_none() && pf.vendor == MELLANOX {
        let finding = NOT_BOUND.error(&pf.address, "the card is not bound to a driver");
        found.push(
            finding.because(&pf.model).fix("modprobe mlx5_core; if it is loaded, check dmesg for the reason"),
        );
    }
    if let Some(number) = pf.num_vfs.get().filter(|number| usize::try_from(**number) != Ok(pf.vfs.len())) {
        let finding = COUNT_DIFFERS
            .error(&pf.address, format!("the PF has {} VFs; sriov_numvfs is {number}", pf.vfs.len()));
        found.push(
            finding
                .because(format!("sriov_numvfs: {number}"))
                .fix("check dmesg; drain the node and create the VFs again"),
        );
    }
    if pf.autoprobe == Known::Value(0) && !pf.vfs.is_empty() {
        let finding = AUTOPROBE.info(&pf.address, "new VFs of this PF are not bound to a driver");
        found.push(
            finding
                .because("sriov_drivers_autoprobe: 0")
                .fix("echo 1 > sriov_drivers_autoprobe, unless another program binds the VFs"),
        );
    }
    found
}

fn vf(vf: &FunctionFacts, pf: &FunctionFacts) -> Option<Finding> {
    let Some(driver) = vf.driver.as_deref() else {
        let finding = NO_DRIVER.error(&vf.address, "the VF is not bound to a driver: no pod can use it");
        let off = (pf.autoprobe == Known::Value(0))
            .then(|| format!("sriov_drivers_autoprobe of {}: 0", pf.address));
        return Some(
            finding
                .because(format!(
                    "VF of {} ({})",
                    pf.address,
                    pf.links.first().map_or("no link", String::as_str)
                ))
                .because_all(off)
                .fix(format!(
                    "echo {} > /sys/bus/pci/drivers_probe (sriov_drivers_autoprobe must be 1)",
                    vf.address
                )),
        );
    };
    // A VF in a pod has uverbs, but no RDMA device here. For virtual machines or DPDK, a VF is bound to vfio or uio.
    let has_rdma = !vf.rdma.is_empty() || !vf.uverbs.is_empty();
    let pf_has = !pf.rdma.is_empty() || !pf.uverbs.is_empty();
    if has_rdma || !pf_has || driver.contains("vfio") || driver.contains("uio") {
        return None;
    }
    // iavf in the kernel tree does not support RDMA for VFs of ice: that is not a fault of the node.
    let severity = if pf.driver.as_deref() == Some(driver) { Severity::Error } else { Severity::Info };
    let finding = NO_RDMA.found(severity, &vf.address, "the VF has no RDMA device, although its PF has one");
    Some(
        finding
            .because(format!("driver {driver}; PF {}: {}", pf.address, pf.rdma.join(", ")))
            .fix("enable RDMA for VFs (firmware, or devlink dev param … enable_roce), and rebind the driver"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use super::vf;
    use crate::{Known, Severity, facts::functions::FunctionFacts};

    #[test]
    fn a_vf_needs_a_driver_and_an_rdma_device() {
        let unbound = with(|facts| {
            facts.functions[2].driver = None;
            facts.functions[2].rdma.clear();
            facts.functions[2].uverbs.clear();
        });
        assert_eq!(unbound, ["error vf-without-driver 0000:af:00.1"]);
        let without = |driver: &'static str| {
            with(move |facts| {
                facts.functions[2].driver = Some(driver.into());
                facts.functions[2].rdma.clear();
                facts.functions[2].uverbs.clear();
            })
        };
        assert_eq!(without("iavf"), ["info vf-without-rdma 0000:af:00.1"]);
        for driver in ["vfio-pci", "mlx5_vfio_pci", "igb_uio", "uio_pci_generic"] {
            assert!(without(driver).is_empty(), "{driver}");
        }
        let severity = |driver: &str| {
            let of_pf = FunctionFacts {
                driver: Some("ice".into()),
                rdma: vec!["irdma0".into()],
                ..FunctionFacts::default()
            };
            vf(&FunctionFacts { driver: Some(driver.into()), ..FunctionFacts::default() }, &of_pf)
                .unwrap()
                .severity
        };
        assert_eq!((severity("iavf"), severity("ice")), (Severity::Info, Severity::Error));
        let elsewhere = with(|facts| facts.functions[2].rdma.clear());
        assert_eq!(elsewhere, ["info device-elsewhere 0000:af:00.1"], "it is in a pod");
    }

    #[test]
    fn a_pf_has_the_number_of_vfs_in_sriov_numvfs() {
        let found = with(|facts| facts.functions[0].num_vfs = Known::Value(4));
        assert_eq!(found, ["error vf-count-differs 0000:af:00.0"]);
    }

    #[test]
    fn disabled_autoprobe_is_info() {
        assert_eq!(
            with(|facts| facts.functions[0].autoprobe = Known::Value(0)),
            ["info vf-autoprobe-off 0000:af:00.0"]
        );
        let without_vfs = with(|facts| {
            facts.functions.truncate(2);
            facts.devices.truncate(2);
            facts.functions[1].vfs.clear();
            (facts.functions[1].num_vfs, facts.functions[1].autoprobe) = (Known::Value(0), Known::Value(0));
        });
        assert!(without_vfs.is_empty(), "{without_vfs:?}");
    }

    #[test]
    fn a_mellanox_card_without_driver_is_an_error() {
        let found = with(|facts| facts.functions[0].driver = None);
        assert_eq!(found, ["error pf-without-driver 0000:af:00.0"]);
        let other = with(|facts| {
            (facts.functions[0].driver, facts.functions[0].vendor) = (None, "0x8086".into());
        });
        assert!(other.is_empty(), "{other:?}");
    }
}
