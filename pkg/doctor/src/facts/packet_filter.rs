//! The packet filter of the node, asked about the ports that RDMA and its tools need.

use std::{
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::Value;

use super::{
    ExaminationScope,
    filter_rules::{FilterTable, FirstPacket, Transport},
    iptables_rules,
    kernel::KernelFacts,
    nft_rules,
};
use crate::host_root::HostRoot;

/// A port that the node's packet filter surely drops packets to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DroppedPort {
    pub(crate) transport: Transport,
    pub(crate) port: u16,
    /// The chain or the rule.
    pub(crate) by: String,
}

/// RoCE v2.
pub(crate) const ROCE: u16 = 4791;
/// silkraild.
pub(crate) const METRICS: u16 = 9879;
/// `silkrail check serve`, and the first port of perftest.
pub(crate) const CHECK: u16 = 18_514;
pub(crate) const PERFTEST: u16 = 18_515;

const PACKETS: [FirstPacket; 4] = [
    FirstPacket { transport: Transport::Udp, port: ROCE },
    FirstPacket { transport: Transport::Tcp, port: METRICS },
    FirstPacket { transport: Transport::Tcp, port: CHECK },
    FirstPacket { transport: Transport::Tcp, port: PERFTEST },
];

const NFT: [&str; 3] = ["usr/sbin/nft", "sbin/nft", "usr/bin/nft"];
const IPTABLES_SAVE: [&str; 4] = [
    "usr/sbin/iptables-legacy-save",
    "sbin/iptables-legacy-save",
    "usr/sbin/iptables-save",
    "sbin/iptables-save",
];
/// The tables of iptables that are not kept in nftables.
const LEGACY_TABLES: &str = "proc/net/ip_tables_names";
/// The timeout of a program.
const TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_OUTPUT_BYTES: u64 = 16 << 20;
/// More tables are not read.
const MAX_TABLES: usize = 16;
const WHAT: &str = "the packet filter";

/// Asks the packet filter of the host's network namespace. Runs nothing that would load a module of the kernel.
pub(crate) fn read(tree: &HostRoot, scope: &ExaminationScope, kernel: &KernelFacts) -> Vec<DroppedPort> {
    if !scope.can_query_netlink() || !scope.superuser {
        return Vec::new();
    }
    let mut tables = Vec::new();
    match kernel.has_module("nf_tables") {
        Some(true) => match program(tree, &NFT)
            .ok_or_else(|| "nft is not installed".to_owned())
            .and_then(|nft| nftables(&nft))
        {
            Ok(found) => tables.extend(found),
            Err(why) => tree.note_unexamined(WHAT, why),
        },
        Some(false) => {}
        None => tree.note_unexamined(WHAT, "whether nf_tables is loaded is unknown, and nft would load it"),
    }
    let legacy = tree.text(LEGACY_TABLES);
    if legacy.is_and(|names| names.lines().any(|name| name == "filter")) {
        let save = program(tree, &IPTABLES_SAVE).ok_or_else(|| "iptables-save is not installed".to_owned());
        match save.and_then(|save| run(&save, &["-t", "filter"])) {
            Ok(text) => tables.push(iptables_rules::table(&String::from_utf8_lossy(&text))),
            Err(why) => tree.note_unexamined(WHAT, why),
        }
    }
    dropped(&tables)
}

fn dropped(tables: &[FilterTable]) -> Vec<DroppedPort> {
    let dropped = PACKETS.into_iter().filter_map(|packet| {
        let by = tables.iter().find_map(|table| table.drops(packet))?;
        Some(DroppedPort { transport: packet.transport, port: packet.port, by })
    });
    dropped.collect()
}

fn program(tree: &HostRoot, paths: &[&str]) -> Option<PathBuf> {
    paths.iter().map(|path| tree.path(path)).find(|path| path.is_file())
}

fn nftables(nft: &Path) -> Result<Vec<FilterTable>, String> {
    let listing = |arguments: &[&str]| -> Result<Value, String> {
        let text = run(nft, arguments)?;
        serde_json::from_slice(&text).map_err(|error| format!("nft {}: {error}", arguments.join(" ")))
    };
    let tables = nft_rules::filtering_tables(&listing(&["-j", "list", "chains"])?);
    let read = tables.iter().take(MAX_TABLES).map(|table| {
        let of_table = listing(&["-j", "list", "table", &table.family, &table.name])?;
        Ok(nft_rules::table(table, &of_table))
    });
    read.collect()
}

/// Runs a program, and returns its output. After the timeout it is killed.
fn run(program: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let name = || format!("{} {}", program.display(), arguments.join(" "));
    let failed = |error: std::io::Error| format!("{}: {error}", name());
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let stdout = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut text));
        read.transpose().map(|_| text)
    });
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => break,
            Some(status) => return Err(format!("{}: {status}", name())),
            None if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{}: it did not end within {} s", name(), TIMEOUT.as_secs()));
            }
        }
    }
    reader.join().map_err(|_| format!("{}: its output could not be read", name()))?.map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;
    use crate::Known;

    /// Another process writes the script: a process that another test starts meanwhile would have it open ("Text file busy").
    fn script(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Command::new("sh");
        writer.args(["-c", "cat >nft && chmod 755 nft"]).current_dir(dir.path()).stdin(Stdio::piped());
        let mut writer = writer.spawn().unwrap();
        write!(writer.stdin.take().unwrap(), "#!/bin/sh\n{text}\n").unwrap();
        assert!(writer.wait().unwrap().success());
        dir
    }

    #[test]
    fn tables_with_an_input_chain_are_read() {
        let chain = r#"{"chain": {"family": "ip", "table": "f", "name": "in", "type": "filter", "hook": "input", "policy": "drop"}}"#;
        let dir =
            script(&format!("echo '{{\"nftables\": [{chain}]}}'; echo \"$@\" >> {}", "\"${0%/*}/calls\""));
        let tables = nftables(&dir.path().join("nft")).unwrap();
        let ports: Vec<_> = dropped(&tables).into_iter().map(|dropped| dropped.port).collect();
        assert_eq!(ports, [ROCE, METRICS, CHECK, PERFTEST]);
        let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
        assert_eq!(calls, "-j list chains\n-j list table ip f\n");
    }

    #[test]
    fn nft_is_run_only_if_the_module_is_known_to_be_loaded() {
        let scope = ExaminationScope { superuser: true, this_machine: true, nodes_netns: Some(true) };
        let loaded = |names: &[&str]| {
            let modules = names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
            KernelFacts {
                modules: Known::Value(modules),
                parts: Known::Value(Vec::new()),
                ..KernelFacts::default()
            }
        };
        for (kernel, is_run, unexamined) in [
            (loaded(&["nf_tables"]), true, 0),
            (loaded(&["ib_core"]), false, 0),
            (KernelFacts::default(), false, 1),
        ] {
            let dir = script("echo '{\"nftables\": []}'; : > \"${0%/*}/called\"");
            fs::create_dir_all(dir.path().join("usr/sbin")).unwrap();
            fs::rename(dir.path().join("nft"), dir.path().join("usr/sbin/nft")).unwrap();
            let tree = HostRoot::at(dir.path());
            assert!(read(&tree, &scope, &kernel).is_empty());
            assert_eq!(dir.path().join("usr/sbin/called").exists(), is_run, "{kernel:?}");
            assert_eq!(tree.into_unexamined().len(), unexamined, "{kernel:?}");
        }
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        assert!(nftables(&script("exit 1").path().join("nft")).unwrap_err().contains("exit status: 1"));
        assert!(
            nftables(&script("echo no").path().join("nft")).unwrap_err().contains("list chains: expected")
        );
    }
}
