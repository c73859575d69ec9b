//! The admission policies of `conf/silkraild-ipam` and `conf/silkraild-node-condition`, evaluated by an interpreter of their
//! language: the API server that the other tests use is older than policies.

use std::collections::BTreeMap;

use cel::{Context, Program, Value as Cel, to_value};
use serde_json::{Value, json};
use silkrail_tests::conf;

const AGENT: &str = "system:serviceaccount:silkrail:silkraild-ipam";
const DAEMON: &str = "system:serviceaccount:silkrail:silkraild";
const NODE: &str = "authentication.kubernetes.io/node-name";

/// A request to the API server.
#[derive(Clone)]
struct Request {
    /// The directory of the policy.
    policy: &'static str,
    operation: &'static str,
    username: &'static str,
    extra: Value,
    object: Value,
    old: Value,
}

impl Request {
    /// Returns the request of an agent, whose token names its node.
    fn of_agent(node: &str, operation: &'static str, old: Option<&Value>, object: Option<&Value>) -> Self {
        let or_null = |object: Option<&Value>| object.cloned().unwrap_or_default();
        let extra = json!({ NODE: [node] });
        let policy = "silkraild-ipam";
        Self { policy, operation, username: AGENT, extra, object: or_null(object), old: or_null(old) }
    }

    /// Returns the request of a silkraild, whose token names its node.
    fn of_daemon(node: &str, old: &Value, object: &Value) -> Self {
        let (policy, extra) = ("silkraild-node-condition", json!({ NODE: [node] }));
        Self {
            policy,
            operation: "UPDATE",
            username: DAEMON,
            extra,
            object: object.clone(),
            old: old.clone(),
        }
    }

    /// Returns the messages of the policy's refusal; none if the request is allowed.
    fn refusals(&self) -> Vec<String> {
        let policy = conf::object(&format!("{}/policy.yaml", self.policy), "ValidatingAdmissionPolicy");
        let spec = &policy["spec"];
        let mut context = Context::default();
        let mut request = json!({"operation": self.operation, "userInfo": {"username": self.username}});
        if !self.extra.is_null() {
            request["userInfo"]["extra"] = self.extra.clone();
        }
        for (name, value) in [("request", &request), ("object", &self.object), ("oldObject", &self.old)] {
            context.add_variable_from_value(name, to_value(value).unwrap());
        }
        let evaluate = |context: &Context<'_, '_>, expression: &Value| {
            let expression = expression.as_str().unwrap();
            let program =
                Program::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
            program.execute(context).unwrap_or_else(|error| panic!("{expression}: {error}"))
        };
        let list = |key: &str| spec[key].as_array().unwrap();
        if list("matchConditions").iter().any(|one| evaluate(&context, &one["expression"]) != Cel::Bool(true))
        {
            return Vec::new();
        }
        let mut variables = BTreeMap::new();
        for variable in list("variables") {
            let value = evaluate(&context, &variable["expression"]);
            variables.insert(variable["name"].as_str().unwrap().to_owned(), value);
            context.add_variable_from_value(
                "variables",
                variables.clone().into_iter().collect::<std::collections::HashMap<_, _>>(),
            );
        }
        let failed = list("validations")
            .iter()
            .filter(|one| evaluate(&context, &one["expression"]) != Cel::Bool(true));
        let message = |one: &Value| match one.get("messageExpression") {
            Some(expression) => match evaluate(&context, expression) {
                Cel::String(text) => text.to_string(),
                other => panic!("{other:?}"),
            },
            None => one["message"].as_str().unwrap().to_owned(),
        };
        failed.map(message).collect()
    }
}

fn block(owner: Option<&str>) -> Value {
    let mut spec = json!({"cidr": "10.16.0.0/28"});
    match owner {
        Some(node) => spec["owner"] = json!({"nodeName": node, "nodeUID": "u"}),
        None => spec = json!({"cidr": "10.16.0.0/24", "blockSize": 16}),
    }
    json!({"metadata": {"name": "10.16.0.0-28"}, "spec": spec})
}

#[test]
fn an_agent_can_write_the_blocks_of_its_own_node_only() {
    let (own, other, parent) = (block(Some("node-a")), block(Some("node-b")), block(None));
    for (operation, old, object, refusal) in [
        ("CREATE", None, Some(&own), None),
        ("CREATE", None, Some(&parent), None),
        ("CREATE", None, Some(&other), Some("the agent of node node-a cannot lease a block for node node-b")),
        ("UPDATE", Some(&own), Some(&own), None),
        (
            "UPDATE",
            Some(&other),
            Some(&other),
            Some("the agent of node node-a cannot change or delete a block of node node-b"),
        ),
        ("UPDATE", Some(&other), Some(&own), Some("cannot change or delete a block of node node-b")),
        ("UPDATE", Some(&own), Some(&other), Some("cannot pass a block to node node-b")),
        ("UPDATE", Some(&own), Some(&parent), Some("cannot pass a block to node ")),
        ("UPDATE", Some(&parent), Some(&parent), Some("cannot change or delete a block of node ")),
        ("DELETE", Some(&own), None, None),
        ("DELETE", Some(&other), None, Some("cannot change or delete a block of node node-b")),
        ("DELETE", Some(&parent), None, Some("cannot change or delete a block of node ")),
    ] {
        let refusals = Request::of_agent("node-a", operation, old, object).refusals();
        let case = format!("{operation} {old:?} {object:?}: {refusals:?}");
        match refusal {
            None => assert!(refusals.is_empty(), "{case}"),
            Some(text) => assert!(refusals.iter().any(|refusal| refusal.contains(text)), "{case}"),
        }
    }
}

#[test]
fn the_addresses_of_a_block_cannot_be_changed() {
    let own = block(Some("node-a"));
    let mut changed = own.clone();
    changed["spec"]["cidr"] = json!("10.17.0.0/28");
    let refusals = Request::of_agent("node-a", "UPDATE", Some(&own), Some(&changed)).refusals();
    assert_eq!(refusals, ["spec.cidr cannot be changed"]);
}

#[test]
fn a_token_that_names_no_node_is_refused_and_other_users_are_not_restricted() {
    let own = block(Some("node-a"));
    let request = Request::of_agent("node-a", "CREATE", None, Some(&own));
    for extra in [Value::Null, json!({})] {
        let refusals = Request { extra, ..request.clone() }.refusals();
        assert!(refusals.iter().any(|text| text.contains("does not say on which node")), "{refusals:?}");
    }
    let without = Request { extra: json!({}), ..request.clone() };
    assert!(
        without.refusals().iter().any(|text| text.contains("does not say on which node")),
        "{:?}",
        without.refusals()
    );
    let controller =
        Request { username: "system:serviceaccount:silkrail:silkraild-ipam-controller", ..without };
    assert!(controller.refusals().is_empty());
}

/// A node as the kubelet registers it.
fn registered_node() -> Value {
    json!({
        "metadata": {"name": "node-a", "labels": {"zone": "a"}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "capacity": {"cpu": "8"},
            "allocatable": {"cpu": "8"},
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "RDMAHealthy", "status": "True"}],
        },
    })
}

/// A change of a node that a daemon requests.
type NodeChange = fn(&mut Value);

#[test]
fn silkraild_can_change_one_condition_of_its_own_node_only() {
    let old = registered_node();
    let refusals = |change: fn(&mut Value)| {
        let mut object = old.clone();
        change(&mut object);
        Request::of_daemon("node-a", &old, &object).refusals()
    };
    let allowed: [NodeChange; 3] = [
        |_| (),
        |node| node["status"]["conditions"][1]["status"] = json!("False"),
        |node| drop(node["status"]["conditions"].as_array_mut().unwrap().pop()),
    ];
    for change in allowed {
        assert!(refusals(change).is_empty(), "{:?}", refusals(change));
    }
    let of_status = "silkraild can change nothing of the status except the condition RDMAHealthy";
    let of_conditions = "silkraild can change no condition except RDMAHealthy";
    let of_metadata = "silkraild cannot change the metadata of a node";
    let refused: [(NodeChange, &str); 9] = [
        (|node| node["status"]["addresses"][0]["address"] = json!("10.0.0.2"), of_status),
        (|node| node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = json!(1), of_status),
        (|node| node["status"]["capacity"]["example.com/gpu"] = json!("8"), of_status),
        (|node| drop(node["status"].as_object_mut().unwrap().remove("allocatable")), of_status),
        (|node| node["status"]["volumesAttached"] = json!([]), of_status),
        (|node| node["status"]["conditions"][0]["status"] = json!("False"), of_conditions),
        (|node| drop(node["status"].as_object_mut().unwrap().remove("conditions")), of_conditions),
        (|node| node["metadata"]["labels"]["zone"] = json!("b"), of_metadata),
        (|node| node["metadata"]["annotations"] = json!({"a": "b"}), of_metadata),
    ];
    for (change, expected) in refused {
        assert_eq!(refusals(change), [expected]);
    }
    let of_other = Request::of_daemon("node-b", &old, &old);
    assert_eq!(of_other.refusals(), ["silkraild of node node-b cannot change node node-a"]);
    let unnamed = Request { extra: json!({}), ..of_other.clone() };
    assert!(unnamed.refusals().iter().any(|text| text.contains("does not say on which node")));
    let kubelet = Request { username: "system:node:node-a", ..of_other };
    assert!(kubelet.refusals().is_empty());
}
