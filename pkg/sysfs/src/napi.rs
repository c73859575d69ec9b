//! NAPI settings: how the kernel polls the queues of a link.

use std::{fs, io, path::PathBuf};

use identifiers::LinkName;
use serde::{Deserialize, Serialize};

use crate::{Error, Sysfs, root::text};

/// The NAPI settings of a link, as text from `/sys/class/net/LINK`. Files that do not exist are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NapiSettings {
    /// `gro_flush_timeout`, in nanoseconds.
    gro_flush_timeout: Option<String>,
    /// `napi_defer_hard_irqs`, since Linux 5.8.
    napi_defer_hard_irqs: Option<String>,
    /// `threaded`, since Linux 5.12.
    threaded: Option<String>,
}

impl NapiSettings {
    fn files(&self) -> [(&'static str, Option<&str>); 3] {
        [
            ("gro_flush_timeout", self.gro_flush_timeout.as_deref()),
            ("napi_defer_hard_irqs", self.napi_defer_hard_irqs.as_deref()),
            ("threaded", self.threaded.as_deref()),
        ]
    }
}

impl Sysfs {
    /// Reads the NAPI settings of a link.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn napi_settings(&self, link: &LinkName) -> Result<NapiSettings, Error> {
        let read = |file: &str| text(&self.link_file(link, file));
        Ok(NapiSettings {
            gro_flush_timeout: read("gro_flush_timeout")?,
            napi_defer_hard_irqs: read("napi_defer_hard_irqs")?,
            threaded: read("threaded")?,
        })
    }

    /// Restores the former NAPI settings of a link.
    ///
    /// # Errors
    /// [`Error::Io`] of the first file that could not be written; the other files are written anyway. `EOPNOTSUPP` for
    /// `threaded` if the link has no NAPI instance, as with mlx5 while it is down (`modify_napi_threaded`).
    ///
    /// # Kernel
    /// Since Linux 6.13 a write also sets all NAPI instances, which `NETDEV_CMD_NAPI_SET` sets one by one
    /// (`netdev_set_gro_flush_timeout`). Therefore these files are written also if they have not changed.
    pub fn restore_napi_settings(&self, link: &LinkName, former: &NapiSettings) -> Result<(), Error> {
        let now = self.napi_settings(link)?;
        let mut result = Ok(());
        for ((file, now), (_, former)) in now.files().into_iter().zip(former.files()) {
            if let (Some(now), Some(former)) = (now, former)
                && (now != former || file != "threaded")
            {
                let path = self.link_file(link, file);
                let written: io::Result<()> = fs::write(&path, former);
                result = result.and(written.map_err(|source| Error::Io { path, source }));
            }
        }
        result
    }

    fn link_file(&self, link: &LinkName, file: &str) -> PathBuf {
        self.root().join("class/net").join(link.as_str()).join(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_files_are_written_and_threads_only_if_they_differ() {
        let dir = tempfile::tempdir().unwrap();
        let (sysfs, link) = (Sysfs::at(dir.path()), "eth0".parse().unwrap());
        let file = |name: &str| dir.path().join("class/net/eth0").join(name);
        fs::create_dir_all(file("")).unwrap();
        for (name, value) in [("gro_flush_timeout", "20000\n"), ("threaded", "0\n")] {
            fs::write(file(name), value).unwrap();
        }
        let before = sysfs.napi_settings(&link).unwrap();
        assert_eq!(
            before.files(),
            [("gro_flush_timeout", Some("20000")), ("napi_defer_hard_irqs", None), ("threaded", Some("0"))]
        );
        fs::write(file("gro_flush_timeout"), "7\n").unwrap();
        let untouched = fs::metadata(file("threaded")).unwrap().modified().unwrap();
        sysfs.restore_napi_settings(&link, &before).unwrap();
        assert_eq!(sysfs.napi_settings(&link).unwrap(), before);
        assert_eq!(fs::metadata(file("threaded")).unwrap().modified().unwrap(), untouched);
        assert!(!file("napi_defer_hard_irqs").exists());
        // A file that cannot be written does not keep the others from being restored.
        fs::remove_file(file("gro_flush_timeout")).unwrap();
        std::os::unix::fs::symlink("/proc/version", file("gro_flush_timeout")).unwrap();
        fs::write(file("threaded"), "1\n").unwrap();
        let error = sysfs.restore_napi_settings(&link, &before).unwrap_err().to_string();
        assert!(error.contains("gro_flush_timeout"), "{error}");
        assert_eq!(fs::read_to_string(file("threaded")).unwrap(), "0");
    }
}
