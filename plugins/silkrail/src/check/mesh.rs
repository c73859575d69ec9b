//! `silkrail check mesh`: tests of all pairs of several nodes.

use std::{
    collections::BTreeSet,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use check::{
    QueuePairs, RdmaOperation, Seconds, Size, TestKind, TestSpec,
    client::resolve,
    mesh::{self, MeshPlan, MeshResult, NodePair, OUTLIER_PERCENT},
    protocol::CheckToken,
    result_store::ResultStore,
    verdict::Threshold,
};

use super::{local_context::local_context, measure, print};
use crate::{
    exit::{CommandError, CommandExit},
    json,
};

/// Test all pairs of nodes where `silkrail check serve` runs
///
/// The nodes test each other, in rounds in which each node takes part at most once. The command only instructs them and can
/// run on any machine that reaches them. The other nodes must be able to reach each HOST by the same address.
#[derive(Debug, clap::Args)]
#[command(after_help = examples())]
pub(crate) struct MeshArgs {
    /// The nodes
    #[arg(required = true, num_args = 2.., value_name = "HOST[:PORT]")]
    hosts: Vec<String>,
    /// The RDMA operation: read, write or send
    #[arg(long, default_value = "write")]
    op: RdmaOperation,
    /// Measure latency instead of bandwidth
    #[arg(long)]
    latency: bool,
    /// The message size in bytes; suffixes K and M; default: 64K, for latency 8
    #[arg(long, value_name = "BYTES")]
    size: Option<Size>,
    /// The number of queue pairs
    #[arg(long, default_value = "8", value_name = "N", conflicts_with = "latency")]
    qps: QueuePairs,
    /// The duration of each test in seconds
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = measure::seconds)]
    duration: Seconds,
    /// Minimum bandwidth in percent of the slower port's speed; default: 80
    #[arg(long, value_parser = measure::positive, value_name = "PERCENT", conflicts_with = "latency")]
    threshold: Option<f64>,
    /// Minimum bandwidth in Gb/s
    #[arg(long, value_parser = measure::positive, value_name = "GBPS", conflicts_with_all = ["latency", "threshold"])]
    min_gbps: Option<f64>,
    /// Maximum latency in microseconds
    #[arg(long, value_parser = measure::positive, value_name = "MICROSECONDS", requires = "latency")]
    max_us: Option<f64>,
    /// The file with the shared secret of all nodes; see `silkrail check serve --help`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Do not store the results
    #[arg(long)]
    no_store: bool,
}

fn examples() -> String {
    format!(
        "\
Examples:
  silkrail check mesh 10.1.70.1 10.1.70.2 10.1.70.3 10.1.70.4 --token-file /etc/silkrail/check.token
  silkrail check mesh $(cat hosts) --op read --json >mesh.json

A pair is an outlier if it is more than {OUTLIER_PERCENT} % worse than the median. A node is slow if most of its pairs are outliers.

Exit status:
  0   all pairs have a result, none is below the threshold or an outlier
  1   an error: pairs without a result are listed, the other results are stored
  2   wrong usage
  6   a pair is below the threshold or an outlier"
    )
}

impl MeshArgs {
    pub(super) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let node = local_context(root)?;
        let store = ResultStore::below(root);
        let plan = self.plan()?;
        let total = self.hosts.len() * (self.hosts.len() - 1) / 2;
        let mut done = 0;
        let mut store_error = None;
        let mesh = mesh::run(&plan, &node, |pair, plan| {
            done += 1;
            if let Some(record) = pair.record.as_mut().filter(|_| !self.no_store) {
                store_error = measure::save_result(&store, record).err().or(store_error.take());
            }
            eprintln!("[{done}/{total}] {}", print_pair(pair, &plan.agents));
        })?;
        if self.json {
            json::print(&mesh, out)?;
        } else {
            print(&mesh, out)?;
        }
        match store_error {
            Some(failure) => Err(failure),
            None if mesh.failures() > 0 => Ok(CommandExit::Failed),
            None if mesh.is_wrong() => Ok(CommandExit::Found),
            None => Ok(CommandExit::Done),
        }
    }

    fn plan(&self) -> Result<MeshPlan, CommandError> {
        let agents = agents(&self.hosts)?;
        let kind = if self.latency { TestKind::Latency } else { TestKind::Bandwidth };
        let size = self.size.unwrap_or(if self.latency { Size::LATENCY_SIZE_DEFAULT } else { Size::DEFAULT });
        let queue_pairs = if self.latency { QueuePairs::LATENCY_DEFAULT } else { self.qps };
        Ok(MeshPlan {
            agents,
            test: TestSpec { kind, operation: self.op, size, queue_pairs, duration: self.duration },
            limit: Threshold { percent: self.threshold, min_gbps: self.min_gbps, max_us: self.max_us },
            token: self.token_file.as_deref().map(CheckToken::read).transpose()?,
        })
    }
}

fn agents(hosts: &[String]) -> Result<Vec<(String, SocketAddr)>, CommandError> {
    let mut agents = Vec::new();
    let mut seen = BTreeSet::new();
    for host in hosts {
        let address = resolve(host)?;
        if !seen.insert(address) {
            return Err(CommandError::NodeTwice(host.clone()));
        }
        // In /etc/hosts of Debian, the node's own name has the address 127.0.1.1.
        if address.ip().is_loopback() {
            return Err(CommandError::Loopback(host.clone(), address.ip()));
        }
        agents.push((host.clone(), address));
    }
    Ok(agents)
}

fn print_pair(pair: &NodePair, agents: &[(String, SocketAddr)]) -> String {
    let (client, server) = (&agents[pair.client].0, &agents[pair.server].0);
    match (&pair.record, &pair.error) {
        (Some(record), _) => format!("{client} to {server}: {}", print::value(record)),
        (None, error) => format!("{client} to {server}: failed: {}", error.as_deref().unwrap_or("no result")),
    }
}

/// Prints the matrix of the averages, followed by the outliers, the slow nodes and the failures.
fn print(mesh: &MeshResult, out: &mut dyn Write) -> Result<(), CommandError> {
    let names: Vec<&str> = mesh.nodes.iter().map(String::as_str).collect();
    let first = names.iter().map(|name| name.len()).max().unwrap_or(0);
    write!(out, "{:first$}", "")?;
    for name in &names {
        write!(out, "  {name:>9}")?;
    }
    writeln!(out)?;
    for (row, name) in names.iter().enumerate() {
        write!(out, "{name:first$}")?;
        for (column, other) in names.iter().enumerate() {
            let cell = match mesh.between(row, column) {
                _ if row == column => "-".into(),
                Some(pair) => pair.value().map_or_else(|| "failed".into(), |value| format!("{value:.2}")),
                None => String::new(),
            };
            write!(out, "  {cell:>width$}", width = other.len().max(9))?;
        }
        writeln!(out)?;
    }
    if let Some(median) = mesh.median {
        writeln!(out, "median {median:.2} ({})", unit(mesh))?;
    }
    for outlier in &mesh.outliers {
        let (client, server) = (names[outlier.client], names[outlier.server]);
        writeln!(
            out,
            "outlier: {client} to {server}: {:.2}, {:.0} % worse than the median",
            outlier.value, outlier.worse_percent
        )?;
    }
    for slow in &mesh.slow_nodes {
        writeln!(
            out,
            "slow node: {}: {} of its {} pairs are outliers",
            names[slow.node], slow.outliers, slow.pairs
        )?;
    }
    for pair in mesh.pairs.iter().filter(|pair| pair.record.is_none()) {
        let why = pair.error.as_deref().unwrap_or("no result");
        writeln!(out, "failed: {} to {}: {why}", names[pair.client], names[pair.server])?;
    }
    Ok(())
}

fn unit(mesh: &MeshResult) -> &'static str {
    let latency =
        mesh.pairs.iter().flat_map(|pair| &pair.record).any(|record| record.test.kind == TestKind::Latency);
    if latency { "us" } else { "Gb/s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_a_mesh_is_named_once_and_has_no_loopback_address() {
        let of = |hosts: &[&str]| agents(&hosts.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["192.0.2.1", "192.0.2.2"]).unwrap().len(), 2);
        assert!(matches!(of(&["192.0.2.1", "192.0.2.1:18514"]), Err(CommandError::NodeTwice(_))));
        for own in ["127.0.0.1", "127.0.1.1:99"] {
            assert!(matches!(of(&["192.0.2.1", own]), Err(CommandError::Loopback(..))), "{own}");
        }
    }
}
