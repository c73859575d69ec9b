//! The controller.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, PostParams, Preconditions},
    core::{ApiResource, GroupVersionKind},
    runtime::watcher::Config,
};
use kubeapi::{ObjectStore, within};
use serde_json::Value;
use spider_multus::Target;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    object_key::ObjectKey,
    plan::{self, CONFIG_KIND, NetworkAction, NetworkChange},
    report::ProblemReports,
};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Changes within this time are handled together.
const TICK: Duration = Duration::from_secs(1);
/// Time after which a change that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The controller of networks.
pub struct NetworkController {
    client: Client,
    target: Target,
    configs: ObjectStore<DynamicObject>,
    networks: ObjectStore<DynamicObject>,
    reports: ProblemReports,
    /// The changes that failed, by the configuration: when they are tried again, and why they failed.
    failures: BTreeMap<ObjectKey, (Instant, String)>,
}

impl NetworkController {
    /// Runs the controller, for ever. Networks are rendered for `target`.
    pub async fn run(client: Client, target: Target) -> Infallible {
        let (configs, config_changes) = ObjectStore::watch(&client, config_resource(), Config::default());
        let (networks, network_changes) = ObjectStore::watch(&client, network_resource(), Config::default());
        let mut changes = pin!(stream::select(config_changes, network_changes));
        let reports = ProblemReports::new(client.clone());
        let mut controller = Self { client, target, configs, networks, reports, failures: BTreeMap::new() };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_changed = true;
        loop {
            tokio::select! {
                Some(()) = changes.next() => has_changed = true,
                _ = ticks.tick() => {
                    let is_due = |(at, _): &(Instant, String)| Instant::now() >= *at;
                    if has_changed || controller.failures.values().any(is_due) {
                        has_changed = !controller.step().await;
                    }
                }
            }
        }
    }

    /// Makes the changes. Returns `false` if the objects are not known yet.
    async fn step(&mut self) -> bool {
        let (Some(configs), Some(networks)) = (self.configs.objects(), self.networks.objects()) else {
            return false;
        };
        let configs: Vec<&DynamicObject> = configs.iter().map(AsRef::as_ref).collect();
        let networks: Vec<&DynamicObject> = networks.iter().map(AsRef::as_ref).collect();
        let mut plan = plan::plan(&configs, &networks, self.target);
        let now = Instant::now();
        self.failures.retain(|key, _| plan.changes.iter().any(|change| change.config == *key));
        for change in &plan.changes {
            if self.failures.get(&change.config).is_some_and(|(at, _)| now < *at) {
                continue;
            }
            match self.make(change).await {
                Ok(what) => {
                    self.failures.remove(&change.config);
                    tracing::info!("NetworkAttachmentDefinition {} {what}", change.network);
                }
                Err(problem) => {
                    let problem = format!("NetworkAttachmentDefinition {}: {problem}", change.network);
                    self.failures.insert(change.config.clone(), (Instant::now() + RETRY_DELAY, problem));
                }
            }
        }
        let failures = self.failures.iter().map(|(key, (_, problem))| (key.clone(), problem.clone()));
        plan.problems.extend(failures);
        self.reports.report(plan.problems, &configs).await;
        true
    }

    /// Makes a change, and returns its description. It fails if the network was changed since it was read.
    async fn make(&self, change: &NetworkChange) -> Result<&'static str, String> {
        let ObjectKey { namespace, name } = &change.network;
        let api = self.networks_of(namespace);
        match &change.action {
            NetworkAction::Create(object) => {
                within(REQUEST_TIMEOUT, api.create(&PostParams::default(), &parse(object)?))
                    .await
                    .map_err(|error| error.to_string())?;
                Ok("was created")
            }
            NetworkAction::Replace(object) => {
                within(REQUEST_TIMEOUT, api.replace(name, &PostParams::default(), &parse(object)?))
                    .await
                    .map_err(|error| error.to_string())?;
                Ok("was changed")
            }
            NetworkAction::Delete { uid, resource_version } => {
                let preconditions = Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: Some(resource_version.clone()),
                };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                within(REQUEST_TIMEOUT, api.delete(name, &params))
                    .await
                    .map_err(|error| error.to_string())?;
                Ok("was deleted: its SpiderMultusConfig has another name for it now")
            }
        }
    }

    fn networks_of(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &network_resource())
    }
}

impl fmt::Debug for NetworkController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkController").field("target", &self.target).finish_non_exhaustive()
    }
}

fn parse(object: &Value) -> Result<DynamicObject, String> {
    serde_json::from_value(object.clone()).map_err(|error| error.to_string())
}

fn config_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("spiderpool.spidernet.io", "v2beta1", CONFIG_KIND);
    ApiResource::from_gvk_with_plural(&kind, "spidermultusconfigs")
}

fn network_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition");
    ApiResource::from_gvk_with_plural(&kind, "network-attachment-definitions")
}
