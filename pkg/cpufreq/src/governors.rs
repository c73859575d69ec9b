//! The governors as sysfs has them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Error, error::io as failed};

/// The governors of a node.
#[derive(Debug, Clone)]
pub struct Governors {
    pub(crate) cpus: PathBuf,
    /// What is saved while a test holds the governors.
    pub(crate) saved_file: PathBuf,
    pub(crate) root: PathBuf,
}

impl Governors {
    /// Returns the governors of the node whose root directory is `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            cpus: root.join("sys/devices/system/cpu"),
            saved_file: root.join("var/lib/silkrail/check/governor.json"),
            root: root.to_owned(),
        }
    }

    /// The governor that a CPU has, or will have when the running test ends; `None` if it has no cpufreq.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn configured(&self, cpu: u32) -> Result<Option<String>, Error> {
        let saved = self.read_saved_of_boot()?.and_then(|mut saved| saved.governors.remove(&cpu));
        if saved.is_some() {
            return Ok(saved);
        }
        let file = self.file(cpu);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(format!("read {}", file.display()))(e)),
        }
    }

    /// Sets the governor of a CPU. While a test holds it, the test ends with this one instead of the former one.
    ///
    /// # Errors
    /// If the kernel refuses it, or the saved values cannot be changed.
    pub fn configure(&self, cpu: u32, governor: &str) -> Result<(), Error> {
        let _saved = self.lock_saved()?;
        if let Some(mut saved) = self.read_saved_of_boot()?
            && let Some(former) = saved.governors.get_mut(&cpu)
        {
            governor.clone_into(former);
            return self.save(saved.governors);
        }
        self.set(cpu, governor).map_err(failed(format!("set the governor of CPU {cpu}")))
    }

    /// Reads the governor of each CPU that has one.
    pub(crate) fn read(&self) -> Result<BTreeMap<u32, String>, Error> {
        let entries = match fs::read_dir(&self.cpus) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(e) => return Err(failed(format!("read {}", self.cpus.display()))(e)),
        };
        let numbers = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok());
        let governor = |cpu: u32| Some((cpu, fs::read_to_string(self.file(cpu)).ok()?.trim().to_owned()));
        Ok(numbers.filter_map(governor).collect())
    }

    pub(crate) fn set(&self, cpu: u32, governor: &str) -> io::Result<()> {
        fs::write(self.file(cpu), governor)
    }

    pub(crate) fn is_offline(&self, cpu: u32) -> bool {
        let online = self.cpus.join(format!("cpu{cpu}/online"));
        fs::read_to_string(online).is_ok_and(|text| text.trim() == "0")
    }

    pub(crate) fn file(&self, cpu: u32) -> PathBuf {
        self.cpus.join(format!("cpu{cpu}/cpufreq/scaling_governor"))
    }
}
