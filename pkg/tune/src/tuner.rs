//! Compares, applies and reverts settings.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Error, SavedSettings, Setting, SettingChange, SettingOutcome, TuneProfile, desired_value};

/// The file from which systemd-sysctl sets the kernel parameters at boot.
const SYSCTLS: &str = "etc/sysctl.d/90-silkrail.conf";

/// The settings of a node.
#[derive(Debug)]
pub struct Tuner {
    root: PathBuf,
}

impl Tuner {
    /// Returns the tuner of the node whose root directory is `root`.
    pub fn of(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the changes that a profile requires, and the settings of the profile that this node does not have.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn compare(&self, profile: &TuneProfile) -> Result<(Vec<SettingChange>, Vec<Setting>), Error> {
        let (mut changes, mut absent) = (Vec::new(), Vec::new());
        for (knob, wanted) in desired_value::of(profile, &self.root) {
            let from = knob.read(&self.root).map_err(|source| Error::Read { knob: knob.clone(), source })?;
            match from {
                None => absent.push(knob),
                Some(from) if wanted.is_met(&from) => {}
                Some(from) => changes.push(SettingChange { knob, from, to: wanted.text() }),
            }
        }
        Ok((changes, absent))
    }

    /// Makes changes. The former value of each setting is saved before the setting is changed.
    ///
    /// # Errors
    /// If a former value cannot be saved; then its setting is not changed.
    pub fn apply(&self, changes: Vec<SettingChange>) -> Result<Vec<SettingOutcome>, Error> {
        let _lock = SavedSettings::lock(&self.root)?;
        let mut saved = SavedSettings::read(&self.root)?;
        let mut outcomes = Vec::new();
        for change in changes {
            saved.record(&change);
            saved.write(&self.root)?;
            let error = change.knob.write(&self.root, &change.to).err().map(|error| error.to_string());
            outcomes.push(SettingOutcome { change, error });
        }
        self.write_sysctl_file(&saved)?;
        Ok(outcomes)
    }

    /// Reverts every change whose setting still has the value that was applied.
    ///
    /// # Errors
    /// If the saved changes cannot be read or updated.
    pub fn revert(&self) -> Result<Vec<SettingOutcome>, Error> {
        let _lock = SavedSettings::lock(&self.root)?;
        let mut saved = SavedSettings::read(&self.root)?;
        let mut outcomes = Vec::new();
        for change in std::mem::take(&mut saved.changes).into_iter().rev() {
            let error = self.revert_one(&change);
            let has_failed = error.is_some();
            outcomes.push(SettingOutcome { change: change.clone(), error });
            if has_failed {
                saved.changes.insert(0, change);
            }
        }
        saved.write(&self.root)?;
        self.write_sysctl_file(&saved)?;
        Ok(outcomes.into_iter().filter(|outcome| outcome.change.from != outcome.change.to).collect())
    }

    /// Reverts a change and returns the error, if any. Ignores a setting that no longer exists or has another value.
    fn revert_one(&self, change: &SettingChange) -> Option<String> {
        match change.knob.read(&self.root) {
            Ok(Some(now)) if now == change.to => {
                change.knob.write(&self.root, &change.from).err().map(|error| error.to_string())
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// Writes the changed kernel parameters to [`SYSCTLS`] for the next boot, or removes the file if there are none.
    fn write_sysctl_file(&self, saved: &SavedSettings) -> Result<(), Error> {
        let path = self.root.join(SYSCTLS);
        let failed = |source| Error::Io { path: path.clone(), source };
        let lines: Vec<String> = saved
            .changes
            .iter()
            .filter_map(|change| match &change.knob {
                Setting::Sysctl { name } => Some(format!("{name} = {}\n", change.to)),
                _ => None,
            })
            .collect();
        if lines.is_empty() {
            return match fs::remove_file(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed.map_err(failed),
            };
        }
        let text = format!(
            "# Created by `silkrail tune apply`; `silkrail tune revert` removes it.\n{}",
            lines.concat()
        );
        if fs::read_to_string(&path).is_ok_and(|present| present == text) {
            return Ok(());
        }
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(failed)?;
        }
        statefile::replace_durably(&path, 0o644, text.as_bytes()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node made of files, which accept every value.
    struct FakeNode(tempfile::TempDir);

    impl FakeNode {
        fn new() -> Self {
            let node = Self(tempfile::tempdir().unwrap());
            for (path, text) in [
                ("proc/sys/kernel/numa_balancing", "1\n"),
                ("proc/sys/net/ipv4/neigh/default/gc_thresh1", "128\n"),
                ("proc/sys/net/ipv4/neigh/default/gc_thresh2", "512\n"),
                ("proc/sys/net/ipv4/neigh/default/gc_thresh3", "1000000\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
                ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
                ("usr/lib/systemd/system/containerd.service", "[Service]\nLimitNOFILE=infinity\n"),
                ("usr/lib/systemd/system/crio.service", "[Service]\nLimitMEMLOCK=infinity\n"),
            ] {
                node.write(path, text);
            }
            node
        }

        fn root(&self) -> &Path {
            self.0.path()
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn read(&self, path: &str) -> Option<String> {
            Some(fs::read_to_string(self.root().join(path)).ok()?.trim().to_owned())
        }

        fn apply(&self, profile: &TuneProfile) -> Vec<String> {
            let tuner = Tuner::of(self.root());
            let (changes, _) = tuner.compare(profile).unwrap();
            let outcomes = tuner.apply(changes).unwrap();
            assert!(outcomes.iter().all(|outcome| outcome.error.is_none()), "{outcomes:?}");
            outcomes.into_iter().map(|outcome| outcome.change.knob.to_string()).collect()
        }

        fn revert(&self) -> Vec<SettingOutcome> {
            Tuner::of(self.root()).revert().unwrap()
        }
    }

    const NUMA: &str = "proc/sys/kernel/numa_balancing";
    const DROP_IN: &str = "etc/systemd/system/containerd.service.d/silkrail.conf";

    #[test]
    fn a_governor_that_a_test_holds_is_compared_and_changed_as_it_will_be_after_it() {
        let node = FakeNode::new();
        let governors = cpufreq::Governors::below(node.root());
        let held = governors.hold().unwrap();
        let profile = TuneProfile::parse("governor: performance\n").unwrap();
        assert!(node.apply(&profile).contains(&"governor of CPU 0".to_owned()));
        held.restore().unwrap();
        let cpu0 = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        assert_eq!(node.read(cpu0).as_deref(), Some("performance"));
        assert!(!node.apply(&profile).contains(&"governor of CPU 0".to_owned()));
    }

    #[test]
    fn differing_settings_are_applied_once_and_reverted() {
        let node = FakeNode::new();
        let done = node.apply(&TuneProfile::default());
        let expected = [
            "kernel.numa_balancing",
            "net.ipv4.neigh.default.gc_thresh1",
            "net.ipv4.neigh.default.gc_thresh2",
            "governor of CPU 0",
            "LimitMEMLOCK of containerd",
        ];
        assert_eq!(done, expected, "a larger value and a unit that sets the limit itself are left unchanged");
        assert_eq!(node.read(NUMA).as_deref(), Some("0"));
        assert_eq!(node.read("proc/sys/net/ipv4/neigh/default/gc_thresh1").as_deref(), Some("4096"));
        assert!(node.read(DROP_IN).unwrap().ends_with("[Service]\nLimitMEMLOCK=infinity"));
        assert!(node.read(SYSCTLS).unwrap().contains("\nkernel.numa_balancing = 0\n"));
        assert!(node.apply(&TuneProfile::default()).is_empty());
        let reverted: Vec<_> = node.revert().iter().map(|outcome| outcome.change.knob.to_string()).collect();
        assert!(reverted.iter().eq(expected.iter().rev()), "the last change first: {reverted:?}");
        assert_eq!(node.read(NUMA).as_deref(), Some("1"));
        assert_eq!(
            node.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").as_deref(),
            Some("schedutil")
        );
        assert_eq!((node.read(DROP_IN), node.read(SYSCTLS)), (None, None));
        assert!(node.revert().is_empty());
    }

    #[test]
    fn a_unit_of_the_administrator_counts_before_that_of_the_package() {
        let node = FakeNode::new();
        node.write("etc/systemd/system/containerd.service", "[Service]\nLimitMEMLOCK=infinity\n");
        node.write("etc/systemd/system/crio.service", "[Service]\n");
        let done = node.apply(&TuneProfile::default());
        assert_eq!(done.last().map(String::as_str), Some("LimitMEMLOCK of crio"));
        assert!(!done.contains(&"LimitMEMLOCK of containerd".to_owned()), "{done:?}");
    }

    #[test]
    fn what_cannot_be_reverted_is_kept_in_its_order() {
        let node = FakeNode::new();
        node.apply(&TuneProfile::default());
        let thresholds = ["1", "2"].map(|n| format!("proc/sys/net/ipv4/neigh/default/gc_thresh{n}"));
        for path in thresholds.map(|path| node.root().join(path)) {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }
        let failed = node.revert().into_iter().filter(|outcome| outcome.error.is_some()).count();
        let kept = SavedSettings::read(node.root()).unwrap().changes;
        let kept: Vec<_> = kept.iter().map(|change| (change.knob.to_string(), &*change.from)).collect();
        let expected = [("1", "128"), ("2", "512")];
        assert_eq!(kept, expected.map(|(n, from)| (format!("net.ipv4.neigh.default.gc_thresh{n}"), from)));
        assert_eq!(failed, 2);
        let at_boot = node.read(SYSCTLS).unwrap();
        assert!(at_boot.contains("gc_thresh2 = ") && !at_boot.contains("numa_balancing"), "{at_boot}");
    }

    #[test]
    fn a_setting_that_was_changed_since_is_not_reverted() {
        let node = FakeNode::new();
        node.apply(&TuneProfile::default());
        node.write(NUMA, "2\n");
        node.revert();
        assert_eq!(node.read(NUMA).as_deref(), Some("2"));
    }

    #[test]
    fn the_value_before_the_first_change_is_restored() {
        let node = FakeNode::new();
        node.apply(&TuneProfile::default());
        node.apply(&TuneProfile { neighbours: 65_536, ..TuneProfile::default() });
        // A boot sets another value, and the profile is applied again.
        node.write(NUMA, "3\n");
        node.apply(&TuneProfile::default());
        node.revert();
        assert_eq!(node.read("proc/sys/net/ipv4/neigh/default/gc_thresh1").as_deref(), Some("128"));
        assert_eq!(node.read(NUMA).as_deref(), Some("1"));
    }

    #[test]
    fn a_value_that_another_program_has_set_in_between_is_restored() {
        let node = FakeNode::new();
        let threshold = "proc/sys/net/ipv4/neigh/default/gc_thresh1";
        node.apply(&TuneProfile::default());
        node.write(threshold, "5000\n");
        node.apply(&TuneProfile { neighbours: 65_536, ..TuneProfile::default() });
        assert_eq!(node.read(threshold).as_deref(), Some("16384"));
        node.revert();
        assert_eq!(node.read(threshold).as_deref(), Some("5000"));
    }

    #[test]
    fn a_setting_that_has_its_former_value_again_is_not_listed_by_revert() {
        let node = FakeNode::new();
        node.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
        node.write("sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "0\n");
        for tos in [106, 0] {
            node.apply(&TuneProfile { roce_tos: Some(tos), ..TuneProfile::default() });
        }
        let reverted = node.revert();
        assert_eq!(reverted.len(), 5);
        assert!(!reverted.iter().any(|outcome| matches!(outcome.change.knob, Setting::RoceTos { .. })));
        assert!(SavedSettings::read(node.root()).unwrap().changes.is_empty());
    }

    #[test]
    fn a_setting_whose_former_value_cannot_be_saved_is_not_changed() {
        let node = FakeNode::new();
        // Where the new file is written before it replaces the former one.
        node.write("var/lib/silkrail/.tune.json.silkrail/x", "");
        let tuner = Tuner::of(node.root());
        let (changes, _) = tuner.compare(&TuneProfile::default()).unwrap();
        tuner.apply(changes).unwrap_err();
        assert_eq!(node.read(NUMA).as_deref(), Some("1"));
    }

    #[test]
    fn settings_that_the_node_does_not_have_are_reported_as_absent() {
        let node = FakeNode::new();
        let profile = TuneProfile { multi_rail: true, roce_tos: Some(106), ..TuneProfile::default() };
        node.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
        let (_, absent) = Tuner::of(node.root()).compare(&profile).unwrap();
        let absent: Vec<_> = absent.iter().map(ToString::to_string).collect();
        assert!(absent.contains(&"net.ipv4.conf.all.rp_filter".to_owned()), "{absent:?}");
        assert!(
            absent.contains(&"RoCE type of service of mlx5_0, port 1".to_owned()),
            "rdma_cm is not loaded"
        );
        // As soon as it is, a directory makes it show the settings of the device.
        fs::create_dir_all(node.root().join("sys/kernel/config/rdma_cm")).unwrap();
        Tuner::of(node.root()).compare(&profile).unwrap();
        assert!(node.root().join("sys/kernel/config/rdma_cm/mlx5_0").is_dir());
        node.write("sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "0\n");
        let (changes, _) = Tuner::of(node.root()).compare(&profile).unwrap();
        assert!(changes.iter().any(|change| (&*change.from, &*change.to) == ("0", "106")), "{changes:?}");
    }

    /// The directory stands for the kernel's file, which cannot be read either while the CPU is offline.
    #[test]
    fn an_offline_cpu_has_no_governor() {
        let node = FakeNode::new();
        fs::create_dir_all(node.root().join("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor")).unwrap();
        assert!(Tuner::of(node.root()).compare(&TuneProfile::default()).is_err());
        node.write("sys/devices/system/cpu/cpu2/online", "0\n");
        Tuner::of(node.root()).compare(&TuneProfile::default()).unwrap();
    }

    #[test]
    fn a_failed_change_is_reported_and_the_others_are_made() {
        let node = FakeNode::new();
        let path = node.root().join("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        let tuner = Tuner::of(node.root());
        let (changes, _) = tuner.compare(&TuneProfile::default()).unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let outcomes = tuner.apply(changes).unwrap();
        let failed: Vec<_> = outcomes.iter().filter(|outcome| outcome.error.is_some()).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(node.read(DROP_IN).is_some());
    }
}
