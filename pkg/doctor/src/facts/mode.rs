//! The RDMA mode: the current one, and the one after the next boot.

use std::{path::PathBuf, time::UNIX_EPOCH};

use modprobe::{IbCoreLocation, ModprobeConfig, ModprobeOption, NextBootMode};
use rdma::NetnsMode;
use serde::Serialize;
use sysfs::Sysfs;

use super::kernel::KernelFacts;
use crate::host_root::HostRoot;

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModeFacts {
    /// The current mode; `None` without RDMA, or if it is unknown.
    pub(crate) now: Option<NetnsMode>,
    /// The error of a kernel that is too old to have an RDMA mode.
    pub(crate) too_old: Option<String>,
    /// The options in modprobe.d(5) files, in the order in which modprobe applies them.
    pub(crate) settings: Vec<ModprobeOption>,
    /// The mode on the kernel command line: `ib_core.netns_mode`.
    pub(crate) command_line: Option<NetnsMode>,
    /// The resulting mode after the next boot; `None` if a file could not be read.
    pub(crate) next: Option<NextBootMode>,
    pub(crate) initramfs: Option<InitramfsFacts>,
    /// The modification time of the file that determines the mode, in seconds since 1970.
    pub(crate) written: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct InitramfsFacts {
    pub(crate) image: PathBuf,
    pub(crate) command: &'static str,
    /// The modification time of the image, in seconds since 1970.
    pub(crate) made: Option<u64>,
}

impl ModeFacts {
    pub(crate) fn read(
        tree: &HostRoot,
        kernel: &KernelFacts,
        reported: Option<Result<NetnsMode, rdma::Error>>,
    ) -> Self {
        let command_line = kernel.command_line.get().and_then(|text| modprobe::command_line(text));
        let settings = settings(tree);
        let next = settings.as_ref().map(|settings| {
            let is_effective = kernel.ib_core != Some(IbCoreLocation::BuiltIn);
            NextBootMode::of(if is_effective { settings } else { &[] }, command_line)
        });
        let file = next.as_ref().and_then(|next| next.file.clone());
        let (now, too_old) = match reported {
            Some(Ok(mode)) => (Some(mode), None),
            Some(Err(error @ rdma::Error::TooOld { .. })) => (None, Some(error.to_string())),
            _ => (parameter(tree), None),
        };
        Self {
            now,
            too_old,
            settings: settings.unwrap_or_default(),
            command_line,
            written: file.and_then(|file| modified(tree, file)),
            next,
            initramfs: initramfs(tree, kernel),
        }
    }
}

/// Returns the options of modprobe, with paths as on the node.
fn settings(tree: &HostRoot) -> Option<Vec<ModprobeOption>> {
    match ModprobeConfig::below(&tree.path("")).settings() {
        Ok(settings) => {
            let shown = |setting: ModprobeOption| ModprobeOption {
                path: tree.shown(&setting.path).into(),
                ..setting
            };
            Some(settings.into_iter().map(shown).collect())
        }
        Err(error) => {
            tree.note_unexamined("the RDMA mode after the next boot", error);
            None
        }
    }
}

fn parameter(tree: &HostRoot) -> Option<NetnsMode> {
    match Sysfs::at(tree.path("sys")).shared_netns_parameter() {
        Ok(shared) => Some(if shared? { NetnsMode::Shared } else { NetnsMode::Exclusive }),
        Err(error) => {
            tree.note_unexamined("the RDMA mode", error);
            None
        }
    }
}

fn initramfs(tree: &HostRoot, kernel: &KernelFacts) -> Option<InitramfsFacts> {
    let modprobe::Initramfs { image, command } =
        modprobe::KernelModules::of(&tree.path(""), kernel.release.get()?).initramfs()?;
    let image = PathBuf::from(tree.shown(&image));
    Some(InitramfsFacts { made: modified(tree, image.clone()), image, command })
}

fn modified(tree: &HostRoot, path: PathBuf) -> Option<u64> {
    let modified = tree.metadata(path).into_option()?.modified().ok()?;
    Some(modified.duration_since(UNIX_EPOCH).ok()?.as_secs())
}
