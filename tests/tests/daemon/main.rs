//! silkraild as a process: on a node without RDMA, so without any privilege. Its device metrics are tested in the lab
//! (`tests/tests/lab/metrics`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod bare;
mod crowd;
mod device_plugin;
mod fleet;
mod http;
mod kubeconfig;
mod labels;
mod lifecycle;
mod node_condition;
mod privileges;
mod textfile;
mod tokens;
mod web;

use silkrail_tests::daemon::Daemon;
use tempfile::TempDir;
use testkit::wait_until;

/// A node without RDMA.
struct DaemonFixture(TempDir);

impl DaemonFixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn root(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// The options that make silkraild read only this node's files.
    fn options(&self) -> [&str; 4] {
        ["--root", self.root(), "--state-dir", self.root()]
    }

    /// silkraild, after its first collection.
    fn serve(&self, more: &[&str]) -> Daemon {
        let daemon = Daemon::start(&[&self.options()[..], &["--kubernetes", "off"], more].concat());
        wait_until("it has collected", || daemon.health("/readyz").status == 200);
        daemon
    }
}
