//! What the kernel is not asked: each question about a PF's VFs is one to its firmware, under the kernel's own lock.

use std::{fs, thread, time::Duration};

use serde_json::{Value, json};
use testkit::{Answer, Call, Observe, wait_until};

use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, LabVf},
    trace::StraceRun,
};

/// How often ADD and DEL of the chain asked for the PF's VFs, and told it something about one.
fn asked_and_told(machine: &LabMachine, vf: &LabVf, settings: Value) -> [(usize, usize); 2] {
    let pod = machine.node.pod("a");
    let chain = Chain::new(machine, vf, &pod, settings);
    let (mut add, mut del) = (StraceRun::new(&machine.node), StraceRun::new(&machine.node));
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
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 0);
    assert_eq!(asked_and_told(&machine, &vf, json!({})), [(1, 0), (0, 0)]);
    assert_eq!(asked_and_told(&machine, &vf, json!({"vlan": 5, "trust": "on"})), [(1, 1), (1, 1)]);
}

#[test]
fn what_a_vf_has_already_is_not_set_again() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 1);
    let as_it_is = json!({"vlan": 0, "spoofchk": "on", "trust": "off", "min_tx_rate": 0, "max_tx_rate": 0});
    assert_eq!(asked_and_told(&machine, &vf, as_it_is), [(1, 0), (0, 0)]);
}

/// The netlink system calls of a call, by strace's account.
fn netlink_calls(machine: &LabMachine, call: &Call, make: impl FnOnce(&Call)) -> Vec<String> {
    let file = machine.node.state_dir().with_file_name("trace");
    let traced = ["strace", "-fyy", "-etrace=socket,sendto,recvfrom", "-o", file.to_str().unwrap()];
    make(&call.clone().under(&traced));
    fs::read_to_string(&file)
        .unwrap()
        .lines()
        .filter(|line| line.contains("NETLINK"))
        .map(str::to_owned)
        .collect()
}

fn count(calls: &[String], what: &str) -> usize {
    calls.iter().filter(|line| line.contains(what)).count()
}

#[test]
fn rdma_asks_by_one_socket_and_lists_the_devices_once() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 6), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let add =
        netlink_calls(&machine, &chain.rdma().with("prevResult", &result), |call| drop(call.add().ok()));
    // What the mode is, which devices there are, and the move.
    assert_eq!((count(&add, "socket("), count(&add, "sendto(")), (1, 3), "{add:#?}");
    let del = netlink_calls(&machine, chain.rdma(), |call| call.del().done());
    assert_eq!((count(&del, "socket("), count(&del, "sendto(")), (1, 2), "{del:#?}");
    chain.del();
}

#[test]
fn who_waits_for_a_device_does_not_list_them_all_again_and_again() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 6), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    // The path is gone; a process that is ending keeps the namespace, and with it the device.
    let mut ending = pod.command("sleep").arg("60").spawn().unwrap();
    let of = |path: String| machine.node.run("stat", &["-Lc", "%i", &path]);
    let inside = of(pod.path().display().to_string());
    wait_until("the process is inside", || of(format!("/proc/{}/ns/net", ending.id())) == inside);
    pod.end();
    let calls = thread::scope(|scope| {
        let del = scope.spawn(|| netlink_calls(&machine, chain.rdma(), |call| call.del().done()));
        thread::sleep(Duration::from_secs(2));
        assert!(!del.is_finished(), "it did not wait");
        ending.kill().and_then(|()| ending.wait()).unwrap();
        del.join().unwrap()
    });
    assert!((1..=4).contains(&count(&calls, "sendto(")), "{calls:#?}");
    chain.del();
}

/// What a call asks of the kernel: system calls, and bytes of its answers.
fn cost(machine: &LabMachine, call: &Call, make: impl FnOnce(&Call) -> Answer) -> (usize, usize, Answer) {
    let file = machine.node.state_dir().with_file_name("calls");
    let answer = make(&call.clone().under(&["strace", "-f", "-o", file.to_str().unwrap()]));
    let text = fs::read_to_string(&file).unwrap();
    let received = text.lines().filter(|line| line.contains("recvfrom(") || line.contains("recvmsg("));
    let bytes =
        received.filter_map(|line| line.rsplit_once("= ")?.1.split(' ').next()?.parse::<usize>().ok()).sum();
    (text.lines().count(), bytes, answer)
}

/// What ADD and DEL of a chain cost.
fn costs(machine: &LabMachine, vf: &LabVf) -> [(usize, usize); 4] {
    let pod = machine.node.pod("a");
    let chain = Chain::new(machine, vf, &pod, json!({"vlan": 5, "mtu": 1400}));
    let (add, heard, answer) = cost(machine, chain.sriov(), Call::add);
    let prev = answer.ok();
    let (rdma_add, rdma_heard, answer) = cost(machine, &chain.rdma().with("prevResult", &prev), Call::add);
    answer.ok();
    let (rdma_del, rdma_del_heard, answer) = cost(machine, chain.rdma(), Call::del);
    answer.done();
    let (del, del_heard, answer) = cost(machine, chain.sriov(), Call::del);
    answer.done();
    [(add, heard), (rdma_add, rdma_heard), (rdma_del, rdma_del_heard), (del, del_heard)]
}

#[test]
fn an_add_costs_the_same_with_many_addresses_and_links() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 2);
    let batch = |lines: String| {
        let file = machine.node.state_dir().with_file_name("batch");
        fs::write(&file, lines).unwrap();
        machine.node.run("ip", &["-batch", file.to_str().unwrap()]);
    };
    let alone = costs(&machine, &vf);
    batch((0..500).map(|n| format!("link add many{n} group 77 type dummy\n")).collect());
    batch((0..5000).map(|n| format!("address add 10.{}.{}.1/32 dev many0\n", n / 250, n % 250)).collect());
    let among_many = costs(&machine, &vf);
    batch("link del group 77\n".into());
    for ((calls, heard), (calls_then, heard_then)) in alone.into_iter().zip(among_many) {
        // A wait may take one event more or less.
        assert!(calls_then < calls + calls / 10, "{alone:?}, {among_many:?}");
        assert!(heard_then < heard + heard / 10 + 2000, "{alone:?}, {among_many:?}");
    }
}
