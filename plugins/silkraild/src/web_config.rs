//! The current web configuration. It is reloaded if its files change.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use exporter::NodeSnapshot;
use exposition::{LabelSet, MetricType};
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task::spawn_blocking, time::sleep};
use webconfig::WebConfig;

/// Interval between reads of the files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The current web configuration, reloaded by [`WebConfigReloader::reload_periodically`]. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct WebConfigReloader(Arc<Reloader>);

#[derive(Debug, Default)]
struct Reloader {
    current: watch::Sender<Arc<WebConfig>>,
    state: Mutex<ReloaderState>,
}

#[derive(Debug, Default)]
struct ReloaderState {
    /// The argument of `--web.config.file`.
    path: Option<PathBuf>,
    /// When the current configuration was loaded, or was last found valid after an error.
    since: Option<SystemTime>,
    /// The error of the last read, if it failed.
    error: Option<String>,
}

impl WebConfigReloader {
    /// Loads the configuration from a file.
    ///
    /// # Errors
    /// [`webconfig::Error`] if a file cannot be read or is invalid.
    pub(crate) fn of(path: &Path) -> Result<Self, webconfig::Error> {
        let current = Arc::new(WebConfig::load(path)?);
        if current.users.is_some() && current.tls.is_none() {
            tracing::warn!("{}: without tls_server_config passwords are sent in clear text", path.display());
        }
        let (path, since) = (Some(path.to_owned()), Some(SystemTime::now()));
        let state = Mutex::new(ReloaderState { path, since, error: None });
        Ok(Self(Arc::new(Reloader { current: watch::Sender::new(current), state })))
    }

    /// Returns the current configuration. The caller uses it for one request.
    pub(crate) fn current(&self) -> Arc<WebConfig> {
        self.0.current.borrow().clone()
    }

    /// Returns the configuration for one connection, and a future that completes when it has been replaced.
    pub(crate) fn for_connection(&self) -> (Arc<WebConfig>, impl Future<Output = ()> + use<>) {
        let mut current = self.0.current.subscribe();
        let web = current.borrow_and_update().clone();
        let replaced = async move {
            let _ = current.changed().await; // the sender lives as long as the process
        };
        (web, replaced)
    }

    /// Applies changes of the files, forever. An invalid configuration is logged, and the former one stays in use.
    pub(crate) async fn reload_periodically(&self) -> io::Result<()> {
        let Some(path) = self.state().path.clone() else { return std::future::pending().await };
        loop {
            sleep(RELOAD_INTERVAL).await;
            let file = path.clone();
            let loaded = spawn_blocking(move || WebConfig::load(&file)).await?;
            self.apply_reload(&path, loaded.map_err(|error| error.to_string()));
        }
    }

    /// Returns the status of the last read; `None` without a configuration file.
    pub(crate) fn status(&self) -> Option<WebConfigStatus> {
        let state = self.state();
        let since = state.since?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(WebConfigStatus { is_well: state.error.is_none(), since })
    }

    fn state(&self) -> MutexGuard<'_, ReloaderState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply_reload(&self, path: &Path, loaded: Result<WebConfig, String>) {
        let former = self.current();
        let usable = loaded.and_then(|new| match removed_requirement(&former, &new) {
            Some(gone) => {
                Err(format!("{}: {gone} was removed; restart silkraild to disable it", path.display()))
            }
            None => Ok(new),
        });
        let mut state = self.state();
        match usable {
            Ok(new) if new.is_same(&former) => {
                if state.error.take().is_some() {
                    state.since = Some(SystemTime::now());
                    tracing::info!("{}: matches the current web configuration again", path.display());
                }
            }
            Ok(new) => {
                tracing::info!("{}: loaded a new web configuration", path.display());
                self.0.current.send_replace(Arc::new(new));
                (state.since, state.error) = (Some(SystemTime::now()), None);
            }
            Err(error) if state.error.as_ref() == Some(&error) => {}
            Err(error) => {
                tracing::error!("{error}; the former web configuration stays in use");
                state.error = Some(error);
            }
        }
    }
}

/// The status of the web configuration, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WebConfigStatus {
    is_well: bool,
    /// The Unix time at which the current configuration was loaded or last found valid.
    since: Duration,
}

impl WebConfigStatus {
    /// Adds the metric families to a snapshot.
    pub(crate) fn write_families(&self, report: &mut NodeSnapshot) {
        let labels = LabelSet::of([("node", report.node.as_str())]);
        let mut gauge = |name: &str, help: &str, value: f64| {
            report.exposition.family(name, MetricType::Gauge, help).add(labels.clone(), value);
        };
        let help = "1 if the web configuration was valid when it was last read; 0 if a former one is in use.";
        gauge("rdma_exporter_web_config_last_reload_successful", help, f64::from(u8::from(self.is_well)));
        let help = "Unix time at which the current web configuration was loaded, or was last found valid.";
        let seconds = self.since.as_secs_f64();
        gauge("rdma_exporter_web_config_last_reload_success_timestamp_seconds", help, seconds);
    }
}

/// Returns a requirement for clients that `new` removes: the file may have been read while it was being written.
fn removed_requirement(former: &WebConfig, new: &WebConfig) -> Option<&'static str> {
    let required = former.client_requirements();
    required.iter().find(|requirement| !new.client_requirements().contains(requirement)).copied()
}

#[cfg(test)]
mod tests {
    use std::{fs, pin::pin};

    use tokio::time::timeout;

    use super::*;

    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

    fn metrics(web: &WebConfigReloader) -> String {
        let mut report = NodeSnapshot::new("n".into(), SystemTime::now());
        web.status().inspect(|status| status.write_families(&mut report));
        report.exposition.encode(exposition::ExpositionFormat::Text)
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_configuration_is_reported_and_not_applied() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.yaml");
        let write = |text: &str| fs::write(&path, text).unwrap();
        let users = |name: &str| format!("basic_auth_users: {{{name}: {HASH}}}\n");
        write(&users("alice"));
        let web = WebConfigReloader::of(&path).unwrap();
        let alice = web.current();
        let reload = || web.apply_reload(&path, WebConfig::load(&path).map_err(|error| error.to_string()));
        let since = || web.status().unwrap().since;
        let (loaded, mut replaced) = (since(), pin!(web.for_connection().1));
        for invalid in ["", "{}", "basic_auth_users: {alice: x}\n", "a: b\n"] {
            write(invalid);
            reload();
            assert_eq!(since(), loaded, "{invalid}");
            assert!(web.current().is_same(&alice), "{invalid}");
            assert!(metrics(&web).contains("_last_reload_successful{node=\"n\"} 0\n"), "{}", metrics(&web));
        }
        write(&users("alice"));
        reload();
        assert!(metrics(&web).contains("_last_reload_successful{node=\"n\"} 1\n"), "{}", metrics(&web));
        let valid_again = since();
        assert!(valid_again > loaded);
        reload();
        assert_eq!(since(), valid_again, "nothing has changed");
        assert!(timeout(Duration::ZERO, replaced.as_mut()).await.is_err(), "connections continue");
        write(&users("bob"));
        reload();
        assert!(!web.current().is_same(&alice));
        assert!(since() > valid_again && timeout(Duration::ZERO, replaced).await.is_ok());
        // A second problem, and a mended file with new contents.
        write("");
        reload();
        write(&users("carol"));
        reload();
        assert!(metrics(&web).contains("_last_reload_successful{node=\"n\"} 1\n"), "{}", metrics(&web));
    }

    #[test]
    fn without_a_file_there_are_no_metrics() {
        assert_eq!(metrics(&WebConfigReloader::default()), "");
    }
}
