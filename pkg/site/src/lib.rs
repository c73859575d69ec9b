//! The site file: what a site expects of the RDMA ports and GPUs of its nodes.
//!
//! The file is the same on all nodes. A [`PortRole`] selects ports by patterns and says what they have; a port has the first role
//! that selects it. [`SiteFile::ignores`] accepts findings that a site knows. This crate parses and matches, and reads nothing of
//! a node.

#![forbid(unsafe_code)]

mod date;
mod gpu_role;
mod ignored_finding;
mod invalid_site_file;
mod name_pattern;
mod node_patterns;
mod port_role;
mod port_selector;
mod site_file;

pub use date::Date;
pub use gpu_role::{GpuRole, GpuSelector};
pub use ignored_finding::IgnoredFinding;
pub use invalid_site_file::InvalidSiteFile;
pub use name_pattern::NamePattern;
pub use node_patterns::NodePatterns;
pub use port_role::{ExpectedPcie, LinkLayer, PortRole};
pub use port_selector::{PortIdentity, PortSelector};
pub use site_file::SiteFile;
