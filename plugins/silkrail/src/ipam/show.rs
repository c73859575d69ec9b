//! `silkrail ipam show`: which pod has which address.

use std::{io::Write, path::Path};

use serde_json::json;

use super::node_addresses::{AddressRow, NodeAddresses, StoreArgs};
use crate::{
    exit::{CommandError, CommandExit},
    json, state_dir_warning, table,
};

/// List the addresses of this node's pods, the use of pools, and the blocks of the cluster's pools
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    store: StoreArgs,
}

const EXAMPLES: &str = "\
POOLS are those that were used since boot, with the addresses that this node can assign. BLOCKS are leased from pools of
the cluster (`kubectl get ipblocks`); a withdrawn one is released as soon as none of its addresses is in use.

Examples:
  silkrail ipam show
  silkrail ipam show --json | jq -r '.addresses[] | select(.pod == \"worker-0\") | .address'

Exit status:
  0   done
  1   an error
  2   wrong usage";

impl ShowArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let found = NodeAddresses::read(root, &self.store.state_dir)?;
        if self.store.json {
            print_json(&found, out)?;
        } else {
            print(&found, out)?;
            state_dir_warning::warn_if_missing(&self.store.state_dir, out)?;
        }
        Ok(CommandExit::Done)
    }
}

fn print_json(found: &NodeAddresses, out: &mut dyn Write) -> Result<(), CommandError> {
    let pools: Vec<_> = found
        .pools
        .iter()
        .map(|pool| json!({"pool": pool.pool.as_str(), "family": pool.family.version(), "addresses": pool.addresses, "used": pool.claimed}))
        .collect();
    let blocks = |blocks: &[ipam::IpBlock]| blocks.iter().map(|block| block.cidr()).collect::<Vec<_>>();
    let value = json!({
        "addresses": found.addresses,
        "pools": pools,
        "blocks": blocks(&found.blocks),
        "withdrawnBlocks": blocks(&found.withdrawn),
    });
    json::print(&value, out)
}

fn print(found: &NodeAddresses, out: &mut dyn Write) -> Result<(), CommandError> {
    let cells = |row: &AddressRow| {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        [
            row.address.to_string(),
            text(&row.namespace),
            text(&row.pod),
            text(&row.network),
            row.owner.clone(),
            text(&row.block),
        ]
    };
    let rows: Vec<_> = found.addresses.iter().map(cells).collect();
    table::print(out, ["ADDRESS", "NAMESPACE", "POD", "NETWORK", "ATTACHMENT", "BLOCK"], &rows)?;
    if !found.pools.is_empty() {
        let rows: Vec<_> = found
            .pools
            .iter()
            .map(|pool| [pool.pool.to_string(), pool.claimed.to_string(), pool.addresses.to_string()])
            .collect();
        writeln!(out)?;
        table::print(out, ["POOL", "USED", "ADDRESSES"], &rows)?;
    }
    if !found.blocks.is_empty() || !found.withdrawn.is_empty() {
        let used = |block: &ipam::IpBlock| {
            found.addresses.iter().filter(|row| block.contains(row.address)).count().to_string()
        };
        let of = |blocks: &[ipam::IpBlock], state: &str| -> Vec<_> {
            blocks.iter().map(|block| [block.cidr(), used(block), state.to_owned()]).collect()
        };
        let rows = [of(&found.blocks, "leased"), of(&found.withdrawn, "withdrawn")].concat();
        writeln!(out)?;
        table::print(out, ["BLOCK", "USED", "STATE"], &rows)?;
    }
    Ok(())
}
