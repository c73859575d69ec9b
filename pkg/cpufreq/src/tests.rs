//! Governors of a node made of files.

use std::fs;

use crate::{Error, GovernorGuard, GovernorOutcome, Governors};

/// Four CPUs: two with powersaving governors, one with `performance`, one without cpufreq.
fn node() -> (tempfile::TempDir, Governors) {
    let root = tempfile::tempdir().unwrap();
    let governors = Governors::below(root.path());
    for (cpu, governor) in [(0, "powersave"), (1, "schedutil"), (2, "performance")] {
        fs::create_dir_all(governors.file(cpu).parent().unwrap()).unwrap();
        fs::write(governors.file(cpu), format!("{governor}\n")).unwrap();
    }
    fs::create_dir_all(governors.cpus.join("cpu3")).unwrap();
    fs::create_dir_all(governors.cpus.join("cpufreq")).unwrap();
    (root, governors)
}

fn now(governors: &Governors) -> Vec<String> {
    governors.read().unwrap().into_values().collect()
}

const BEFORE: [&str; 3] = ["powersave", "schedutil", "performance"];

#[test]
fn governors_are_set_and_restored() {
    let (_root, governors) = node();
    let held = governors.hold().unwrap();
    assert_eq!(held.done, GovernorOutcome::Changed(2));
    assert_eq!(now(&governors), ["performance"; 3]);
    held.restore().unwrap();
    assert_eq!(now(&governors), BEFORE);
    assert!(!governors.saved_file.exists());
    assert_eq!(governors.restore_after_kill().unwrap(), None);
}

#[test]
fn after_a_kill_the_governors_are_restored_by_the_next_run_or_by_restore() {
    let (_root, governors) = node();
    let kill = |held: GovernorGuard<'_>| {
        let GovernorGuard { _lock: lock, .. } = &held;
        lock.unlock().unwrap();
        std::mem::forget(held);
    };
    kill(governors.hold().unwrap());
    assert_eq!(now(&governors), ["performance"; 3]);
    assert_eq!(governors.restore_after_kill().unwrap(), Some(2));
    assert_eq!(now(&governors), BEFORE);
    kill(governors.hold().unwrap());
    drop(governors.hold().unwrap());
    assert_eq!(now(&governors), BEFORE, "the second run keeps the values saved by the first");
}

#[test]
fn values_saved_before_a_reboot_are_discarded() {
    let (root, governors) = node();
    let boot = root.path().join("proc/sys/kernel/random/boot_id");
    fs::create_dir_all(boot.parent().unwrap()).unwrap();
    fs::write(&boot, "the first\n").unwrap();
    let held = governors.hold().unwrap();
    let saved = fs::read(&governors.saved_file).unwrap();
    held.restore().unwrap();
    fs::write(&governors.saved_file, saved).unwrap();
    fs::write(&boot, "the second\n").unwrap();
    fs::write(governors.file(0), "ondemand").unwrap();
    assert_eq!(governors.configured(0).unwrap().as_deref(), Some("ondemand"));
    governors.configure(1, "userspace").unwrap();
    assert_eq!(governors.restore_after_kill().unwrap(), None);
    assert_eq!(now(&governors), ["ondemand", "userspace", "performance"]);
    assert!(!governors.saved_file.exists());
    // A former version did not save the ID of the boot.
    fs::write(&governors.saved_file, r#"{"governors":{"0":"powersave"}}"#).unwrap();
    assert_eq!(governors.restore_after_kill().unwrap(), Some(1));
    assert_eq!(now(&governors)[0], "powersave");
}

#[test]
fn the_governor_of_an_offline_cpu_is_restored_when_it_is_online() {
    let (_root, governors) = node();
    let online = governors.cpus.join("cpu1/online");
    let held = governors.hold().unwrap();
    fs::write(&online, "0\n").unwrap();
    held.restore().unwrap();
    // It cannot be written: the kernel returns EBUSY.
    assert_eq!(now(&governors), ["powersave", "performance", "performance"]);
    drop(governors.hold().unwrap());
    fs::write(&online, "1\n").unwrap();
    assert_eq!(governors.restore_after_kill().unwrap(), Some(1));
    assert_eq!(now(&governors), BEFORE);
    assert!(!governors.saved_file.exists());
}

#[test]
fn without_cpufreq_nothing_is_changed_and_the_reason_is_given() {
    let root = tempfile::tempdir().unwrap();
    let governors = Governors::below(root.path());
    let held = governors.hold().unwrap();
    assert!(matches!(&held.done, GovernorOutcome::Without(why) if why.contains("no cpufreq")));
    assert!(!governors.saved_file.exists());
}

#[test]
fn if_the_values_cannot_be_saved_no_governor_is_changed() {
    let (_root, governors) = node();
    fs::create_dir_all(governors.saved_file.join("in-the-way")).unwrap();
    assert!(governors.hold().is_err());
    assert_eq!(now(&governors), BEFORE);
}

#[test]
fn invalid_saved_values_are_not_written() {
    let (_root, governors) = node();
    fs::create_dir_all(governors.saved_file.parent().unwrap()).unwrap();
    fs::write(&governors.saved_file, r#"{"governors":{"0":"../x","1":"ondemand","9":"powersave"}}"#).unwrap();
    assert_eq!(governors.restore_after_kill().unwrap(), Some(3));
    assert_eq!(now(&governors), ["powersave", "ondemand", "performance"]);
    fs::write(&governors.saved_file, "{").unwrap();
    assert!(matches!(governors.restore_after_kill(), Err(Error::Malformed { .. })));
}

#[test]
fn what_is_configured_during_a_test_is_in_effect_after_it() {
    let (_root, governors) = node();
    let held = governors.hold().unwrap();
    assert_eq!(governors.configured(0).unwrap().as_deref(), Some("powersave"), "what the test will restore");
    governors.configure(0, "performance").unwrap();
    governors.configure(1, "ondemand").unwrap();
    governors.configure(2, "schedutil").unwrap();
    assert_eq!(
        now(&governors),
        ["performance", "performance", "schedutil"],
        "the test goes on with its governors"
    );
    held.restore().unwrap();
    assert_eq!(now(&governors), ["performance", "ondemand", "schedutil"]);
    assert_eq!(governors.configured(1).unwrap().as_deref(), Some("ondemand"));
    assert_eq!(governors.configured(3).unwrap(), None, "a CPU without cpufreq");
}

#[test]
fn governors_are_not_restored_while_another_test_holds_them() {
    let (_root, governors) = node();
    let held = governors.hold().unwrap();
    assert!(governors.restore_after_kill().is_err());
    assert!(governors.hold().is_err());
    assert_eq!(now(&governors), ["performance"; 3]);
    held.restore().unwrap();
    assert_eq!(now(&governors), BEFORE);
}

#[test]
fn a_governor_that_the_kernel_refuses_does_not_stop_the_others_and_is_tried_again() {
    let (_root, governors) = node();
    // It can be read, and contains one word, but cannot be written.
    fs::remove_file(governors.file(0)).unwrap();
    std::os::unix::fs::symlink("/proc/sys/kernel/ostype", governors.file(0)).unwrap();
    let held = governors.hold().unwrap();
    assert!(matches!(&held.done, GovernorOutcome::Without(why) if why.contains("cpu0")), "{:?}", held.done);
    assert_eq!(now(&governors), ["Linux", "performance", "performance"]);
    assert!(held.restore().is_err());
    assert_eq!(now(&governors), ["Linux", "schedutil", "performance"]);
    assert!(governors.saved_file.exists(), "the next test tries it again");
}
