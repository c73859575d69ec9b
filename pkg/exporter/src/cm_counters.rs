//! Messages of the connection manager of a port.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{CollectError, Collector};

/// The kinds of messages, as the kernel names their files.
pub(crate) const MESSAGES: [&str; 11] =
    ["req", "mra", "rej", "rep", "rtu", "dreq", "drep", "sidr_req", "sidr_rep", "lap", "apr"];

/// The numbers of messages of the connection manager by kind, in the order of [`MESSAGES`]. `None` if it has no such counter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CmCounters {
    /// Messages sent, with retries.
    pub sent: [Option<u64>; MESSAGES.len()],
    /// Messages sent again because no reply came.
    pub retries: [Option<u64>; MESSAGES.len()],
    /// Messages received, with duplicates.
    pub received: [Option<u64>; MESSAGES.len()],
    /// Messages received again: the reply to the first one was late or lost.
    pub duplicates: [Option<u64>; MESSAGES.len()],
}

impl CmCounters {
    /// Reads the counters of a port; `None` if it has no connection manager. `device` is the directory of the device in sysfs.
    ///
    /// # Kernel
    /// `ports/N/cm_tx_msgs` and so on of the device since Linux 5.14, `class/infiniband_cm/DEVICE/N` before.
    pub(crate) fn read(device: &Path, port: u32, errors: &mut Vec<CollectError>) -> Option<Self> {
        let dir = directories(device, port).into_iter().find(|dir| dir.join("cm_tx_msgs").is_dir())?;
        let mut group = |name: &str| {
            MESSAGES.map(|message| {
                let path = dir.join(name).join(message);
                match fs::read_to_string(&path) {
                    Ok(text) => text.trim().parse().ok(),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                    Err(error) => {
                        let what = format!("{}: {error}", path.display());
                        errors.push(CollectError { what, ..CollectError::new(Collector::Cm, &error) });
                        None
                    }
                }
            })
        };
        Some(Self {
            sent: group("cm_tx_msgs"),
            retries: group("cm_tx_retries"),
            received: group("cm_rx_msgs"),
            duplicates: group("cm_rx_duplicates"),
        })
    }
}

fn directories(device: &Path, port: u32) -> [PathBuf; 2] {
    let name = device.file_name().unwrap_or_default();
    // `class/infiniband/mlx5_0`
    let classes = device.parent().and_then(Path::parent).unwrap_or(device);
    [device.join(format!("ports/{port}")), classes.join("infiniband_cm").join(name).join(port.to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_where_old_and_new_kernels_have_them() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("class/infiniband/mlx5_0");
        for dir in directories(&device, 1) {
            let mut errors = Vec::new();
            assert_eq!(CmCounters::read(&device, 1, &mut errors), None);
            for (group, value) in
                [("cm_tx_msgs", 7), ("cm_tx_retries", 3), ("cm_rx_msgs", 5), ("cm_rx_duplicates", 1)]
            {
                fs::create_dir_all(dir.join(group)).unwrap();
                fs::write(dir.join(group).join("req"), format!("{value}\n")).unwrap();
            }
            let counters = CmCounters::read(&device, 1, &mut errors).unwrap();
            let first = [counters.sent, counters.retries, counters.received, counters.duplicates];
            assert_eq!(first.map(|group| group[0]), [Some(7), Some(3), Some(5), Some(1)]);
            assert_eq!((counters.sent[1], errors.len()), (None, 0));
            fs::remove_dir_all(dir).unwrap();
        }
    }
}
