//! Serves the resources, and keeps their devices up to date.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use device_plugin::{
    DeviceInfoDirectory, Fabric, NodeReader, NodeReading, PodFiles, PoolOptions, ResourceDevices,
    ResourcePool, ResourceSpec, health::HealthChange, preferred::PfPolicy,
};
use exporter::{ResourceHealth, UnhealthyDevice};
use kubelet_checkpoint::KubeletDirectory;
use kubelet_plugin::{ServeError, serve};
use podmap::PodMap;
use sysfs::Sysfs;
use tokio::{
    select,
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{sleep, sleep_until},
};
use tracing::{info, warn};

use super::node_changes::NodeChanges;

/// The settings of the device plugin.
#[derive(Debug, Clone)]
pub(crate) struct DevicePluginOptions {
    /// The root directory of the node.
    pub(crate) root: PathBuf,
    /// The state directory, with the pod map.
    pub(crate) state_dir: PathBuf,
    /// The directory of device plugins.
    pub(crate) kubelet: PathBuf,
    /// Whether containers get `umadN` and `issmN`.
    pub(crate) has_management: bool,
    /// How the devices of a container are distributed over PFs.
    pub(crate) policy: PfPolicy,
    /// How long a device must be well before it is healthy again.
    pub(crate) hold: Duration,
    /// Where the metrics get the health of the devices.
    pub(crate) health: watch::Sender<Vec<ResourceHealth>>,
}

/// Why a resource is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServingError {
    #[error("the device plugin cannot serve a resource: {0}")]
    Resource(#[from] ServeError),
    #[error("the device plugin has failed; its thread has panicked")]
    Panic,
}

/// Several events of one change are waited for, such as those of a driver that creates 128 VFs.
const SETTLE_TIME: Duration = Duration::from_millis(50);
const LONGEST_SETTLE_TIME: Duration = Duration::from_millis(500);

/// The interval at which devices are read without an event: not every driver sends one when its port goes down. In debug builds a
/// test sets another with `SILKRAILD_READ_INTERVAL`, in seconds.
fn read_interval() -> Duration {
    let of_test = std::env::var("SILKRAILD_READ_INTERVAL").ok().filter(|_| cfg!(debug_assertions));
    Duration::from_secs(of_test.and_then(|seconds| seconds.parse().ok()).unwrap_or(10))
}

/// The resources of the node.
pub(super) struct Serving {
    pools: Vec<Arc<ResourcePool>>,
    node: NodeReader,
    changes: NodeChanges,
    former: Arc<Refresh>,
    health: watch::Sender<Vec<ResourceHealth>>,
    has_ended: watch::Receiver<bool>,
}

impl Serving {
    /// Creates the resources, which are served by [`Serving::run`].
    ///
    /// # Errors
    /// If the changes of the node cannot be watched.
    pub(super) fn new(
        resources: Vec<ResourceSpec>,
        fabric: Fabric,
        options: DevicePluginOptions,
        has_ended: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let node = NodeReader {
            root: options.root.clone(),
            sysfs: Sysfs::at(options.root.join("sys")),
            pod_map: PodMap::below(&options.state_dir),
            kubelet: KubeletDirectory(options.kubelet),
            fabric,
        };
        let settings = PoolOptions {
            node: node.clone(),
            has_management: options.has_management,
            policy: options.policy,
            hold: options.hold,
            device_info: DeviceInfoDirectory::create(options.root.join(DeviceInfoDirectory::DEFAULT)),
            pod_files: PodFiles::create(node.clone(), options.state_dir.join("pod-files")),
        };
        let pool = |spec| Arc::new(ResourcePool::new(spec, settings.clone()));
        let pools = resources.into_iter().map(pool).collect();
        let changes = NodeChanges::subscribe(&node.pod_map)?;
        Ok(Self { pools, node, changes, former: Arc::default(), health: options.health, has_ended })
    }

    /// Serves until the end is requested.
    pub(super) async fn run(mut self) -> Result<(), ServingError> {
        // The first list that the kubelet gets is complete.
        self.refresh().await;
        self.report();
        self.pools.iter().for_each(|pool| pool.begin());
        let mut servers = JoinSet::new();
        for pool in &self.pools {
            let (directory, pool, has_ended) =
                (self.node.kubelet.clone(), Arc::clone(pool), self.has_ended.clone());
            servers.spawn(async move { serve(&directory, pool, has_ended).await });
        }
        let mut has_ended = self.has_ended.clone();
        select! {
            end = first_failure(&mut servers) => end?,
            () = self.follow() => {}
        }
        // Without a valid resource nothing is served.
        let _ = has_ended.wait_for(|has_ended| *has_ended).await;
        self.pools.iter().for_each(|pool| pool.end());
        Ok(())
    }

    /// Reads the devices after each change.
    async fn follow(&mut self) {
        let (interval, mut last_duration) = (read_interval(), Duration::ZERO);
        loop {
            let next_change = self.pools.iter().filter_map(|pool| pool.next_change()).min();
            let next_read = Instant::now() + interval;
            let timer = next_change.map_or(next_read, |next| next.min(next_read));
            select! {
                // Links of pods come and go all the time: reads must not follow each other without a pause.
                () = self.changes.next() => sleep((last_duration * 4).clamp(SETTLE_TIME, LONGEST_SETTLE_TIME)).await,
                () = sleep_until(timer.into()) => {}
            }
            let began = Instant::now();
            self.refresh().await;
            last_duration = began.elapsed();
        }
    }

    async fn refresh(&mut self) {
        let (pools, node, former) = (self.pools.clone(), self.node.clone(), Arc::clone(&self.former));
        // A read of sysfs may wait for a driver.
        match spawn_blocking(move || update(&pools, &node, &former)).await {
            Ok(Some(present)) => {
                self.former = Arc::new(present);
                let health = self.pools.iter().map(|pool| health_of(pool)).collect::<Vec<_>>();
                self.health.send_if_modified(|former| {
                    let has_changed = *former != health;
                    *former = health;
                    has_changed
                });
            }
            Ok(None) => {}
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Logs the number of devices of each resource.
    fn report(&self) {
        for pool in &self.pools {
            let (name, devices) = (&pool.spec().name, pool.number_of_devices());
            if devices == 0 {
                warn!(resource = %name, "no device of the node matches its selectors");
            } else {
                info!(resource = %name, devices, "found its devices");
            }
        }
    }
}

/// Returns the health of a resource for the metrics.
fn health_of(pool: &ResourcePool) -> ResourceHealth {
    let unhealthy: Vec<_> = pool
        .unhealthy()
        .into_iter()
        .map(|(id, reason)| UnhealthyDevice { id, reason: reason.to_owned() })
        .collect();
    let healthy = pool.number_of_devices().saturating_sub(unhealthy.len());
    ResourceHealth { resource: pool.spec().name.to_string(), healthy, unhealthy }
}

/// Waits until a server fails, or all have ended.
async fn first_failure(servers: &mut JoinSet<Result<(), ServeError>>) -> Result<(), ServingError> {
    while let Some(end) = servers.join_next().await {
        end.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    }
    Ok(())
}

/// The result of a read of the devices.
#[derive(Debug, Default)]
struct Refresh {
    assigned: ResourceDevices,
    warnings: Vec<String>,
}

/// Reads the devices and tells the resources; `None` if they cannot be read.
fn update(pools: &[Arc<ResourcePool>], node: &NodeReader, former: &Refresh) -> Option<Refresh> {
    let NodeReading { devices, mut state, warnings } =
        node.read().inspect_err(|error| warn!("{error}; the former ones stay offered")).ok()?;
    // Each is logged once, as long as it persists.
    warnings.iter().filter(|it| !former.warnings.contains(it)).for_each(|warning| warn!("{warning}"));
    let specs: Vec<_> = pools.iter().map(|pool| pool.spec().clone()).collect();
    let assigned = ResourceDevices::assign(&specs, &devices, &former.assigned, &state.device_use);
    state.exclusive_devices = assigned.exclusive(&specs);
    for pool in pools {
        let own = assigned.devices.get(&pool.spec().name).map(Vec::as_slice).unwrap_or_default();
        for HealthChange { id, reason } in pool.update(Instant::now(), own, &state) {
            match reason {
                Some(reason) => warn!(resource = %pool.spec().name, device = id, "unhealthy: {reason}"),
                None => info!(resource = %pool.spec().name, device = id, "healthy"),
            }
        }
    }
    Some(Refresh { assigned, warnings })
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn a_server_that_has_ended_does_not_hide_that_another_one_fails() {
        let mut servers = JoinSet::new();
        servers.spawn(async { Ok(()) });
        assert!(first_failure(&mut servers).await.is_ok());
        servers.spawn(async { Ok(()) });
        servers.spawn(async {
            yield_now().await;
            Err(ServeError::Socket { path: "/s".into(), source: io::ErrorKind::AddrInUse.into() })
        });
        assert!(matches!(first_failure(&mut servers).await, Err(ServingError::Resource(_))));
    }
}
