//! Limits of the requests to the kernel: each query for a PF's VFs is a query to its firmware, under the kernel's RTNL lock.

use std::{fs, process::Command, thread, time::Duration};

use serde_json::{Value, json};
use testkit::{Answer, Call, Observe};

use silkrail_tests::{
    chain::Chain,
    daemon::{self, Daemon},
    machine::{LabMachine, LabVf},
    trace::StraceRun,
};

/// Returns, for ADD and for DEL of the chain, the number of queries for the PF's VFs and of changes of a VF.
fn vf_requests(machine: &LabMachine, vf: &LabVf, settings: Value) -> [(usize, usize); 2] {
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
fn add_queries_the_vfs_of_the_pf_once_and_del_only_to_restore_a_setting() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 0);
    assert_eq!(vf_requests(&machine, &vf, json!({})), [(1, 0), (0, 0)]);
    assert_eq!(vf_requests(&machine, &vf, json!({"vlan": 5, "trust": "on"})), [(1, 1), (1, 1)]);
}

#[test]
fn settings_that_a_vf_already_has_are_not_set_again() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 1);
    let current = json!({"vlan": 0, "spoofchk": "on", "trust": "off", "min_tx_rate": 0, "max_tx_rate": 0});
    assert_eq!(vf_requests(&machine, &vf, current), [(1, 0), (0, 0)]);
}

/// Returns the netlink system calls of a call, as recorded by strace.
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
fn rdma_uses_one_socket_and_lists_the_devices_once() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 6), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    let add =
        netlink_calls(&machine, &chain.rdma().with("prevResult", &result), |call| drop(call.add().ok()));
    // The requests are: the RDMA mode, the list of devices, the counter mode, the optional counters, and the move.
    assert_eq!((count(&add, "socket("), count(&add, "sendto(")), (1, 5), "{add:#?}");
    let del = netlink_calls(&machine, chain.rdma(), |call| call.del().done());
    assert_eq!((count(&del, "socket("), count(&del, "sendto(")), (1, 4), "{del:#?}");
    chain.del();
}

#[test]
fn a_wait_for_a_device_does_not_list_all_devices_repeatedly() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 6), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    let _slow = machine.simulate(&vf.pci, "slow_enable_ms", "2500");
    pod.end();
    let calls = thread::scope(|scope| {
        let del = scope.spawn(|| netlink_calls(&machine, chain.rdma(), |call| call.del().done()));
        thread::sleep(Duration::from_secs(1));
        assert!(!del.is_finished(), "DEL did not wait");
        del.join().unwrap()
    });
    assert!((1..=4).contains(&count(&calls, "sendto(")), "{calls:#?}");
    chain.del();
}

/// Returns the number of system calls of a call, the bytes that it received, and its result. Equal attempts of a
/// wait count once: the kernel's speed determines their number.
fn cost(machine: &LabMachine, call: &Call, make: impl FnOnce(&Call) -> Answer) -> (usize, usize, Answer) {
    let file = machine.node.state_dir().with_file_name("calls");
    let answer = make(&call.clone().under(&["strace", "-f", "-o", file.to_str().unwrap()]));
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let mut attempts: Vec<_> = lines.split_inclusive(|line| line.contains("nanosleep(")).collect();
    attempts.dedup_by_key(|attempt| attempt.iter().map(|line| system_call(line)).collect::<Vec<_>>());
    let counted = attempts.concat();
    let received = counted.iter().filter(|line| line.contains("recvfrom(") || line.contains("recvmsg("));
    let bytes =
        received.filter_map(|line| line.rsplit_once("= ")?.1.split(' ').next()?.parse::<usize>().ok()).sum();
    (counted.len(), bytes, answer)
}

/// Returns the name of the system call in a line of strace, which begins with a PID.
fn system_call(line: &str) -> &str {
    let (_, call) = line.split_once(' ').unwrap();
    call.trim_start().split('(').next().unwrap()
}

/// Returns the number of system calls and received bytes of both ADDs and both DELs of a chain.
fn costs(machine: &LabMachine, vf: &LabVf) -> [(usize, usize); 4] {
    let pod = machine.node.pod("a");
    let chain = Chain::new(machine, vf, &pod, json!({"vlan": 5, "mtu": 1400}));
    let (add, received, answer) = cost(machine, chain.sriov(), Call::add);
    let prev = answer.ok();
    let (rdma_add, rdma_received, answer) = cost(machine, &chain.rdma().with("prevResult", &prev), Call::add);
    answer.ok();
    let (rdma_del, rdma_del_received, answer) = cost(machine, chain.rdma(), Call::del);
    answer.done();
    let (del, del_received, answer) = cost(machine, chain.sriov(), Call::del);
    answer.done();
    [(add, received), (rdma_add, rdma_received), (rdma_del, rdma_del_received), (del, del_received)]
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
    let numbers = alone.map(|(calls, _)| calls);
    // ADD of sriov with IPAM and of rdma, DEL of rdma and of sriov; with the loader and what only debug builds call.
    let most = [350, 290, 240, 375];
    assert!(numbers.iter().zip(most).all(|(calls, most)| *calls <= most), "{numbers:?}, at most {most:?}");
    batch((0..500).map(|n| format!("link add many{n} group 77 type dummy\n")).collect());
    batch((0..5000).map(|n| format!("address add 10.{}.{}.1/32 dev many0\n", n / 250, n % 250)).collect());
    let among_many = costs(&machine, &vf);
    batch("link del group 77\n".into());
    for ((calls, received), (calls_then, received_then)) in alone.into_iter().zip(among_many) {
        // A wait may see one event more or less.
        assert!(calls_then < calls + calls / 10, "{alone:?}, {among_many:?}");
        assert!(received_then < received + received / 10 + 2000, "{alone:?}, {among_many:?}");
    }
}

/// The netlink requests of a scrape are those of its devices and links: they do not grow with the number of metrics.
#[test]
fn the_numbers_of_netlink_requests_and_sysfs_files_of_a_scrape_are_limited() {
    let machine = LabMachine::exclusive();
    let file = machine.node.state_dir().with_file_name("scrape");
    let strace = ["-D", "-fyy", "-qq", "-etrace=sendto,openat", "-o", file.to_str().unwrap()];
    let mut command = Command::new("strace");
    command.args(strace).arg(daemon::executable());
    command.args(["--state-dir", machine.node.state_dir().to_str().unwrap()]);
    let daemon = Daemon::spawn(&mut command);
    let count = || {
        let text = fs::read_to_string(&file).unwrap();
        let of = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        [of("NETLINK"), of("\"/sys/")]
    };
    daemon.scrape();
    let before = count();
    daemon.scrape();
    let [requests, files] = count();
    let (requests, files) = (requests - before[0], files - before[1]);
    assert!(
        (1..=80).contains(&requests) && files <= 40,
        "{requests} netlink requests, {files} files of sysfs"
    );
}
