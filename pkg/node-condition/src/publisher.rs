//! Keeps the condition of the node up to date.

use std::{
    convert::Infallible,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use doctor_record::DoctorRecord;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use kubeapi::{RequestError, within};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{ConditionStatus, NodeCondition, condition::TYPE, schedule::UpdateSchedule};

/// How often the record is read.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// The timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The name of this writer in the managed fields of the node.
const FIELD_MANAGER: &str = "silkraild";

/// Publishes the condition of a node.
#[derive(Debug)]
pub struct ConditionPublisher {
    node: String,
    state_dir: PathBuf,
    schedule: UpdateSchedule,
    /// The last status that the API server has, and when it changed; `None` until that is known.
    transition: Option<(String, String)>,
    /// The last error that was logged.
    error: Option<String>,
}

impl ConditionPublisher {
    /// Returns the publisher for a node and the state directory with the record.
    pub fn new(node: String, state_dir: PathBuf) -> Self {
        Self { node, state_dir, schedule: UpdateSchedule::default(), transition: None, error: None }
    }

    /// Publishes the condition, now and after each change. Failures are logged once, and repeated.
    pub async fn run(mut self, client: Client) -> Infallible {
        let nodes = Api::<Node>::all(client);
        loop {
            self.update(&nodes).await;
            sleep(READ_INTERVAL).await;
        }
    }

    async fn update(&mut self, nodes: &Api<Node>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let condition = NodeCondition::of(&DoctorRecord::read(&self.state_dir), now);
        if !self.schedule.is_due(&condition, Instant::now()) {
            return;
        }
        self.schedule.attempted(Instant::now());
        match self.publish(nodes, &condition, utc::rfc3339(now)).await {
            Ok(()) => {
                if self.error.take().is_some() {
                    tracing::info!("the node condition {TYPE} is up to date again");
                }
                self.schedule.published(condition, Instant::now());
            }
            Err(error) => {
                let text = error.to_string();
                if self.error.as_ref() != Some(&text) {
                    tracing::warn!("the node condition {TYPE} cannot be updated: {text}");
                }
                self.error = Some(text);
            }
        }
    }

    async fn publish(
        &mut self,
        nodes: &Api<Node>,
        condition: &NodeCondition,
        now: String,
    ) -> Result<(), RequestError> {
        let former = match &self.transition {
            Some(transition) => Some(transition.clone()),
            // After a restart, the time of the last change is that which the API server has.
            None => former_transition(&self.patch(nodes, &json!({})).await?),
        };
        let status = text_of(condition.status);
        let transition = transition(former, status, &now);
        let NodeCondition { reason, message, .. } = condition;
        let patch = json!({"status": {"conditions": [{
            "type": TYPE,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": transition.1,
        }]}});
        self.patch(nodes, &patch).await?;
        self.transition = Some(transition);
        Ok(())
    }

    /// Conditions are merged by their type.
    async fn patch(&self, nodes: &Api<Node>, patch: &Value) -> Result<Node, RequestError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Strategic(patch);
        within(REQUEST_TIMEOUT, nodes.patch_status(&self.node, &params, &patch)).await
    }
}

/// Returns the status of the condition, and the time since which it has it: now, unless it had it before.
fn transition(former: Option<(String, String)>, status: &str, now: &str) -> (String, String) {
    former.filter(|(former, _)| former == status).unwrap_or_else(|| (status.to_owned(), now.to_owned()))
}

/// Returns the status of the condition that a node has, and the time since which it has it.
fn former_transition(node: &Node) -> Option<(String, String)> {
    let node = serde_json::to_value(node).ok()?;
    let condition =
        node["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == TYPE)?;
    let text = |key: &str| condition[key].as_str().map(str::to_owned);
    Some((text("status")?, text("lastTransitionTime")?))
}

fn text_of(status: ConditionStatus) -> &'static str {
    match status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    };

    use doctor_record::Examined;
    use kube::client::Body;
    use tokio::time::advance;

    use super::*;

    /// An API server that replies with a node, or with a status that is not a success. It keeps all requests.
    #[derive(Debug, Clone, Default)]
    struct FakeServer {
        status: Arc<AtomicU16>,
        patches: Arc<Mutex<Vec<Value>>>,
    }

    impl FakeServer {
        fn nodes(&self) -> Api<Node> {
            let server = self.clone();
            let reply = move |request: http::Request<Body>| {
                let server = server.clone();
                async move {
                    let patch = request.into_body().collect_bytes().await.unwrap();
                    server.patches.lock().unwrap().push(serde_json::from_slice(&patch).unwrap());
                    let body =
                        Body::from(br#"{"apiVersion": "v1", "kind": "Node", "metadata": {}}"#.to_vec());
                    http::Response::builder().status(server.status.load(Ordering::Relaxed)).body(body)
                }
            };
            Api::all(Client::new(tower::service_fn(reply), "default"))
        }

        fn reply_with(&self, status: u16) {
            self.status.store(status, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_update_that_failed_is_repeated_after_a_minute_and_one_that_succeeded_is_not() {
        let (server, state) = (FakeServer::default(), tempfile::tempdir().unwrap());
        let mut publisher = ConditionPublisher::new("lab".into(), state.path().to_owned());
        let nodes = server.nodes();
        let published =
            |patch: &Value| patch["status"]["conditions"][0]["status"].as_str().map(str::to_owned);
        // An empty patch tells the former condition.
        for (status, seconds, expected) in [
            (503, 0, &[None][..]),
            (200, 59, &[]),
            (200, 1, &[None, Some("Unknown")]),
            (200, 60, &[]),
            (200, 240, &[Some("Unknown")]),
        ] {
            server.reply_with(status);
            advance(Duration::from_secs(seconds)).await;
            publisher.update(&nodes).await;
            let patches: Vec<_> =
                server.patches.lock().unwrap().drain(..).map(|patch| published(&patch)).collect();
            assert!(
                patches.iter().map(Option::as_deref).eq(expected.iter().copied()),
                "{seconds}: {patches:?}"
            );
            assert_eq!(publisher.error.is_some(), status == 503 || seconds == 59);
        }
        DoctorRecord::update(state.path(), Examined::default()).unwrap();
        for status in [503, 200] {
            server.reply_with(status);
            advance(Duration::from_secs(60)).await;
            publisher.update(&nodes).await;
            let patches: Vec<_> = server.patches.lock().unwrap().drain(..).collect();
            assert_eq!(patches.iter().map(published).collect::<Vec<_>>(), [Some("True".to_owned())]);
        }
        advance(Duration::from_secs(60)).await;
        publisher.update(&nodes).await;
        assert!(server.patches.lock().unwrap().is_empty() && publisher.error.is_none());
    }

    #[test]
    fn the_time_of_a_change_is_kept_until_the_next_change() {
        let mut last = None;
        let updates =
            [("True", "9:00"), ("True", "9:05"), ("True", "9:10"), ("False", "9:15"), ("False", "9:20")];
        let times = updates.map(|(status, now)| {
            let next = transition(last.take(), status, now);
            last = Some(next.clone());
            next.1
        });
        assert_eq!(times, ["9:00", "9:00", "9:00", "9:15", "9:15"]);
    }

    #[test]
    fn the_time_of_the_last_change_is_read_from_the_node() {
        let node = |conditions: Value| -> Node {
            serde_json::from_value(
                json!({"apiVersion": "v1", "kind": "Node", "status": {"conditions": conditions}}),
            )
            .unwrap()
        };
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T08:01:02Z"});
        let ours =
            json!({"type": "RDMAHealthy", "status": "False", "lastTransitionTime": "2026-11-20T09:01:02Z"});
        let expected = ("False".to_owned(), "2026-11-20T09:01:02Z".to_owned());
        assert_eq!(former_transition(&node(json!([ready, ours]))), Some(expected));
        assert_eq!(former_transition(&node(json!([ready]))), None);
    }
}
