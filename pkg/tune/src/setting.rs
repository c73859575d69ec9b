//! A setting: a file of the kernel or a drop-in file of systemd.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use cpufreq::Governors;
use serde::{Deserialize, Serialize};

/// A setting of the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Setting {
    /// A kernel parameter, like `kernel.numa_balancing`.
    Sysctl {
        /// The name, with dots.
        name: String,
    },
    /// The frequency governor of a CPU.
    Governor {
        /// The number of the CPU.
        cpu: u32,
    },
    /// The default type of service of `rdma_cm` connections over a port; bits 2 to 7 are the DSCP.
    RoceTos {
        /// The RDMA device, for example `mlx5_0`.
        device: String,
        /// The port of the device.
        port: u32,
    },
    /// The limit of locked memory of a container runtime and its containers (`LimitMEMLOCK`).
    Memlock {
        /// The runtime's systemd service, without `.service`.
        service: String,
    },
}

impl Setting {
    /// Returns the path of the setting's file, relative to the node's root directory.
    fn path(&self) -> PathBuf {
        match self {
            Self::Sysctl { name } => Path::new("proc/sys").join(name.replace('.', "/")),
            Self::Governor { cpu } => {
                format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor").into()
            }
            Self::RoceTos { device, port } => {
                format!("sys/kernel/config/rdma_cm/{device}/ports/{port}/default_roce_tos").into()
            }
            Self::Memlock { service } => {
                format!("etc/systemd/system/{service}.service.d/silkrail.conf").into()
            }
        }
    }

    /// Reads the current value; `None` if the node does not have the setting.
    pub(crate) fn read(&self, root: &Path) -> io::Result<Option<String>> {
        if let Self::Governor { cpu } = self {
            return Governors::below(root).configured(*cpu).map_err(io::Error::other);
        }
        self.prepare(root)?;
        let text = match fs::read_to_string(root.join(self.path())) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            read => Some(read?),
        };
        Ok(match self {
            Self::Memlock { .. } => Some(text.as_deref().and_then(limit).unwrap_or_default().to_owned()),
            Self::Sysctl { .. } | Self::Governor { .. } | Self::RoceTos { .. } => {
                text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
            }
        })
    }

    pub(crate) fn write(&self, root: &Path, value: &str) -> io::Result<()> {
        let path = root.join(self.path());
        match self {
            Self::Memlock { .. } => write_drop_in(&path, value),
            Self::Governor { cpu } => Governors::below(root).configure(*cpu, value).map_err(io::Error::other),
            Self::Sysctl { .. } | Self::RoceTos { .. } => fs::write(path, value),
        }
    }

    /// Creates the configfs directory of a device, in which `rdma_cm` then shows the settings of the device.
    fn prepare(&self, root: &Path) -> io::Result<()> {
        let Self::RoceTos { device, .. } = self else { return Ok(()) };
        let dir = root.join("sys/kernel/config/rdma_cm");
        match fs::create_dir(dir.join(device)) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(e),
            // The directory exists, rdma_cm is not loaded, or it does not know the device.
            _ => Ok(()),
        }
    }

    /// Returns what the administrator must do for a change to take effect; `None` if nothing.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Memlock { service } => Some(format!(
                "systemctl daemon-reload && systemctl restart {service}: existing containers keep their limit"
            )),
            Self::Sysctl { .. } | Self::Governor { .. } | Self::RoceTos { .. } => None,
        }
    }
}

/// Returns the value of `LimitMEMLOCK=` in a drop-in file.
fn limit(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("LimitMEMLOCK="))
}

/// Writes a drop-in file, or removes it if the value is empty.
fn write_drop_in(path: &Path, value: &str) -> io::Result<()> {
    if value.is_empty() {
        return match fs::remove_file(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let text = format!("# Created by `silkrail tune apply`.\n[Service]\nLimitMEMLOCK={value}\n");
    statefile::replace_durably(path, 0o644, text.as_bytes())
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { name } => f.write_str(name),
            Self::Governor { cpu } => write!(f, "governor of CPU {cpu}"),
            Self::RoceTos { device, port } => write!(f, "RoCE type of service of {device}, port {port}"),
            Self::Memlock { service } => write!(f, "LimitMEMLOCK of {service}"),
        }
    }
}
