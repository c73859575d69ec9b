//! silkrail-ipam with the addresses of a living Spiderpool.

use serde_json::{Value, json};
use silkrail_tests::{rail::RailNode, spiderpool_agent::FakeSpiderpoolAgent};
use testkit::Call;

const ARGS: &str = "K8S_POD_NAMESPACE=ai;K8S_POD_NAME=worker-0;K8S_POD_UID=91ab";

fn agent(rail: &RailNode) -> FakeSpiderpoolAgent {
    std::fs::create_dir_all(rail.node.state_dir()).unwrap();
    FakeSpiderpoolAgent::start(&rail.node.state_dir().with_extension("spiderpool"))
}

fn call(rail: &RailNode, agent: &FakeSpiderpoolAgent, more: Value) -> Call {
    let mut ipam = json!({
        "store": "spiderpool",
        "ipam_unix_socket_path": agent.path(),
        "default_ipv4_ippool": ["rail1-*"],
    });
    ipam.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rail.ipam(&ipam).args(ARGS)
}

#[test]
fn the_agent_assigns_and_releases_the_address() {
    let rail = RailNode::new();
    let agent = agent(&rail);
    let before = rail.node.snapshot();
    let call = call(&rail, &agent, json!({}));
    let result = call.add().ok();
    assert_eq!(
        (&result["ips"], &result["routes"]),
        (
            &json!([{"address": "10.16.1.10/24", "gateway": "10.16.1.1"}]),
            &json!([{"dst": "10.20.0.0/16", "gw": "10.16.1.1"}, {"dst": "0.0.0.0/0", "gw": "10.16.1.1"}]),
        )
    );
    let (request, body) = agent.requests().remove(0);
    assert_eq!(request, "POST /v1/ipam/ip");
    assert_eq!(
        (
            &body["podNamespace"],
            &body["podName"],
            &body["podUID"],
            &body["ifName"],
            &body["defaultIPv4IPPool"]
        ),
        (&json!("ai"), &json!("worker-0"), &json!("91ab"), &json!("net1"), &json!(["rail1-*"]))
    );
    assert_eq!(call.add().ok(), result, "a repeated ADD");
    call.check_after(&result).done();
    call.del().done();
    assert_eq!(agent.assigned(), Vec::<String>::new());
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn ipam_case_018_clean_gateway_is_the_agents() {
    let rail = RailNode::new();
    let agent = agent(&rail);
    let result = call(&rail, &agent, json!({"clean_gateway": true})).add().ok();
    assert_eq!(result["routes"], json!([{"dst": "10.20.0.0/16", "gw": "10.16.1.1"}]));
}

#[test]
fn ipam_case_083_087_a_refusal_of_the_agent_is_the_error() {
    let rail = RailNode::new();
    let agent = agent(&rail);
    let before = rail.node.snapshot();
    let call = call(&rail, &agent, json!({}));
    for status in [500, 521, 522] {
        agent.fails(status, "\"no IPPool available, all IPv4 IPPools [rail1] of net1 filtered out\"\n");
        let says = format!("[POST /ipam/ip][{status}] no IPPool available, all IPv4 IPPools");
        call.add().error(101).says(&["spiderpool IP allocation error", &says]);
        rail.node.snapshot().assert_is(&before);
    }
    agent.recovers();
    call.add().ok();
    agent.fails(500, "\"internal\"");
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn ipam_case_085_086_an_agent_that_is_missing_or_silent_does_not_block_a_del() {
    let rail = RailNode::new();
    let agent = agent(&rail);
    let before = rail.node.snapshot();
    let call = call(&rail, &agent, json!({}));
    call.add().ok();
    std::fs::remove_file(agent.path()).unwrap();
    call.clone()
        .container("other")
        .add()
        .error(11)
        .says(&["unhealthy spiderpool-agent backend", agent.path().to_str().unwrap()]);
    call.status().error(50).says(&["unhealthy spiderpool-agent backend"]);
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_pod_of_spiderpools_own_plugin_is_released() {
    let rail = RailNode::new();
    let agent = agent(&rail);
    // DEL without a journal.
    call(&rail, &agent, json!({})).del().done();
    assert_eq!(agent.requests()[0].0, "DELETE /v1/ipam/ip");
}

#[test]
fn what_identifies_the_pod_is_required() {
    let rail = RailNode::new();
    let agent = agent(&rail);
    let without = call(&rail, &agent, json!({})).args("K8S_POD_NAMESPACE=ai;K8S_POD_NAME=worker-0");
    without.add().error(4).says(&["K8S_POD_UID is not set"]);
    without.del().done();
    assert!(agent.requests().is_empty());
    let relative = call(&rail, &agent, json!({"ipam_unix_socket_path": "spiderpool.sock"}));
    relative.add().error(7).says(&["ipam_unix_socket_path", "below /run"]);
    call(&rail, &agent, json!({})).status().done();
}
