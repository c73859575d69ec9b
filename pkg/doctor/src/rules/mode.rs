//! The RDMA mode: the current one, the one after the next boot, and the files that determine it.

use std::collections::BTreeMap;

use modprobe::{IbCoreLocation, ModprobeOption};
use rdma::NetnsMode;

use crate::{Finding, FindingId, NodeFacts};

const NOT_KEPT: FindingId =
    FindingId::new("rdma-mode-not-kept", "The current RDMA mode differs from the mode after the next boot");
const COMPETING: FindingId =
    FindingId::new("rdma-mode-competing", "modprobe.d files set different RDMA modes");
const DUPLICATE: FindingId =
    FindingId::new("rdma-mode-duplicate", "The RDMA mode is set more than once, to the same value");
const MALFORMED: FindingId = FindingId::new(
    "rdma-mode-malformed",
    "A modprobe.d file sets netns_mode to a value that the kernel rejects",
);
const COMMAND_LINE: FindingId = FindingId::new(
    "rdma-mode-command-line",
    "The kernel command line and the modprobe.d files set different RDMA modes",
);
const BUILT_IN: FindingId = FindingId::new(
    "rdma-mode-built-in",
    "modprobe.d files set the RDMA mode, but ib_core is built in: they have no effect",
);
const INITRAMFS: FindingId =
    FindingId::new("rdma-mode-initramfs", "The initramfs is older than the file that sets the RDMA mode");
const CANNOT_MOVE: FindingId = FindingId::new(
    "exclusive-cannot-move",
    "In exclusive mode, the driver of a device cannot move it into a pod",
);
const TOO_OLD: FindingId =
    FindingId::new("kernel-too-old", "The kernel has no RDMA mode: Linux 5.3 or later is required");

pub(super) const IDS: &[FindingId] =
    &[NOT_KEPT, COMPETING, DUPLICATE, MALFORMED, COMMAND_LINE, BUILT_IN, INITRAMFS, CANNOT_MOVE, TOO_OLD];

/// Drivers that cannot disassociate a device from its user-space processes, so that the kernel does not move their devices
/// (no `disassociate_ucontext`): RDMA drivers, and the drivers of the network cards.
const NON_MOVABLE_DRIVERS: [&str; 17] = [
    "rxe",
    "siw",
    "efa",
    "qedr",
    "qede",
    "cxgb4",
    "iw_cxgb4",
    "ocrdma",
    "be2net",
    "usnic",
    "enic",
    "vmw_pvrdma",
    "hfi1",
    "qib",
    "ib_qib",
    "mthca",
    "ib_mthca",
];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    if let Some(why) = &facts.mode.too_old {
        let fix = "boot a newer kernel, or install the vendor's RDMA stack";
        found.push(TOO_OLD.error("kernel", "this kernel has no RDMA mode").because(why).fix(fix));
    }
    found.extend(not_kept(facts));
    found.extend(settings(facts));
    found.extend(built_in(facts));
    found.extend(initramfs(facts));
    found.extend(cannot_move(facts));
}

fn not_kept(facts: &NodeFacts) -> Option<Finding> {
    let (now, next) = (facts.mode.now?, facts.mode.next.as_ref()?);
    if now == next.mode {
        return None;
    }
    let (object, by) = match &next.file {
        Some(file) => (file.display().to_string(), file.display().to_string()),
        None => ("ib_core".to_owned(), next.by.to_owned()),
    };
    let mut finding = NOT_KEPT
        .warning(object, format!("the RDMA mode is {now}, but will be {} after the next boot", next.mode))
        .because(format!("now: {now}"))
        .because(format!("next boot: {} ({by})", next.mode));
    if facts.mode.written.zip(facts.kernel.booted).is_some_and(|(written, booted)| written < booted) {
        finding = finding.because(
            "the file is older than the last boot: the mode was changed manually since, or an initramfs without the file \
             loaded ib_core",
        );
    }
    let wanted = next.mode;
    Some(finding.fix(format!(
        "to keep {now}: silkrail mode set {now} --persist; to change to {wanted}: drain the node and reboot"
    )))
}

/// Compares the modprobe.d files with each other and with the kernel command line.
fn settings(facts: &NodeFacts) -> Vec<Finding> {
    let mode = &facts.mode;
    let mut found = Vec::new();
    for ModprobeOption { path, .. } in mode.settings.iter().filter(|setting| setting.mode.is_none()) {
        let finding =
            MALFORMED.error(path.display(), "netns_mode is neither 0 nor 1: ib_core cannot be loaded");
        found.push(
            finding.because(path.display()).fix("set netns_mode=0 (exclusive) or netns_mode=1 (shared)"),
        );
    }
    let settings: Vec<(String, NetnsMode)> = mode
        .settings
        .iter()
        .filter_map(|setting| Some((setting.path.display().to_string(), setting.mode?)))
        .collect();
    let Some((last, wins)) = settings.last() else { return found };
    let evidence = || settings.iter().map(|(path, mode)| format!("{path}: {mode}"));
    if settings.iter().any(|(_, mode)| mode != wins) {
        let finding = COMPETING.warning(
            last,
            format!("modprobe.d files set different RDMA modes; this file takes effect, with {wins}"),
        );
        found.push(
            finding
                .because_all(evidence())
                .fix("keep only one of the settings, preferably in /etc/modprobe.d/ib_core.conf"),
        );
    } else if settings.len() > 1 {
        let finding = DUPLICATE
            .warning(last, format!("the RDMA mode is set {} times, each time to {wins}", settings.len()));
        let fix = match only_file(&settings) {
            true => {
                "keep only one of the lines; `silkrail mode set MODE --persist` removes the others".to_owned()
            }
            false => "keep only one of the files: a later change of one file would conflict with the others"
                .to_owned(),
        };
        found.push(finding.because_all(evidence()).fix(fix));
    }
    if let Some(line) = mode.command_line.filter(|line| line != wins) {
        let finding = COMMAND_LINE
            .warning("/proc/cmdline", format!("the kernel command line sets {line} and overrides {last}"));
        found.push(
            finding
                .because(format!("/proc/cmdline: ib_core.netns_mode ({line})"))
                .because(format!("{last}: {wins}"))
                .fix("remove ib_core.netns_mode from the command line (grubby, /etc/default/grub), or adapt the file"),
        );
    }
    found
}

fn only_file(settings: &[(String, NetnsMode)]) -> bool {
    let files: BTreeMap<&String, NetnsMode> = settings.iter().map(|(path, mode)| (path, *mode)).collect();
    files.len() == 1
}

fn built_in(facts: &NodeFacts) -> Option<Finding> {
    let last =
        facts.mode.settings.last().filter(|_| facts.kernel.ib_core == Some(IbCoreLocation::BuiltIn))?;
    let finding =
        BUILT_IN.warning(last.path.display(), "ib_core is built into this kernel: the file has no effect");
    Some(
        finding
            .because("modules.builtin contains ib_core")
            .fix("set ib_core.netns_mode=0|1 on the kernel command line"),
    )
}

fn initramfs(facts: &NodeFacts) -> Option<Finding> {
    let (image, written) = (facts.mode.initramfs.as_ref()?, facts.mode.written?);
    if image.made? >= written {
        return None;
    }
    let file = facts.mode.next.as_ref()?.file.as_ref()?;
    let finding = INITRAMFS.info(
        image.image.display(),
        "it is older than the file that sets the RDMA mode: if it contains ib_core, it contains the old mode too",
    );
    Some(
        finding
            .because(format!("{} was modified later", file.display()))
            .fix(format!("rebuild it: {}", image.command)),
    )
}

fn cannot_move(facts: &NodeFacts) -> Vec<Finding> {
    let next = facts.mode.next.as_ref().is_some_and(|next| next.mode == NetnsMode::Exclusive);
    if facts.mode.now != Some(NetnsMode::Exclusive) && !next {
        return Vec::new();
    }
    let cannot = facts.devices.iter().filter_map(|device| {
        let driver = device.driver.as_deref().filter(|driver| NON_MOVABLE_DRIVERS.contains(driver))?;
        let finding = CANNOT_MOVE.error(
            &device.name,
            format!("the RDMA mode is (or will be) exclusive, but {driver} cannot move a device into a pod"),
        );
        Some(finding.because(format!("driver: {driver}")).fix(
            "use shared mode with macvlan or ipvlan on this card (silkrail mode set shared --persist), or remove the device",
        ))
    });
    cannot.collect()
}

#[cfg(test)]
mod tests {
    use modprobe::{ModprobeOption, NextBootMode};
    use rdma::NetnsMode::{self, Exclusive, Shared};

    use super::super::testing::with;
    use crate::{NodeFacts, facts::mode::InitramfsFacts};

    fn files(facts: &mut NodeFacts, settings: &[(&str, Option<NetnsMode>)]) {
        let settings =
            settings.iter().map(|(path, mode)| ModprobeOption { path: (*path).into(), mode: *mode });
        facts.mode.settings = settings.collect();
        facts.mode.next = Some(NextBootMode::of(&facts.mode.settings, facts.mode.command_line));
    }

    #[test]
    fn a_mode_that_the_next_boot_will_not_keep_is_reported() {
        let found = with(|facts| facts.mode.now = Some(Exclusive));
        assert_eq!(found, ["warning rdma-mode-not-kept ib_core"]);
        let found = with(|facts| {
            files(facts, &[("/a.conf", Some(Exclusive))]);
            (facts.mode.written, facts.kernel.booted) = (Some(5), Some(10));
        });
        assert_eq!(found, ["warning rdma-mode-not-kept /a.conf"]);
    }

    #[test]
    fn files_that_differ_compete_and_files_that_agree_are_duplicates() {
        let both = |first, second| {
            with(move |facts| files(facts, &[("/a.conf", Some(first)), ("/b.conf", Some(second))]))
        };
        assert_eq!(both(Exclusive, Shared), ["warning rdma-mode-competing /b.conf"]);
        assert_eq!(both(Shared, Shared), ["warning rdma-mode-duplicate /b.conf"]);
    }

    #[test]
    fn an_invalid_value_is_an_error() {
        assert_eq!(with(|facts| files(facts, &[("/a.conf", None)])), ["error rdma-mode-malformed /a.conf"]);
        let beside = with(|facts| {
            files(facts, &[("/a.conf", Some(Exclusive)), ("/b.conf", None), ("/c.conf", Some(Shared))]);
        });
        assert_eq!(beside, ["error rdma-mode-malformed /b.conf", "warning rdma-mode-competing /c.conf"]);
    }

    #[test]
    fn the_command_line_overrides_the_files() {
        let found = with(|facts| {
            facts.mode.command_line = Some(Shared);
            files(facts, &[("/a.conf", Some(Exclusive))]);
        });
        assert_eq!(found, ["warning rdma-mode-command-line /proc/cmdline"]);
        let agree = with(|facts| {
            facts.mode.command_line = Some(Shared);
            files(facts, &[("/a.conf", Some(Shared))]);
        });
        assert!(agree.is_empty(), "{agree:?}");
    }

    #[test]
    fn a_file_has_no_effect_if_the_core_is_built_in() {
        let found = with(|facts| {
            files(facts, &[("/a.conf", Some(Shared))]);
            facts.kernel.ib_core = Some(modprobe::IbCoreLocation::BuiltIn);
        });
        assert_eq!(found, ["warning rdma-mode-built-in /a.conf"]);
    }

    #[test]
    fn an_initramfs_that_is_older_than_the_file_may_hold_the_old_mode() {
        let made = |made| {
            with(move |facts| {
                files(facts, &[("/a.conf", Some(Shared))]);
                facts.mode.written = Some(10);
                facts.mode.initramfs = Some(InitramfsFacts {
                    image: "/boot/initrd".into(),
                    command: "dracut -f",
                    made: Some(made),
                });
            })
        };
        assert_eq!(made(9), ["info rdma-mode-initramfs /boot/initrd"]);
        assert!(made(10).is_empty() && made(11).is_empty());
    }

    #[test]
    fn exclusive_mode_needs_drivers_that_can_move_devices() {
        let found = with(|facts| {
            facts.mode.now = Some(Exclusive);
            files(facts, &[("/a.conf", Some(Exclusive))]);
            facts.devices[0].driver = Some("rxe".into());
        });
        assert_eq!(found, ["error exclusive-cannot-move mlx5_0"]);
        let at_boot = with(|facts| {
            files(facts, &[("/a.conf", Some(Exclusive))]);
            facts.devices[1].driver = Some("siw".into());
        });
        assert_eq!(at_boot, ["error exclusive-cannot-move mlx5_1", "warning rdma-mode-not-kept /a.conf"]);
        let until_boot = with(|facts| {
            facts.mode.now = Some(Exclusive);
            facts.devices[1].driver = Some("siw".into());
        });
        assert_eq!(until_boot, ["error exclusive-cannot-move mlx5_1", "warning rdma-mode-not-kept ib_core"]);
        assert!(
            with(|facts| facts.devices[0].driver = Some("rxe".into())).is_empty(),
            "shared mode works with any driver"
        );
    }

    #[test]
    fn a_kernel_without_modes_is_too_old() {
        let found = with(|facts| {
            facts.mode.too_old = Some("too old".into());
            facts.mode.now = None;
        });
        assert_eq!(found, ["error kernel-too-old kernel"]);
    }
}
