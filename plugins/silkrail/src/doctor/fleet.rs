//! `silkrail doctor --fleet`: what differs between nodes, from their daemons.

use std::{fs, io::Write, path::PathBuf, time::Duration};

use ::fleet::{DaemonClient, FleetReport, NodeAddress, TlsFiles};

use crate::{
    documents,
    exit::{CommandError, CommandExit},
    json,
};

/// Options of `silkrail doctor --fleet`.
#[derive(Debug, clap::Args)]
pub(super) struct FleetArgs {
    /// Compare nodes, and exit: asks the daemon silkraild of each HOST (HOST:PORT, http(s)://HOST:PORT; default port: 9879)
    ///
    /// Shows what differs between them: firmware, driver, kernel, speed, MTU, PCIe link, the number of devices, VFs and GPUs, with the
    /// value that most nodes have; and the errors, and the warnings that at most half of the nodes have. Kernel, MTU, PCIe, GPUs and
    /// findings are known of nodes on which `silkrail doctor --record` runs; findings are those of the last hour.
    #[arg(long, num_args = 0.., value_delimiter = ',', value_name = "HOST")]
    #[arg(conflicts_with_all = ["list", "history", "record", "bundle", "networks", "chroot", "only", "site"])]
    fleet: Option<Vec<String>>,
    /// Also compare the nodes of a file, or of the standard input with `-`: one in a line, # begins a comment
    #[arg(long, value_name = "FILE", requires = "fleet")]
    fleet_file: Option<PathBuf>,
    /// The time limit for each node, in seconds
    #[arg(long, default_value = "5", value_name = "SECONDS", requires = "fleet")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=600))]
    fleet_timeout: u64,
    /// The certificates of the authority that signed those of the daemons, for https
    #[arg(long, value_name = "FILE", requires = "fleet")]
    fleet_ca: Option<PathBuf>,
    /// A client certificate, for daemons that demand one
    #[arg(long, value_name = "FILE", requires_all = ["fleet", "fleet_key"])]
    fleet_cert: Option<PathBuf>,
    /// The key of the client certificate
    #[arg(long, value_name = "FILE", requires_all = ["fleet", "fleet_cert"])]
    fleet_key: Option<PathBuf>,
    /// A bearer token for daemons with --web.token-review; it is sent over https only
    #[arg(long, value_name = "FILE", requires = "fleet")]
    fleet_token_file: Option<PathBuf>,
}

/// The number of nodes that are asked at the same time.
const CONCURRENCY: usize = 64;
/// More nodes of one value are counted, and not listed; --json lists them.
const MAX_LISTED: usize = 8;

impl FleetArgs {
    /// Whether nodes are to be compared.
    pub(super) fn is_wanted(&self) -> bool {
        self.fleet.is_some()
    }

    pub(super) fn run(&self, as_json: bool, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let addresses = self.addresses()?;
        let files = TlsFiles {
            ca: self.fleet_ca.clone(),
            identity: self.fleet_cert.clone().zip(self.fleet_key.clone()),
        };
        let token = self.token(&addresses)?;
        let client = DaemonClient::new(&addresses, Duration::from_secs(self.fleet_timeout), token, &files)?;
        let report = FleetReport::of(&::fleet::read_all(&client, &addresses, CONCURRENCY));
        if as_json {
            json::print(&report, out)?;
        } else {
            print(&report, out)?;
        }
        Ok(match report.nodes {
            0 => CommandExit::Failed,
            _ if report.is_uniform() => CommandExit::Done,
            _ => CommandExit::Found,
        })
    }

    fn addresses(&self) -> Result<Vec<NodeAddress>, CommandError> {
        let text = self.fleet_file.as_deref().map(documents::text).transpose()?.unwrap_or_default();
        let of_file = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let names = self.fleet.iter().flatten().map(String::as_str).chain(of_file);
        let mut addresses: Vec<NodeAddress> = Vec::new();
        for name in names.filter(|name| !name.is_empty()) {
            let address: NodeAddress = name.parse()?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(CommandError::NoNodes);
        }
        Ok(addresses)
    }

    fn token(&self, addresses: &[NodeAddress]) -> Result<Option<String>, CommandError> {
        let Some(path) = &self.fleet_token_file else { return Ok(None) };
        let text =
            fs::read_to_string(path).map_err(|source| CommandError::Input { path: path.clone(), source })?;
        let token = text.trim().to_owned();
        let is_valid = |c: char| c.is_ascii_graphic();
        if token.is_empty() || !token.chars().all(is_valid) {
            let what = "expected a token in one line".to_owned();
            return Err(CommandError::Network { path: path.clone(), what });
        }
        match addresses.iter().find(|address| !address.is_tls) {
            Some(address) => Err(CommandError::TokenInClear(address.to_string())),
            None => Ok(Some(token)),
        }
    }
}

fn print(report: &FleetReport, out: &mut dyn Write) -> Result<(), CommandError> {
    if !report.differences.is_empty() {
        writeln!(out, "DIFFERENCES")?;
    }
    for difference in &report.differences {
        writeln!(out, "  {}", difference.property)?;
        writeln!(out, "      {}  on {}", difference.majority, count(difference.count))?;
        for other in &difference.others {
            writeln!(
                out,
                "      {}  on {}: {}",
                other.value,
                count(other.nodes.len()),
                listed(&other.nodes)
            )?;
        }
        if !difference.missing.is_empty() {
            writeln!(
                out,
                "      without it: {}: {}",
                count(difference.missing.len()),
                listed(&difference.missing)
            )?;
        }
    }
    if !report.findings.is_empty() {
        writeln!(out, "FINDINGS")?;
    }
    for spread in &report.findings {
        let nodes = spread.nodes.iter().map(|(node, objects)| format!("{node} ({})", listed(objects)));
        let nodes: Vec<_> = nodes.collect();
        writeln!(
            out,
            "  {} [{}]  on {}: {}",
            spread.severity,
            spread.id,
            count(nodes.len()),
            listed(&nodes)
        )?;
    }
    if !report.not_examined.is_empty() {
        writeln!(out, "NOT EXAMINED BY THE DOCTOR WITHIN THE LAST HOUR")?;
        writeln!(out, "  {}: {}", count(report.not_examined.len()), listed(&report.not_examined))?;
    }
    if !report.unreachable.is_empty() {
        writeln!(out, "UNREACHABLE")?;
    }
    for node in &report.unreachable {
        writeln!(out, "  {}: {}", node.address, node.reason)?;
    }
    Ok(writeln!(
        out,
        "{} compared, {} unreachable: {} differences, {} findings, {} not examined",
        count(report.nodes),
        report.unreachable.len(),
        report.differences.len(),
        report.findings.len(),
        report.not_examined.len()
    )?)
}

fn count(nodes: usize) -> String {
    format!("{nodes} node{}", if nodes == 1 { "" } else { "s" })
}

fn listed(names: &[String]) -> String {
    match names.len().checked_sub(MAX_LISTED) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..MAX_LISTED].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{Command, SilkrailCli};

    fn args(text: &str) -> FleetArgs {
        let words = ["silkrail", "doctor"].into_iter().chain(text.split_ascii_whitespace());
        match SilkrailCli::parse_from(words).command {
            Command::Doctor(args) => *args.fleet,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nodes_of_the_command_line_and_of_a_file_are_asked_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "# all\n\nb  # rack 2\nd:80\na\n").unwrap();
        let named = args(&format!("--fleet a,b c --fleet-file {}", file.path().display()));
        let addresses: Vec<_> = named.addresses().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["a:9879", "b:9879", "c:9879", "d:80"]);
        assert!(matches!(args("--fleet").addresses(), Err(CommandError::NoNodes)));
        assert!(matches!(args("--fleet a,ftp://b").addresses(), Err(CommandError::NodeAddress(_))));
    }

    #[test]
    fn a_token_is_one_line_and_never_sent_in_clear_text() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let token = |text: &str, hosts: &str| {
            fs::write(file.path(), text).unwrap();
            let args = args(&format!("--fleet {hosts} --fleet-token-file {}", file.path().display()));
            args.token(&args.addresses().unwrap())
        };
        assert_eq!(token("abc\n", "https://a,https://b").unwrap().as_deref(), Some("abc"));
        let clear = token("abc\n", "https://a,b").unwrap_err();
        assert!(matches!(clear, CommandError::TokenInClear(address) if address == "b:9879"));
        for wrong in ["", "\n", "a b", "a\r\nb", "ä"] {
            assert!(matches!(token(wrong, "https://a"), Err(CommandError::Network { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn eight_nodes_are_listed_and_more_are_counted() {
        let names: Vec<String> = (1..=10).map(|number| number.to_string()).collect();
        assert_eq!(listed(&names[..8]), "1, 2, 3, 4, 5, 6, 7, 8");
        assert_eq!(listed(&names), "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
        assert_eq!((listed(&names[..1]), listed(&[])), ("1".to_owned(), String::new()));
    }
}
