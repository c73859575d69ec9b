//! `silkrail ipam export`: the addresses of this node's pods as a document, or pools with them for Spiderpool.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    node_addresses::{NodeAddresses, StoreArgs},
    spiderpool_status::{self, PodAddress},
};
use crate::{
    documents,
    exit::{CommandError, CommandExit},
    json,
};

/// Print the addresses of this node's pods, or pools with these addresses for Spiderpool
///
/// Without --spiderpool it prints the addresses of this node's pods in JSON. With it, it reads SpiderIPPool objects and such
/// documents of nodes, and prints the pools whose status.allocatedIPs does not have the addresses yet, with them: so a
/// Spiderpool that is to take over does not assign them. Its controller removes those of pods that are gone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    /// File with SpiderIPPool objects in YAML or JSON, or - for the standard input
    #[arg(long, value_name = "POOLS", requires = "exports")]
    spiderpool: Option<PathBuf>,
    /// Files that this command has printed on nodes
    #[arg(value_name = "EXPORT", requires = "spiderpool")]
    exports: Vec<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

const EXAMPLES: &str = "\
Examples:
  silkrail ipam export > $(hostname).json
  kubectl get spiderippools -o json | silkrail ipam export --spiderpool - *.json > pools.json
  jq -c '.items[]' pools.json | while read -r pool; do
    name=$(jq -r .metadata.name <<< \"$pool\")
    kubectl replace --raw \"/apis/spiderpool.spidernet.io/v2beta1/spiderippools/$name/status\" -f - <<< \"$pool\"
  done

Exit status:
  0   done
  1   an error
  2   wrong usage, or an invalid file
  6   an address is in no pool, its pod is not known, or Spiderpool has it for another pod: it is listed on standard error";

/// What a node exports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeExport {
    /// The kind of the document, to tell it from others.
    kind: String,
    /// The host name.
    pub(super) node: String,
    /// The addresses.
    pub(super) addresses: Vec<PodAddress>,
}

const KIND: &str = "SilkrailAddresses";

impl NodeExport {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let text = documents::text(path)?;
        let invalid = |what: String| CommandError::Network { path: path.to_owned(), what };
        let export: Self = serde_json::from_str(&text)
            .map_err(|error| invalid(format!("expected a document of `silkrail ipam export`: {error}")))?;
        match export.kind == KIND {
            true => Ok(export),
            false => Err(invalid(format!("kind: expected {KIND}, found {:?}", export.kind))),
        }
    }
}

impl ExportArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        match &self.spiderpool {
            Some(pools) => self.print_pools(pools, out),
            None => self.print_addresses(root, out),
        }
    }

    fn print_addresses(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let found = NodeAddresses::read(root, &self.store.state_dir)?;
        let path = root.join("proc/sys/kernel/hostname");
        let node = std::fs::read_to_string(&path).map_err(|source| CommandError::Input { path, source })?;
        let addresses = found.addresses.iter().map(PodAddress::of).collect();
        let export = NodeExport { kind: KIND.to_owned(), node: node.trim().to_owned(), addresses };
        json::print(&export, out)?;
        Ok(CommandExit::Done)
    }

    fn print_pools(&self, pools: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let pools = documents::objects(pools, "SpiderIPPool")?;
        let mut addresses = Vec::new();
        for export in &self.exports {
            addresses.extend(NodeExport::read(export)?.addresses);
        }
        let allocated = spiderpool_status::allocate(&pools, &addresses)
            .map_err(|what| CommandError::Network { path: "pools".into(), what })?;
        for problem in &allocated.problems {
            eprintln!("silkrail: {problem}");
        }
        json::print(&json!({"apiVersion": "v1", "kind": "List", "items": allocated.pools}), out)?;
        Ok(if allocated.problems.is_empty() { CommandExit::Done } else { CommandExit::Found })
    }
}
