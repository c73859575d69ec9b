//! Networks as container runtimes and Multus read them: files of a configuration directory, and NetworkAttachmentDefinitions.
//!
//! [`Network::from_file`] and [`Network::from_definition`] accept what libcni and Multus accept; what they refuse is an
//! [`InvalidNetwork`]. [`NetworkDirectories`] are the directories that the configuration of a runtime names. Nothing is read from the
//! node: callers pass the text of files.

#![forbid(unsafe_code)]

mod invalid_network;
mod network;
mod network_directories;

pub use invalid_network::InvalidNetwork;
pub use network::{Network, NetworkPlugin, is_network_file};
pub use network_directories::NetworkDirectories;
