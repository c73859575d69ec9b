//! What a session remembers, and what it answers before it knows the cluster. No request is made.

use serde_json::json;
use tokio::sync::oneshot::{self, Receiver};

use super::*;
use crate::{
    offline_node::OfflineNode,
    socket::{AgentAnswer, FAILURE_DELAY},
};

/// A step, and whether the pools are read again after it.
type SessionStep<'a> = (&'a dyn Fn(&mut Session), bool);

struct SessionFixture {
    session: Session,
    _node: OfflineNode,
}

impl SessionFixture {
    fn new(watches_pods: bool) -> Self {
        let node = OfflineNode::new();
        let options = SessionOptions {
            pools_dir: node.state_dir().join("pools"),
            node_name: "n".to_owned(),
            uid: "u".to_owned(),
            labels: NodeLabels::new(),
            watches_pods,
        };
        let session = Session::new(node.api(), node.store(), options);
        Self { session, _node: node }
    }

    fn ask(&mut self, pools: &[&str], address: Option<&str>) -> Receiver<AgentAnswer> {
        let pools = pools.iter().map(|name| (*name).to_owned()).collect();
        let (sender, receiver) = oneshot::channel();
        let request = BlockRequest { pools, address: address.map(|text| text.parse().unwrap()) };
        self.session.add(Waiting::new(request, sender));
        receiver
    }
}

fn files(names: &[&str]) -> Arc<PoolFiles> {
    let pool = |name: &&str| {
        let spec = json!({"subnet": "10.0.0.0/24", "ips": ["10.0.0.1"], "disable": *name == "off"});
        let object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": name}, "spec": spec});
        serde_json::from_value::<DynamicObject>(object).unwrap()
    };
    let objects: Vec<_> = names.iter().map(pool).collect();
    Arc::new(PoolFiles::of(&objects, [], &BTreeSet::new(), "n", &NodeLabels::new()))
}

#[test]
fn a_request_counts_for_the_first_pool_that_can_be_used() {
    let mut node = SessionFixture::new(false);
    node.session.files = files(&["a", "b", "off"]);
    let _open = [
        node.ask(&["a", "b"], None),
        node.ask(&["gone", "a"], None),
        node.ask(&["off", "b"], None),
        node.ask(&["gone"], None),
        // The block of its address is leased by another way.
        node.ask(&["b"], Some("10.0.0.1")),
    ];
    let needs: Vec<_> =
        node.session.needs().iter().map(|need| (need.name.to_string(), need.waiting)).collect();
    assert_eq!(needs, [("a".to_owned(), 2), ("b".to_owned(), 1), ("off".to_owned(), 0)]);
}

#[test]
fn only_what_changes_the_pools_makes_them_be_read_again() {
    let mut node = SessionFixture::new(true);
    let session = &mut node.session;
    assert!(session.reserved.is_none() && session.has_changed && session.pools().is_none());
    let labels = |zone: &str| NodeLabels::from([("zone".to_owned(), zone.to_owned())]);
    let exists = |labels| NodeObject::Exists { uid: "u".to_owned(), labels };
    let reserved = |last: u8| Arc::new(BTreeSet::from([IpAddr::from([10, 0, 0, last])]));
    let steps: [SessionStep<'_>; 6] = [
        (&|session| session.set_node(exists(labels("a"))), true),
        (&|session| session.set_node(exists(labels("a"))), false),
        (&|session| session.set_node(NodeObject::Missing), false),
        (&|session| session.set_reserved(reserved(1)), true),
        (&|session| session.set_reserved(reserved(1)), false),
        (&|session| session.set_reserved(reserved(2)), true),
    ];
    for (number, (step, has_changed)) in steps.into_iter().enumerate() {
        session.has_changed = false;
        step(session);
        assert_eq!(session.has_changed, has_changed, "step {number}");
        assert_eq!(session.is_node_missing, number > 1, "step {number}");
    }
    assert!(!session.read_pools(), "there are no objects yet");
    session.next = Some(files(&["a"]));
    session.write_pools();
    assert!(
        session.next.is_none() && session.has_files && session.options.pools_dir.join("pools.json").exists()
    );
    session.next = Some(files(&["a", "b"]));
    assert_eq!(
        (session.pools().unwrap().pools.len(), session.files.pools.len()),
        (2, 1),
        "those that were last read"
    );
}

#[test]
fn the_delay_grows_with_each_failure_up_to_eight_seconds() {
    let mut node = SessionFixture::new(false);
    for (failures, most) in [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (50, 8)] {
        let most = Duration::from_secs(most);
        for _ in 0..20 {
            let delay = delay_after(failures);
            assert!(delay <= most && delay >= most / 2, "{failures} {delay:?}");
        }
    }
    let later = Instant::now() + Duration::from_secs(300);
    node.session.next_sync = later;
    for failures in 1..=4 {
        node.session.fail(format!("failure {failures}"));
        let (at, text) = node.session.failure.clone().unwrap();
        assert!(
            node.session.failures == failures && text == format!("failure {failures}") && at > Instant::now()
        );
    }
    assert!(node.session.next_sync < later, "what was left is corrected soon");
}

#[test]
fn until_the_cluster_is_known_only_failures_are_answered() {
    for (not_ready, failure, expected) in [
        (None, None, None),
        (None, Some("failure"), Some("failure")),
        (Some("not ready"), Some("failure"), Some("not ready")),
    ] {
        let mut node = SessionFixture::new(false);
        node.session.set_not_ready(not_ready.map(str::to_owned));
        node.session.failure = failure.map(|text: &str| (Instant::now(), text.to_owned()));
        let (mut early, mut late) = (node.ask(&["gone"], None), node.ask(&["gone"], None));
        node.session.waiting[1].since = Instant::now() - FAILURE_DELAY;
        node.session.answer();
        assert!(early.try_recv().is_err());
        assert_eq!(late.try_recv().ok(), expected.map(|text| AgentAnswer::unavailable(text.to_owned())));
        assert_eq!(node.session.waiting.len(), if expected.is_some() { 1 } else { 2 });
    }
}
