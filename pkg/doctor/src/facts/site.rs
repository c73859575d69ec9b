//! The site file, `/etc/silkrail/site.yaml`, as it applies to this node.

use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use site::{PortIdentity, SiteFile};

use super::functions::FunctionFacts;
use crate::{Known, host_root::HostRoot};

/// The file of a node, unless another one is named.
const FILE: &str = "/etc/silkrail/site.yaml";

/// The expectations of the site; none without a file.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteFacts {
    /// The path of the file on the node.
    pub(crate) file: String,
    /// The name of this node, which the patterns of the file are compared with.
    pub(crate) node: String,
    /// The time of the examination, in seconds since 1970.
    pub(crate) time: u64,
    /// The error if the file is invalid, or is missing although it was named.
    pub(crate) problem: Option<String>,
    pub(crate) content: SiteFile,
}

impl SiteFacts {
    pub(crate) fn read(tree: &HostRoot, named: Option<&Path>, node: &str) -> Self {
        let file = named.map_or_else(|| PathBuf::from(FILE), Path::to_owned);
        let (content, problem) = match tree.text(&file) {
            Known::Value(text) => match SiteFile::parse(&text) {
                Ok(content) => (content, None),
                Err(error) => (SiteFile::default(), Some(error.to_string())),
            },
            Known::Absent if named.is_some() => {
                (SiteFile::default(), Some("the file does not exist".to_owned()))
            }
            // What cannot be read is listed as not examined.
            Known::Absent | Known::Unknown => (SiteFile::default(), None),
        };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { file: file.display().to_string(), node: node.to_owned(), time, problem, content }
    }
}

/// Returns what the function of a port is selected by.
pub(crate) fn function_identity(function: Option<&FunctionFacts>) -> PortIdentity<'_> {
    let Some(function) = function else { return PortIdentity::default() };
    PortIdentity {
        pci: Some(&function.address),
        vendor: Some(&function.vendor),
        device: function.model.split(':').nth(1),
        driver: function.driver.as_deref(),
        ..PortIdentity::default()
    }
}
