//! A node whose API server does not exist, for tests that make no request.

use std::{path::Path, time::Duration};

use ipam::LocalStore;
use kube::{Client, Config};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::KubeBlocks;

/// A state directory, and a runtime for the client.
pub(crate) struct OfflineNode {
    state: TempDir,
    runtime: Runtime,
}

impl OfflineNode {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { state: tempfile::tempdir().unwrap(), runtime }
    }

    pub(crate) fn state_dir(&self) -> &Path {
        self.state.path()
    }

    pub(crate) fn store(&self) -> LocalStore {
        LocalStore::open(self.state.path(), "00000000-0000-0000-0000-000000000000").unwrap()
    }

    pub(crate) fn api(&self) -> KubeBlocks {
        let _inside = self.runtime.enter();
        let client = Client::try_from(Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
        KubeBlocks::new(client, Duration::from_secs(1))
    }
}
