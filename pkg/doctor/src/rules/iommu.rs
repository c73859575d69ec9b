//! IOMMU, ACS and nvidia_peermem, which affect peer-to-peer traffic between cards and GPUs (GPUDirect).

use crate::{Finding, FindingId, NodeFacts};

const TRANSLATES: FindingId = FindingId::new(
    "iommu-translates",
    "The IOMMU may translate every DMA: it is slower, and GPUDirect might not work",
);
const ACS: FindingId = FindingId::new(
    "acs-redirects",
    "A bridge above a card redirects its traffic to GPUs to the root complex (ACS): GPUDirect is slow",
);

const NO_PEERMEM: FindingId =
    FindingId::new("gpu-peermem-missing", "nvidia_peermem is not loaded: GPUDirect works only with dma-buf");

pub(super) const IDS: &[FindingId] = &[TRANSLATES, ACS, NO_PEERMEM];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let has_device = !facts.devices.is_empty();
    let words = || facts.kernel.command_line.get().into_iter().flat_map(|line| line.split_ascii_whitespace());
    let passes = words()
        .any(|word| matches!(word, "iommu=pt" | "iommu.passthrough=1" | "intel_iommu=off" | "amd_iommu=off"));
    if has_device && facts.kernel.iommu_groups > 0 && !passes && facts.kernel.command_line.get().is_some() {
        let finding = TRANSLATES.info(
            "/proc/cmdline",
            "the IOMMU is enabled and may translate every DMA: it is slower, and GPUDirect might not work",
        );
        found.push(
            finding
                .because(format!(
                    "IOMMU groups: {}; no iommu=pt on the kernel command line",
                    facts.kernel.iommu_groups
                ))
                .fix("add iommu=pt to the kernel command line, unless virtual machines must be isolated"),
        );
    }
    let has = |module| facts.kernel.has_module(module);
    if has_device
        && !facts.gpus.is_empty()
        && has("nvidia") == Some(true)
        && has("nvidia_peermem") == Some(false)
    {
        let text =
            "the NVIDIA driver is loaded, but nvidia_peermem is not: GPUDirect works only with dma-buf";
        let finding = NO_PEERMEM
            .info("nvidia_peermem", text)
            .because("the module is neither in /proc/modules nor in /sys/module");
        found.push(
            finding.fix(
                "modprobe nvidia_peermem, unless all programs use dma-buf (Linux 5.12, open GPU driver)",
            ),
        );
    }
    for function in facts.functions.iter().filter(|function| !function.redirected_by.is_empty()) {
        let finding = ACS.info(
            &function.address,
            "bridges above the card redirect its traffic to GPUs to the root complex (ACS)",
        );
        found.push(
            finding
                .because(format!("request redirect is enabled in: {}", function.redirected_by.join(", ")))
                .fix("without virtual machines, disable ACS (BIOS, or setpci ECAP_ACS+6.w=0 on each bridge at boot)"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{modules, with};
    use crate::{Known, facts::functions::Gpu};

    #[test]
    fn an_iommu_that_translates_is_info() {
        let on = |line: &'static str| {
            with(move |facts| {
                facts.kernel.iommu_groups = 40;
                facts.kernel.command_line = Known::Value(line.into());
            })
        };
        assert_eq!(on("quiet"), ["info iommu-translates /proc/cmdline"]);
        for line in
            ["intel_iommu=on iommu=pt", "iommu.passthrough=1 quiet", "intel_iommu=off", "amd_iommu=off"]
        {
            assert!(on(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn gpus_without_peer_memory_are_info() {
        let found = |loaded: &[&str]| {
            with(|facts| {
                facts.gpus =
                    vec![Gpu { address: "0000:01:00.0".into(), numa_node: Some(0), ..Gpu::default() }];
                modules(facts).extend(loaded.iter().map(|name| ((*name).to_owned(), "POE".to_owned())));
            })
        };
        assert_eq!(found(&["nvidia"]), ["info gpu-peermem-missing nvidia_peermem"]);
        assert!(found(&["nvidia", "nvidia_peermem"]).is_empty() && found(&["amdgpu"]).is_empty());
    }

    #[test]
    fn a_bridge_that_redirects_is_info() {
        let found = with(|facts| facts.functions[0].redirected_by = vec!["0000:ae:00.0".into()]);
        assert_eq!(found, ["info acs-redirects 0000:af:00.0"]);
    }
}
