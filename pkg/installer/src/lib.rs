//! Installs Silkrail's executables on a node, and uninstalls them.
//!
//! A container runtime may call a plugin at any moment, and the installing process may be killed at any moment. A name in
//! the plugin directory therefore always refers to the complete old file or the complete new one: new content is written
//! under a temporary name in the same directory, synced, run once, and then renamed. A replaced file of another project,
//! such as a Go plugin, is kept in an [`InstallStore`] with its mode and owner, and restored by [`uninstall()`].
//!
//! All names of the CNI plugins are hard links to one file: the IPAM plugin then needs no process of its own.
//!
//! [`Installer::plan`] returns what would be done, [`Installer::apply`] does it. Both are idempotent: files that are up to
//! date are not touched.

#![forbid(unsafe_code)]

mod atomic_install;
mod attachments;
mod destination;
mod elf;
mod error;
mod existing_file;
mod install_action;
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
pub use install_action::InstallAction;
pub use install_record::ReplacedFile;
pub use install_store::InstallStore;
pub use installation::{InstallOptions, Installer, PlannedFile};
pub use name_selection::{NameSelection, UnknownName};
pub use sha256::Sha256;
pub use uninstall::{RemovalOutcome, RemovedFile, uninstall};
pub use version::ReleaseVersion;
