//! A running silkraild on a node without RDMA.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

/// The process of silkraild, killed on drop.
pub(crate) struct PageDaemon {
    process: Child,
    /// `127.0.0.1:<port>`.
    pub(crate) address: String,
    _root: TempDir,
}

impl PageDaemon {
    pub(crate) fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_silkraild"))
            .args(["--listen=127.0.0.1:0", "--health.listen=127.0.0.1:0", "--node-name=node-1", "--root"])
            .arg(root.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = log.find_map(|line| Some(line.unwrap().split_once("address=")?.1.to_owned())).unwrap();
        // Keep reading the log: a full pipe would block the daemon.
        std::thread::spawn(move || log.for_each(drop));
        Self { process, address, _root: root }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for PageDaemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
