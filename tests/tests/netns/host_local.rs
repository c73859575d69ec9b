//! Together with host-local, an IPAM plugin of the reference implementation.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Call, Observe};

use silkrail_tests::rail::{RailNode, ip};

/// The directory of the Debian package `containernetworking-plugins`.
const DIR: &str = "/usr/lib/cni";

fn call(rail: &RailNode) -> Call {
    assert!(
        Path::new(DIR).join("host-local").is_file(),
        "{DIR}/host-local is missing: apt-get install containernetworking-plugins"
    );
    let ipam = json!({
        "type": "host-local", "dataDir": data_dir(rail),
        "ranges": [[{"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.10", "rangeEnd": "10.7.0.11", "gateway": "10.7.0.1"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    });
    rail.macvlan(&json!({"cniVersion": "1.0.0", "ipam": ipam})).delegates_in(Path::new(DIR))
}

fn data_dir(rail: &RailNode) -> Value {
    json!(rail.node.state_dir().with_file_name("host-local"))
}

/// The addresses that host-local has allocated, from its data directory.
fn allocated(rail: &RailNode) -> Vec<String> {
    let dir = format!("{}/rail", data_dir(rail).as_str().unwrap());
    let listed = rail.node.run("ls", &[dir]);
    listed.lines().filter(|name| name.starts_with("10.")).map(str::to_owned).collect()
}

#[test]
fn host_local_allocates_and_releases_an_address() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = call(&rail);
    let result = call.add().ok();
    assert_eq!(rail.pod.addresses("net1"), [format!("{}/24", ip(&result))]);
    assert_eq!(rail.pod.routes("net1")[0]["gateway"], "10.7.0.1");
    assert_eq!(allocated(&rail), [ip(&result)]);
    call.check_after(&result).done();
    call.del().done();
    assert!(allocated(&rail).is_empty());
    rail.node.snapshot().assert_is(&before);
    call.del().done();
}

#[test]
fn invariant_1_the_address_of_host_local_is_released_if_the_add_fails() {
    let rail = RailNode::new();
    // The interface name is in use, so ADD fails.
    rail.pod.run_ip("link add net1 type veth peer name other");
    call(&rail).add().error(102);
    rail.pod.run_ip("link delete net1");
    call(&rail).fault("error:3").add().error(999);
    assert!(allocated(&rail).is_empty());
}

#[test]
fn invariant_2_the_address_of_host_local_is_released_without_the_namespace_and_the_state() {
    let rail = RailNode::new();
    let call = call(&rail);
    call.add().ok();
    std::fs::remove_dir_all(rail.node.state_dir()).unwrap();
    call.env("CNI_NETNS", "").del().done();
    assert!(allocated(&rail).is_empty());
}

#[test]
fn the_error_of_host_local_is_returned() {
    let rail = RailNode::new();
    for n in 0..2 {
        let pod = rail.node.pod(&format!("pod{n}"));
        call(&rail).pod(&pod).container(&format!("c{n}")).add().ok();
    }
    call(&rail).add().refusal().says(&["no IP addresses available"]);
}
