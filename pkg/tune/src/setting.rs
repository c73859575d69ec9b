//! One setting: a file of the kernel's, or a file for systemd.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// A setting of the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Setting {
    /// A kernel parameter, like `kernel.numa_balancing`.
    Sysctl {
        /// Its name.
        name: String,
    },
    /// How a CPU chooses its frequency.
    Governor {
        /// The CPU.
        cpu: u32,
    },
    /// The type of service of connections over a port that `rdma_cm` makes: bits 2 to 7 are the DSCP.
    RoceTos {
        /// The RDMA device.
        device: String,
        /// The port.
        port: u32,
    },
    /// How much memory the containers of a runtime may pin.
    Memlock {
        /// The runtime's systemd service, without `.service`.
        service: String,
    },
}

impl Setting {
    /// Its file, below the node's root.
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

    /// Its value now; `None` if the node does not have it.
    pub(crate) fn read(&self, root: &Path) -> io::Result<Option<String>> {
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
            Self::Sysctl { .. } | Self::Governor { .. } | Self::RoceTos { .. } => fs::write(path, value),
        }
    }

    /// `rdma_cm` shows the settings of a device for which a directory was made.
    fn prepare(&self, root: &Path) -> io::Result<()> {
        let Self::RoceTos { device, .. } = self else { return Ok(()) };
        let dir = root.join("sys/kernel/config/rdma_cm");
        match fs::create_dir(dir.join(device)) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(e),
            // It is there already, or rdma_cm is not, or does not know the device.
            _ => Ok(()),
        }
    }

    /// What it needs to take effect.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Memlock { service } => Some(format!(
                "systemctl daemon-reload && systemctl restart {service}: containers made before keep their limit"
            )),
            Self::Sysctl { .. } | Self::Governor { .. } | Self::RoceTos { .. } => None,
        }
    }
}

/// The limit of a drop-in.
fn limit(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("LimitMEMLOCK="))
}

/// Without a value there is no file.
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
    let text = format!("# Made by `silkrail tune apply`.\n[Service]\nLimitMEMLOCK={value}\n");
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
