//! RDMA devices as resources of the kubelet.
//!
//! It runs on a thread of its own: a collection of metrics that waits for a device must not delay the start of a pod.

mod node_changes;
mod serving;

use std::{
    io,
    path::PathBuf,
    thread::{self, JoinHandle},
};

use device_plugin::{ReadOptions, ResourceFileError, ResourceFiles};
use tokio::sync::{oneshot, watch};
use tracing::warn;

use self::serving::Serving;
pub(crate) use self::serving::{DevicePluginOptions, ServingError};

/// Why the device plugin cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevicePluginError {
    #[error(transparent)]
    Config(#[from] ResourceFileError),
    #[error(transparent)]
    Serving(#[from] ServingError),
    #[error("the device plugin cannot start: {0}")]
    Start(io::Error),
}

/// The thread of the device plugin.
#[derive(Debug)]
pub(crate) struct DevicePlugin {
    ends: watch::Sender<bool>,
    failure: Option<oneshot::Receiver<ServingError>>,
    thread: JoinHandle<()>,
}

impl DevicePlugin {
    /// Reads the files as those of a node and starts the thread; `None` without files.
    ///
    /// # Errors
    /// [`DevicePluginError`] if a file is no configuration, or the changes of the node cannot be watched.
    pub(crate) fn start(
        files: &[PathBuf],
        names: ReadOptions<'_>,
        options: DevicePluginOptions,
    ) -> Result<Option<Self>, DevicePluginError> {
        if files.is_empty() {
            return Ok(None);
        }
        let ResourceFiles { resources, fabric, findings } = ResourceFiles::read(files, names)?;
        findings.iter().for_each(|finding| warn!("{finding}"));
        if resources.is_empty() {
            warn!(?files, "there is no valid resource: nothing is offered to the kubelet");
        }
        let (ends, has_ended) = watch::channel(false);
        let (sender, failure) = oneshot::channel();
        let serving =
            Serving::new(resources, fabric, options, has_ended).map_err(DevicePluginError::Start)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(DevicePluginError::Start)?;
        let run = move || {
            if let Err(error) = runtime.block_on(serving.run()) {
                // The receiver is gone if the daemon exits already.
                let _ = sender.send(error);
            }
            // A thread of it may wait for a driver.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("device-plugin".into()).spawn(run);
        let thread = thread.map_err(DevicePluginError::Start)?;
        Ok(Some(Self { ends, failure: Some(failure), thread }))
    }

    /// Waits until the device plugin has failed, which it does only if its sockets cannot be created.
    pub(crate) async fn failure(&mut self) -> ServingError {
        match self.failure.take() {
            Some(failure) => failure.await.unwrap_or(ServingError::Panic),
            None => std::future::pending().await,
        }
    }

    /// Ends the streams of the kubelet, and deletes the sockets.
    pub(crate) fn end(self) {
        let _ = self.ends.send(true);
        let _ = self.thread.join();
    }
}
