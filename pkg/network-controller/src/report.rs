//! Events about configurations that cannot be followed: `kubectl describe` shows them.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, ResourceExt,
    api::DynamicObject,
    core::ObjectMeta,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use kubeapi::within;

use crate::object_key::ObjectKey;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Reports each problem when it comes up.
pub(crate) struct ProblemReports {
    recorder: Recorder,
    reported: BTreeMap<ObjectKey, String>,
}

impl ProblemReports {
    pub(crate) fn new(client: Client) -> Self {
        let reporter = Reporter { controller: "silkraild-networks".to_owned(), instance: None };
        Self { recorder: Recorder::new(client, reporter), reported: BTreeMap::new() }
    }

    /// Reports the problems that were not there before.
    pub(crate) async fn report(&mut self, problems: BTreeMap<ObjectKey, String>, configs: &[&DynamicObject]) {
        self.reported.retain(|key, _| problems.contains_key(key));
        for (key, problem) in problems {
            if self.reported.get(&key) == Some(&problem) {
                continue;
            }
            tracing::warn!("SpiderMultusConfig {key}: {problem}");
            let config = configs.iter().find(|config| ObjectKey::of(config) == key);
            if let Some(config) = config
                && self.publish(config, &problem).await
            {
                self.reported.insert(key, problem);
            }
        }
    }

    /// Publishes an event, and returns whether that succeeded.
    async fn publish(&self, config: &DynamicObject, problem: &str) -> bool {
        let ObjectMeta { name, namespace, uid, .. } = config.metadata.clone();
        let types = config.types.clone().unwrap_or_default();
        let about = ObjectReference {
            api_version: Some(types.api_version),
            kind: Some(types.kind),
            name,
            namespace,
            uid,
            resource_version: config.resource_version(),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: EventType::Warning,
            reason: "NetworkNotRendered".to_owned(),
            // The API server refuses longer ones.
            note: Some(problem.chars().take(1000).collect()),
            action: "Render".to_owned(),
            secondary: None,
        };
        match within(REQUEST_TIMEOUT, self.recorder.publish(&event, &about)).await {
            Ok(()) => return true,
            Err(error) => tracing::warn!("the event was not published: {error}"),
        }
        false
    }
}
