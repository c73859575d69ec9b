//! Pods with eight rails: `rail`.

use serde_json::{Value, json};
use testkit::{Call, Observe, TestNode, TestPod};

use silkrail_tests::{
    cluster::ClusterNetwork,
    rail_traffic::{Layout, RailPods},
};

const RAILS: usize = 8;

/// Two pods with eight rails each, on two nodes' worth of masters in one namespace, connected by a fabric.
struct RailFabric {
    pods: RailPods,
    node: TestNode,
    _fabric: TestPod,
}

impl RailFabric {
    fn new(layout: Layout) -> Self {
        let node = TestNode::new();
        let (pods, fabric) = ([node.pod("a"), node.pod("b")], node.pod("fabric"));
        // The fabric has no duplicate addresses, and detection takes a second.
        pods.iter().for_each(|pod| pod.set_sysctl("net/ipv6/conf/default/accept_dad", "0"));
        fabric.set_sysctl("net/ipv4/ip_forward", "1");
        fabric.set_sysctl("net/ipv6/conf/all/forwarding", "1");
        fabric.set_sysctl("net/ipv6/conf/default/accept_dad", "0");
        for rail in 1..=RAILS {
            let bridge = if layout == Layout::OneSubnet { "br1".into() } else { format!("br{rail}") };
            if fabric.link(&bridge).is_none() {
                fabric.run_ip(&format!("link add {bridge} type bridge mcast_snooping 0"));
                fabric.run_ip(&format!("link set {bridge} up"));
            }
            for (gateway, length) in layout.gateways(rail).iter().zip([24, 64]) {
                if let Some(gateway) = gateway.as_str() {
                    fabric.run_ip(&format!("address add {gateway}/{length} dev {bridge}"));
                }
            }
            for pod in 1..=2 {
                node.cable(&format!("m{pod}-{rail}"), &fabric, &format!("p{pod}-{rail}"));
                fabric.run_ip(&format!("link set p{pod}-{rail} master {bridge}"));
            }
        }
        Self { pods: RailPods { pods, layout, rails: RAILS }, node, _fabric: fabric }
    }

    /// Returns the call of macvlan for a pod's rail.
    fn call(&self, pod: usize, rail: usize, rail_conf: &Value) -> Call {
        let conf = json!({
            "cniVersion": "1.0.0", "name": format!("rail{rail}"), "type": "macvlan", "master": format!("m{pod}-{rail}"),
            "rail": rail_conf, "ipam": self.ipam(pod, rail),
        });
        let ifname = format!("net{rail}");
        let call = self.node.plugin("macvlan").conf(&conf).pod(&self.pods.pods[pod - 1]).ifname(&ifname);
        call.container(&format!("pod{pod}"))
    }

    fn ipam(&self, pod: usize, rail: usize) -> Value {
        let addresses = self.pods.layout.addresses(pod, rail);
        let pools = addresses.iter().zip(self.pods.layout.gateways(rail)).map(|(address, gateway)| {
            let (ip, length) = address.split_once('/').unwrap();
            let subnet = match (self.pods.layout, ip.contains(':')) {
                (Layout::OneSubnet, false) => "10.80.0.0".to_owned(),
                (Layout::OneSubnet, true) => "fd80::".to_owned(),
                (Layout::Subnets, false) => format!("10.80.{rail}.0"),
                (Layout::Subnets, true) => format!("fd80:{rail}::"),
            };
            let mut pool = json!({"name": if ip.contains(':') { "v6" } else { "v4" }, "subnet": format!("{subnet}/{length}"), "ips": [ip]});
            if !gateway.is_null() {
                pool["gateway"] = gateway;
            }
            pool
        });
        json!({"type": "silkrail-ipam", "pools": pools.collect::<Vec<_>>()})
    }

    /// Attaches all rails of both pods, and returns the calls with their results.
    fn attach(&self, rail_conf: &Value) -> Vec<(Call, Value)> {
        let each = (1..=2).flat_map(|pod| (1..=RAILS).map(move |rail| (pod, rail)));
        let calls = each.map(|(pod, rail)| self.call(pod, rail, rail_conf));
        calls.map(|call| (call.clone(), call.add().ok())).collect()
    }
}

fn attach_check_and_detach(layout: Layout, rail_conf: &Value) {
    let fabric = RailFabric::new(layout);
    let far = fabric.node.pod("cluster");
    let cluster = ClusterNetwork::of(&fabric.pods.pods[0], &far);
    let before = fabric.node.snapshot();
    let attached = fabric.attach(rail_conf);
    cluster.is_as_before();
    fabric.pods.each_source_uses_its_own_rail();
    for (call, result) in &attached {
        call.check_after(result).done();
    }
    for (call, result) in attached.iter().rev() {
        call.with("prevResult", result).del().done();
    }
    cluster.is_alone();
    fabric.node.snapshot().assert_is(&before);
}

#[test]
fn eight_rails_in_one_subnet_each_use_their_own_link() {
    attach_check_and_detach(Layout::OneSubnet, &json!(true));
}

#[test]
fn eight_rails_in_eight_subnets_each_use_their_own_link() {
    attach_check_and_detach(
        Layout::Subnets,
        &json!({"priority": 77, "bypass": ["10.96.0.0/12", "fd00:96::/108"]}),
    );
}
