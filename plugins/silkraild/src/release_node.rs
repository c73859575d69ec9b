//! `silkraild ipam-release-node`, which `silkrail ipam release-node` runs: it needs the client of the API server.

use std::io::{self, Write};

use clap::Args;
use cluster_ipam::{LeasedBlock, NodePresence, NodeRelease, NodeReleaseError};
use consent::{Consent, Intent};
use serde_json::json;

/// Release the blocks of a node that is gone for ever, without waiting for the controller
///
/// Use it when a machine is off and its Node object still exists, or when the hold-down time is too long. The machine must be
/// off: if its pods run, other pods get their addresses. A Node whose kubelet reports is refused, except for blocks of a former
/// machine with its name. Needs the rights to list nodes and ipblocks and to change and delete ipblocks, with KUBECONFIG. Nothing is
/// changed without --yes or a yes on the terminal.
#[derive(Debug, Args)]
pub(crate) struct ReleaseNodeArgs {
    /// Name of the node in Kubernetes
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    consent: Consent,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Why blocks were not released.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error("no Kubernetes API is configured: set KUBECONFIG")]
    NoApi,
    #[error(transparent)]
    Access(#[from] kubeapi::Error),
    #[error(transparent)]
    Node(#[from] NodeReleaseError),
    #[error("{0} of {1} blocks were not released; try again")]
    Incomplete(usize, usize),
    #[error("failed to write the output: {0}")]
    Output(#[from] io::Error),
}

/// Releases the blocks, or lists them.
pub(crate) fn run(args: &ReleaseNodeArgs) -> Result<(), ReleaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(release(args))
}

async fn release(args: &ReleaseNodeArgs) -> Result<(), ReleaseError> {
    let client = kubeapi::connect().await?.ok_or(ReleaseError::NoApi)?;
    let node = NodeRelease::read(client, &args.node).await?;
    if node.blocks().is_empty() && node.node() != NodePresence::Gone {
        return Err(NodeReleaseError::Present(args.node.clone()).into());
    }
    let intent = args.consent.intent(args.json, Intent::Show);
    let mut results = results(&node, intent == Intent::Act).await;
    if args.json {
        print_json(&results)?;
    } else {
        print(&args.node, &results)?;
    }
    if intent == Intent::Ask && !results.is_empty() && consent::confirmed(&mut io::stdout().lock())? {
        results = self::results(&node, true).await;
        print(&args.node, &results)?;
    }
    match results.iter().filter(|(_, result)| result.is_err()).count() {
        0 => Ok(()),
        failed => Err(ReleaseError::Incomplete(failed, results.len())),
    }
}

async fn results(node: &NodeRelease, acts: bool) -> Vec<BlockResult<'_>> {
    let mut results = Vec::new();
    for block in node.blocks() {
        let result = match acts {
            false => Ok(false),
            true => node.release(block).await.map(|()| true).map_err(|error| error.to_string()),
        };
        results.push((block, result));
    }
    results
}

/// A block, and whether it was released, or why not.
type BlockResult<'a> = (&'a LeasedBlock, Result<bool, String>);

fn state(result: &Result<bool, String>) -> String {
    match result {
        Ok(true) => "released".to_owned(),
        Ok(false) => "would be released with --yes".to_owned(),
        Err(problem) => format!("not released: {problem}"),
    }
}

fn print(node: &str, results: &[BlockResult<'_>]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if results.is_empty() {
        return writeln!(out, "node {node} has no blocks");
    }
    writeln!(out, "{:<24} {:>5}  RESULT", "BLOCK", "USED")?;
    for (block, result) in results {
        writeln!(out, "{:<24} {:>5}  {}", block.block().cidr(), block.used, state(result))?;
    }
    Ok(())
}

fn print_json(results: &[BlockResult<'_>]) -> io::Result<()> {
    let row = |(block, result): &BlockResult<'_>| {
        let name = match result {
            Ok(true) => "released",
            Ok(false) => "wouldRelease",
            Err(_) => "failed",
        };
        json!({"block": block.block().cidr(), "used": block.used, "result": name, "reason": result.as_ref().err()})
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    writeln!(io::stdout().lock(), "{:#}", json!(rows))
}
