//! The web configuration as it is now: it is read again every few seconds.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use exporter::NodeSnapshot;
use exposition::{LabelSet, MetricType};
use serde::{Deserialize, Serialize};
use tokio::{task::spawn_blocking, time::sleep};
use webconfig::WebConfig;

/// How soon a change of a file is noticed.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// How the port is served. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct WebConfigReloader(Arc<Mutex<ReloaderState>>);

#[derive(Debug, Default)]
struct ReloaderState {
    /// The file, if there is one.
    path: Option<PathBuf>,
    now: Arc<WebConfig>,
    /// When it was taken over, or was found well again.
    since: Option<SystemTime>,
    /// What is wrong with the files as they are.
    wrong: Option<String>,
}

impl WebConfigReloader {
    /// As a file says.
    pub(crate) fn of(path: &Path) -> Result<Self, webconfig::Error> {
        let now = Arc::new(WebConfig::load(path)?);
        if now.users.is_some() && now.tls.is_none() {
            tracing::warn!("{}: without tls_server_config passwords are sent in clear text", path.display());
        }
        let (path, since) = (Some(path.to_owned()), Some(SystemTime::now()));
        Ok(Self(Arc::new(Mutex::new(ReloaderState { path, now, since, wrong: None }))))
    }

    /// The configuration. It holds for a request, or for a connection's TLS.
    pub(crate) fn current(&self) -> Arc<WebConfig> {
        self.state().now.clone()
    }

    /// Takes over changes of the files, for ever. What cannot be used is told of, and the former stays.
    pub(crate) async fn reload_periodically(&self) -> io::Result<()> {
        let Some(path) = self.state().path.clone() else { return std::future::pending().await };
        loop {
            sleep(RELOAD_INTERVAL).await;
            let file = path.clone();
            let loaded = spawn_blocking(move || WebConfig::load(&file)).await?;
            self.state().apply_reload(&path, loaded.map_err(|error| error.to_string()));
        }
    }

    /// Whether the files can be used as they are; `None` if there are none.
    pub(crate) fn status(&self) -> Option<WebConfigStatus> {
        let state = self.state();
        let since = state.since?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(WebConfigStatus { is_well: state.wrong.is_none(), since })
    }

    fn state(&self) -> MutexGuard<'_, ReloaderState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the metrics tell of the web configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WebConfigStatus {
    is_well: bool,
    /// From 1970.
    since: Duration,
}

impl WebConfigStatus {
    /// Adds it to the metrics.
    pub(crate) fn write_families(&self, report: &mut NodeSnapshot) {
        let labels = LabelSet::of([("node", report.node.as_str())]);
        let mut gauge = |name: &str, help: &str, value: f64| {
            report.exposition.family(name, MetricType::Gauge, help).add(labels.clone(), value);
        };
        let help =
            "Whether the web configuration could be used when it was last read; if not, a former one holds.";
        gauge("rdma_exporter_web_config_last_reload_successful", help, f64::from(u8::from(self.is_well)));
        let help = "When a web configuration was taken over, or was found well again.";
        let seconds = self.since.as_secs_f64();
        gauge("rdma_exporter_web_config_last_reload_success_timestamp_seconds", help, seconds);
    }
}

impl ReloaderState {
    fn apply_reload(&mut self, path: &Path, loaded: Result<WebConfig, String>) {
        let usable = loaded.and_then(|new| match self.weakens(&new) {
            Some(gone) => Err(format!("{}: {gone} is gone; a restart would do without", path.display())),
            None => Ok(new),
        });
        match usable {
            Ok(new) if new.is_same(&self.now) => {
                if self.wrong.take().is_some() {
                    self.since = Some(SystemTime::now());
                    tracing::info!("{}: is as it was again", path.display());
                }
            }
            Ok(new) => {
                tracing::info!("{}: a new web configuration holds from now on", path.display());
                (self.now, self.since, self.wrong) = (Arc::new(new), Some(SystemTime::now()), None);
            }
            Err(why) if self.wrong.as_ref() == Some(&why) => {}
            Err(why) => {
                tracing::error!("{why}; the former web configuration stays");
                self.wrong = Some(why);
            }
        }
    }

    /// What would no longer be asked of clients at all. A file that was written by half may well say so.
    fn weakens(&self, new: &WebConfig) -> Option<&'static str> {
        self.now
            .client_requirements()
            .iter()
            .find(|demand| !new.client_requirements().contains(demand))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

    fn told(web: &WebConfigReloader) -> String {
        let mut report = NodeSnapshot::new("n".into(), SystemTime::now());
        web.status().inspect(|status| status.write_families(&mut report));
        report.exposition.encode(exposition::ExpositionFormat::Text)
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_used_leaves_the_former_and_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.yaml");
        let write = |text: &str| fs::write(&path, text).unwrap();
        let users = |name: &str| format!("basic_auth_users: {{{name}: {HASH}}}\n");
        write(&users("alice"));
        let web = WebConfigReloader::of(&path).unwrap();
        let alice = web.current();
        let look =
            || web.state().apply_reload(&path, WebConfig::load(&path).map_err(|error| error.to_string()));
        for wrong in ["", "{}", "basic_auth_users: {alice: x}\n", "a: b\n"] {
            write(wrong);
            look();
            assert!(web.current().is_same(&alice), "{wrong}");
            assert!(told(&web).contains("_last_reload_successful{node=\"n\"} 0\n"), "{}", told(&web));
        }
        write(&users("alice"));
        look();
        assert!(told(&web).contains("_last_reload_successful{node=\"n\"} 1\n"), "{}", told(&web));
        write(&users("bob"));
        look();
        assert!(!web.current().is_same(&alice));
    }

    #[test]
    fn without_a_file_nothing_is_told() {
        assert_eq!(told(&WebConfigReloader::default()), "");
    }
}
