//! The RDMA mode: now, at the next boot, and who says so.

use std::collections::BTreeMap;

use modprobe::{IbCoreLocation, ModprobeOption};
use rdma::NetnsMode;

use crate::{Finding, FindingId, NodeFacts};

const NOT_KEPT: FindingId =
    FindingId::new("rdma-mode-not-kept", "The RDMA mode of now is not the one that the next boot will have");
const COMPETING: FindingId =
    FindingId::new("rdma-mode-competing", "Files of modprobe set different RDMA modes");
const DUPLICATE: FindingId =
    FindingId::new("rdma-mode-duplicate", "The RDMA mode is set more than once, to the same value");
const MALFORMED: FindingId = FindingId::new(
    "rdma-mode-malformed",
    "A file of modprobe sets netns_mode to what the kernel does not know",
);
const COMMAND_LINE: FindingId = FindingId::new(
    "rdma-mode-command-line",
    "The kernel's command line sets another RDMA mode than modprobe's files",
);
const BUILT_IN: FindingId = FindingId::new(
    "rdma-mode-built-in",
    "modprobe's files set the RDMA mode, and ib_core is built in: they have no say",
);
const INITRAMFS: FindingId =
    FindingId::new("rdma-mode-initramfs", "The initramfs is older than the file that sets the RDMA mode");
const CANNOT_MOVE: FindingId =
    FindingId::new("exclusive-cannot-move", "In exclusive mode, a device's driver cannot give it to a pod");
const TOO_OLD: FindingId =
    FindingId::new("kernel-too-old", "The kernel knows no RDMA modes: Linux 5.3 or newer is needed");

pub(super) const IDS: &[FindingId] =
    &[NOT_KEPT, COMPETING, DUPLICATE, MALFORMED, COMMAND_LINE, BUILT_IN, INITRAMFS, CANNOT_MOVE, TOO_OLD];

/// Drivers that do not let go of a device's users, so the kernel does not move their devices: RDMA drivers, and those of
/// the cards below them.
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
        found.push(TOO_OLD.error("kernel", "this kernel knows no RDMA modes").because(why).fix(fix));
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
        .warning(object, format!("the RDMA mode is {now}, and the next boot will have {}", next.mode))
        .because(format!("now: {now}"))
        .because(format!("next boot: {} ({by})", next.mode));
    if facts.mode.written.zip(facts.kernel.booted).is_some_and(|(written, booted)| written < booted) {
        finding = finding.because(
            "the file is older than the last boot: the mode was set by hand since, or an initramfs without the file loaded \
             ib_core",
        );
    }
    let wanted = next.mode;
    Some(finding.fix(format!(
        "to keep {now}: silkrail mode set {now} --persist; to have {wanted}: drain the node and reboot"
    )))
}

/// What the files say of each other, and the command line of them.
fn settings(facts: &NodeFacts) -> Vec<Finding> {
    let mode = &facts.mode;
    let mut found = Vec::new();
    for ModprobeOption { path, .. } in mode.settings.iter().filter(|setting| setting.mode.is_none()) {
        let finding = MALFORMED
            .error(path.display(), "netns_mode has a value that is neither 0 nor 1: ib_core would not load");
        found.push(
            finding.because(path.display()).fix("write netns_mode=0 (exclusive) or netns_mode=1 (shared)"),
        );
    }
    let said: Vec<(String, NetnsMode)> = mode
        .settings
        .iter()
        .filter_map(|setting| Some((setting.path.display().to_string(), setting.mode?)))
        .collect();
    let Some((last, wins)) = said.last() else { return found };
    let evidence = || said.iter().map(|(path, mode)| format!("{path}: {mode}"));
    if said.iter().any(|(_, mode)| mode != wins) {
        let finding = COMPETING
            .warning(last, format!("files of modprobe set different RDMA modes; this one wins with {wins}"));
        found.push(
            finding
                .because_all(evidence())
                .fix("keep one of the settings, best in /etc/modprobe.d/ib_core.conf"),
        );
    } else if said.len() > 1 {
        let finding = DUPLICATE.warning(last, format!("{wins} mode is set {} times", said.len()));
        let fix = match only_file(&said) {
            true => "keep one of the lines; `silkrail mode set MODE --persist` does that".to_owned(),
            false => "keep one of the files: a later change of one would compete with the others".to_owned(),
        };
        found.push(finding.because_all(evidence()).fix(fix));
    }
    if let Some(line) = mode.command_line.filter(|line| line != wins) {
        let finding = COMMAND_LINE
            .warning("/proc/cmdline", format!("the kernel's command line wins over {last} with {line}"));
        found.push(
            finding
                .because(format!("/proc/cmdline: ib_core.netns_mode ({line})"))
                .because(format!("{last}: {wins}"))
                .fix("take ib_core.netns_mode off the command line (grubby, or /etc/default/grub), or make the file say the same"),
        );
    }
    found
}

fn only_file(said: &[(String, NetnsMode)]) -> bool {
    let files: BTreeMap<&String, NetnsMode> = said.iter().map(|(path, mode)| (path, *mode)).collect();
    files.len() == 1
}

fn built_in(facts: &NodeFacts) -> Option<Finding> {
    let last =
        facts.mode.settings.last().filter(|_| facts.kernel.ib_core == Some(IbCoreLocation::BuiltIn))?;
    let finding =
        BUILT_IN.warning(last.path.display(), "ib_core is built into this kernel: the file has no say");
    Some(
        finding
            .because("ib_core is in modules.builtin")
            .fix("set ib_core.netns_mode=0|1 on the kernel's command line"),
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
        "it is older than the file that sets the RDMA mode: if it holds ib_core, the old mode is in there",
    );
    Some(
        finding
            .because(format!("{} was written later", file.display()))
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
            format!("the node is (or will be) in exclusive mode, and {driver} cannot move a device into a pod"),
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

    use super::super::testing::{findings, with};
    use crate::{NodeFacts, facts::mode::InitramfsFacts};

    fn files(facts: &mut NodeFacts, said: &[(&str, Option<NetnsMode>)]) {
        let settings = said.iter().map(|(path, mode)| ModprobeOption { path: (*path).into(), mode: *mode });
        facts.mode.settings = settings.collect();
        facts.mode.next = Some(NextBootMode::of(&facts.mode.settings, facts.mode.command_line));
    }

    #[test]
    fn a_mode_that_the_next_boot_will_not_have_is_told_of() {
        let found = with(|facts| facts.mode.now = Some(Exclusive));
        assert_eq!(found, ["rdma-mode-not-kept ib_core"]);
        let found = findings(|facts| {
            files(facts, &[("/a.conf", Some(Exclusive))]);
            (facts.mode.written, facts.kernel.booted) = (Some(5), Some(10));
        });
        assert_eq!((found[0].id, found[0].object.as_str()), ("rdma-mode-not-kept", "/a.conf"));
        assert!(found[0].evidence[2].contains("older than the last boot"), "{found:?}");
    }

    #[test]
    fn files_that_differ_compete_and_files_that_agree_are_one_too_many() {
        let both = |first, second| {
            with(move |facts| files(facts, &[("/a.conf", Some(first)), ("/b.conf", Some(second))]))
        };
        assert_eq!(both(Exclusive, Shared), ["rdma-mode-competing /b.conf"]);
        assert_eq!(both(Shared, Shared), ["rdma-mode-duplicate /b.conf"]);
    }

    #[test]
    fn a_value_that_makes_no_sense_is_an_error() {
        assert_eq!(with(|facts| files(facts, &[("/a.conf", None)])), ["rdma-mode-malformed /a.conf"]);
    }

    #[test]
    fn a_command_line_that_says_otherwise_wins() {
        let found = with(|facts| {
            facts.mode.command_line = Some(Shared);
            files(facts, &[("/a.conf", Some(Exclusive))]);
        });
        assert_eq!(found, ["rdma-mode-command-line /proc/cmdline"]);
        let agree = with(|facts| {
            facts.mode.command_line = Some(Shared);
            files(facts, &[("/a.conf", Some(Shared))]);
        });
        assert!(agree.is_empty(), "{agree:?}");
    }

    #[test]
    fn a_file_has_no_say_if_the_core_is_built_in() {
        let found = with(|facts| {
            files(facts, &[("/a.conf", Some(Shared))]);
            facts.kernel.ib_core = Some(modprobe::IbCoreLocation::BuiltIn);
        });
        assert_eq!(found, ["rdma-mode-built-in /a.conf"]);
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
        assert_eq!(made(9), ["rdma-mode-initramfs /boot/initrd"]);
        assert!(made(11).is_empty());
    }

    #[test]
    fn exclusive_mode_wants_drivers_that_can_move_devices() {
        let found = with(|facts| {
            facts.mode.now = Some(Exclusive);
            files(facts, &[("/a.conf", Some(Exclusive))]);
            facts.devices[0].driver = Some("rxe".into());
        });
        assert_eq!(found, ["exclusive-cannot-move mlx5_0"]);
        assert!(
            with(|facts| facts.devices[0].driver = Some("rxe".into())).is_empty(),
            "shared mode is all right"
        );
    }

    #[test]
    fn a_kernel_without_modes_is_too_old() {
        let found = with(|facts| {
            facts.mode.too_old = Some("too old".into());
            facts.mode.now = None;
        });
        assert_eq!(found, ["kernel-too-old kernel"]);
    }
}
