//! Puts Silkrail's executables on a node, and takes them off again.
//!
//! A container runtime may call a plugin at any moment, and whoever installs may be killed at any moment. So a name in
//! the directory of the plugins leads to the whole old file or to the whole new one, always: new content is written
//! beside it under a name that nobody calls, synced, run once, and then renamed. What is replaced and not ours, like the
//! Go plugins of the same names, is kept in a [`InstallStore`] with its mode and owner, and comes back with [`uninstall()`].
//!
//! All names of the CNI plugins are hard links of one file: the IPAM plugin then needs no process of its own.
//!
//! [`Installer::plan`] says what would be done, [`Installer::apply`] does it. Both can be repeated: what is there
//! already is not touched.

#![forbid(unsafe_code)]

mod atomic_install;
mod attachments;
mod destination;
mod elf;
mod error;
mod existing_file;
mod install_record;
mod install_store;
mod install_target;
mod installation;
mod name_selection;
mod probe;
mod selinux_label;
mod sha256;
mod source_program;
mod trusted_owners;
mod uninstall;
mod version;

#[cfg(test)]
mod test_programs;

pub use error::Error;
pub use install_record::ReplacedFile;
pub use install_store::InstallStore;
pub use installation::{InstallAction, InstallOptions, Installer, PlannedFile};
pub use name_selection::{NameSelection, UnknownName};
pub use sha256::Sha256;
pub use uninstall::{RemovalOutcome, RemovedFile, uninstall};
pub use version::ReleaseVersion;
