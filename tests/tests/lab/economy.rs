//! What the kernel is not asked: each question about a PF's VFs is one to its firmware, under the kernel's own lock.

use serde_json::{Value, json};
use testkit::Call;

use silkrail_tests::{
    chain::Chain,
    machine::{Machine, Vf},
    trace::Trace,
};

/// How often ADD and DEL of the chain asked for the PF's VFs, and told it something about one.
fn asked_and_told(machine: &Machine, vf: &Vf, settings: Value) -> [(usize, usize); 2] {
    let pod = machine.node.pod("a");
    let chain = Chain::new(machine, vf, &pod, settings);
    let (mut add, mut del) = (Trace::new(&machine.node), Trace::new(&machine.node));
    let result = add.run(chain.sriov(), Call::add).ok();
    add.run(chain.rdma(), |rdma| rdma.with("prevResult", &result).add()).ok();
    del.run(chain.rdma(), Call::del).done();
    del.run(chain.sriov(), Call::del).done();
    [add, del].map(|trace| {
        assert!(trace.link_queries() > 0, "{:#?}", trace.sent);
        (trace.vf_queries(), trace.vf_changes())
    })
}

#[test]
fn an_add_asks_for_the_pfs_vfs_once_and_a_del_where_it_restores_something() {
    let machine = Machine::exclusive();
    let vf = machine.vf("eth0", 0);
    assert_eq!(asked_and_told(&machine, &vf, json!({})), [(1, 0), (0, 0)]);
    assert_eq!(asked_and_told(&machine, &vf, json!({"vlan": 5, "trust": "on"})), [(1, 2), (1, 2)]);
}

#[test]
fn what_a_vf_has_already_is_not_set_again() {
    let machine = Machine::exclusive();
    let vf = machine.vf("eth0", 1);
    let as_it_is = json!({"vlan": 0, "spoofchk": "on", "trust": "off", "min_tx_rate": 0, "max_tx_rate": 0});
    assert_eq!(asked_and_told(&machine, &vf, as_it_is), [(1, 0), (0, 0)]);
}
