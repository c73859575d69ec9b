//! Comparing, setting, and taking back.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{SavedSettings, Setting, SettingChange, SettingOutcome, TuneProfile, desired_value};

/// Where sysctls are kept for the next boot.
const SYSCTLS: &str = "etc/sysctl.d/90-silkrail.conf";

/// The settings of a node.
#[derive(Debug)]
pub struct Tuner {
    root: PathBuf,
}

/// Why the settings could not be seen, or remembered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting could not be read.
    #[error("{knob}: {source}")]
    Read {
        /// The setting.
        knob: Setting,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// What is remembered is not understood.
    #[error("{}: {source}; nothing can be taken back by it: move it away, if it is not needed", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// What is remembered could not be read or written.
    #[error(transparent)]
    StateFile(#[from] statefile::Error),
}

impl Tuner {
    /// Those of the node whose root directory this is.
    pub fn of(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// What is other than a profile says, and the settings that this node does not have.
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

    /// Makes changes, each after it was noted what the setting was.
    ///
    /// # Errors
    /// If what was changed cannot be remembered; then it is not changed.
    pub fn apply(&self, changes: Vec<SettingChange>) -> Result<Vec<SettingOutcome>, Error> {
        let _alone = SavedSettings::lock(&self.root)?;
        let mut memory = SavedSettings::read(&self.root)?;
        let mut outcomes = Vec::new();
        for change in changes {
            memory.record(&change);
            memory.write(&self.root)?;
            let error = change.knob.write(&self.root, &change.to).err().map(|error| error.to_string());
            outcomes.push(SettingOutcome { change, error });
        }
        self.write_sysctl_file(&memory)?;
        Ok(outcomes)
    }

    /// Takes every change back whose setting is still as we made it.
    ///
    /// # Errors
    /// If it is not known what was changed, or cannot be forgotten.
    pub fn revert(&self) -> Result<Vec<SettingOutcome>, Error> {
        let _alone = SavedSettings::lock(&self.root)?;
        let mut memory = SavedSettings::read(&self.root)?;
        let mut outcomes = Vec::new();
        for change in std::mem::take(&mut memory.changes).into_iter().rev() {
            let error = self.revert_one(&change);
            let is_left = error.is_some();
            outcomes.push(SettingOutcome { change: change.clone(), error });
            if is_left {
                memory.changes.insert(0, change);
            }
        }
        memory.write(&self.root)?;
        self.write_sysctl_file(&memory)?;
        Ok(outcomes.into_iter().filter(|outcome| outcome.change.from != outcome.change.to).collect())
    }

    /// Why a change could not be taken back. A setting that is gone, or that somebody set otherwise, needs nothing.
    fn revert_one(&self, change: &SettingChange) -> Option<String> {
        match change.knob.read(&self.root) {
            Ok(Some(now)) if now == change.to => {
                change.knob.write(&self.root, &change.from).err().map(|error| error.to_string())
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// Keeps the sysctls for the next boot.
    fn write_sysctl_file(&self, memory: &SavedSettings) -> Result<(), Error> {
        let path = self.root.join(SYSCTLS);
        let failed = |source| Error::Io { path: path.clone(), source };
        let lines: Vec<String> = memory
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
            "# Made by `silkrail tune apply`; `silkrail tune revert` removes it.\n{}",
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

    /// A node made of files: its kernel takes whatever is written.
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
            let tuning = Tuner::of(self.root());
            let (changes, _) = tuning.compare(profile).unwrap();
            let outcomes = tuning.apply(changes).unwrap();
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
    fn what_is_other_than_it_should_be_is_set_once_and_taken_back() {
        let node = FakeNode::new();
        let done = node.apply(&TuneProfile::default());
        let expected = [
            "kernel.numa_balancing",
            "net.ipv4.neigh.default.gc_thresh1",
            "net.ipv4.neigh.default.gc_thresh2",
            "governor of CPU 0",
            "LimitMEMLOCK of containerd",
        ];
        assert_eq!(done, expected, "what is more than enough stays, and so does what allows it already");
        assert_eq!(node.read(NUMA).as_deref(), Some("0"));
        assert_eq!(node.read("proc/sys/net/ipv4/neigh/default/gc_thresh1").as_deref(), Some("4096"));
        assert!(node.read(DROP_IN).unwrap().ends_with("[Service]\nLimitMEMLOCK=infinity"));
        assert!(node.read(SYSCTLS).unwrap().contains("\nkernel.numa_balancing = 0\n"));
        assert!(node.apply(&TuneProfile::default()).is_empty());
        assert_eq!(node.revert().len(), 5);
        assert_eq!(node.read(NUMA).as_deref(), Some("1"));
        assert_eq!(
            node.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").as_deref(),
            Some("schedutil")
        );
        assert_eq!((node.read(DROP_IN), node.read(SYSCTLS)), (None, None));
        assert!(node.revert().is_empty());
    }

    #[test]
    fn what_somebody_set_since_is_not_taken_back() {
        let node = FakeNode::new();
        node.apply(&TuneProfile::default());
        node.write(NUMA, "2\n");
        node.revert();
        assert_eq!(node.read(NUMA).as_deref(), Some("2"));
    }

    #[test]
    fn what_it_was_before_the_first_change_is_what_it_was() {
        let node = FakeNode::new();
        node.apply(&TuneProfile::default());
        node.apply(&TuneProfile { neighbours: 65_536, ..TuneProfile::default() });
        node.revert();
        assert_eq!(node.read("proc/sys/net/ipv4/neigh/default/gc_thresh1").as_deref(), Some("128"));
    }

    #[test]
    fn a_node_without_a_setting_is_told_of_it_and_no_node_has_settings_that_it_has_not() {
        let node = FakeNode::new();
        let profile = TuneProfile { multi_rail: true, roce_tos: Some(106), ..TuneProfile::default() };
        node.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
        let (_, absent) = Tuner::of(node.root()).compare(&profile).unwrap();
        let absent: Vec<_> = absent.iter().map(ToString::to_string).collect();
        assert!(absent.contains(&"net.ipv4.conf.all.rp_filter".to_owned()), "{absent:?}");
        assert!(
            absent.contains(&"RoCE type of service of mlx5_0, port 1".to_owned()),
            "rdma_cm is not there"
        );
        node.write("sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "0\n");
        let (changes, _) = Tuner::of(node.root()).compare(&profile).unwrap();
        assert!(changes.iter().any(|change| (&*change.from, &*change.to) == ("0", "106")), "{changes:?}");
    }

    /// The directory stands for the file of the kernel, which cannot be read either.
    #[test]
    fn a_cpu_that_is_off_has_no_governor() {
        let node = FakeNode::new();
        fs::create_dir_all(node.root().join("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor")).unwrap();
        assert!(Tuner::of(node.root()).compare(&TuneProfile::default()).is_err());
        node.write("sys/devices/system/cpu/cpu2/online", "0\n");
        Tuner::of(node.root()).compare(&TuneProfile::default()).unwrap();
    }

    #[test]
    fn a_change_that_fails_is_said_and_the_others_are_made() {
        let node = FakeNode::new();
        let path = node.root().join("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        let tuning = Tuner::of(node.root());
        let (changes, _) = tuning.compare(&TuneProfile::default()).unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let outcomes = tuning.apply(changes).unwrap();
        let failed: Vec<_> = outcomes.iter().filter(|outcome| outcome.error.is_some()).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(node.read(DROP_IN).is_some());
    }
}
