//! The controller.

use std::{convert::Infallible, fmt, pin::pin, time::Duration};

use futures_util::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, PostParams, Preconditions},
    core::{ApiResource, GroupVersionKind},
    runtime::watcher::Config,
};
use kubeapi::{ObjectStore, quietly, with_causes};
use serde_json::Value;
use spider_multus::Target;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{
    plan::{self, CONFIG_KIND, NetworkChange},
    report::ProblemReports,
};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Changes within this time are handled together.
const TICK: Duration = Duration::from_secs(1);
/// Time after which changes that failed are tried again.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The controller of networks.
pub struct NetworkController {
    client: Client,
    target: Target,
    configs: ObjectStore<DynamicObject>,
    networks: ObjectStore<DynamicObject>,
    reports: ProblemReports,
}

impl NetworkController {
    /// Runs the controller, for ever. Networks are rendered for `target`.
    pub async fn run(client: Client, target: Target) -> Infallible {
        let (configs, config_changes) = ObjectStore::watch(&client, config_resource(), Config::default());
        let (networks, network_changes) = ObjectStore::watch(&client, network_resource(), Config::default());
        let mut changes = pin!(stream::select(config_changes, network_changes));
        let reports = ProblemReports::new(client.clone());
        let mut controller = Self { client, target, configs, networks, reports };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_changed = true;
        loop {
            tokio::select! {
                Some(()) = changes.next() => has_changed = true,
                _ = ticks.tick() => {
                    if has_changed {
                        has_changed = !controller.step().await;
                    }
                    if has_changed {
                        ticks.reset_after(RETRY_DELAY.min(TICK * 10));
                    }
                }
            }
        }
    }

    /// Makes the changes. Returns `false` if the objects are not known yet, or a change failed.
    async fn step(&mut self) -> bool {
        let (Some(configs), Some(networks)) = (self.configs.objects(), self.networks.objects()) else {
            return false;
        };
        let configs: Vec<&DynamicObject> = configs.iter().map(AsRef::as_ref).collect();
        let networks: Vec<&DynamicObject> = networks.iter().map(AsRef::as_ref).collect();
        let plan = plan::plan(&configs, &networks, self.target);
        self.reports.report(plan.problems, &configs).await;
        let mut is_done = true;
        for change in &plan.changes {
            match self.make(change).await {
                Ok(what) => tracing::info!("NetworkAttachmentDefinition {what}"),
                Err(problem) => {
                    tracing::warn!("NetworkAttachmentDefinition {problem}");
                    is_done = false;
                }
            }
        }
        is_done
    }

    /// Makes a change. It fails if the network was changed since it was read.
    async fn make(&self, change: &NetworkChange) -> Result<String, String> {
        match change {
            NetworkChange::Create(key, object) => {
                let api = self.networks_of(&key.namespace);
                within(api.create(&PostParams::default(), &parse(object)?))
                    .await
                    .map_err(|error| format!("{key}: {error}"))?;
                Ok(format!("{key} was created"))
            }
            NetworkChange::Replace(key, object) => {
                let api = self.networks_of(&key.namespace);
                let replaced = within(api.replace(&key.name, &PostParams::default(), &parse(object)?)).await;
                replaced.map_err(|error| format!("{key}: {error}"))?;
                Ok(format!("{key} was changed"))
            }
            NetworkChange::Delete { key, uid, resource_version } => {
                let preconditions = Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: Some(resource_version.clone()),
                };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                let deleted = within(self.networks_of(&key.namespace).delete(&key.name, &params)).await;
                deleted.map_err(|error| format!("{key}: {error}"))?;
                Ok(format!("{key}, whose {CONFIG_KIND} has another name now, was deleted"))
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

async fn within<T>(answer: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(REQUEST_TIMEOUT, quietly(answer)).await {
        Ok(answer) => answer.map_err(|error| with_causes(&error)),
        Err(_) => Err(format!("no response within {REQUEST_TIMEOUT:?}")),
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
