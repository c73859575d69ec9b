//! Measurements that are refused, interrupted or fail, and that leave no process.

use std::process::{Child, Command, Stdio};

use silkrail_tests::{
    cli::{self, silkrail},
    pair::{self, THERE},
};
use testkit::wait_until;

use crate::agent::{IDLE, RemoteAgent, TOKEN, check, no_perftest_is_left, perftests};

/// Starts a test that takes longer than any wait for its end, and waits until perftest runs at both ends.
fn long_test() -> Child {
    let arguments = format!("check bw {THERE} --duration 150 --qps 1 --no-store --token-file {TOKEN}");
    let mut command = Command::new(IDLE[0]);
    let child = command
        .args(&IDLE[1..])
        .arg(cli::executable())
        .args(arguments.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("perftest runs at both ends", || perftests().iter().all(|list| list.contains("ib_write_bw")));
    child
}

#[test]
fn a_client_without_the_token_is_refused() {
    let _agent = RemoteAgent::start();
    let other = "/run/other.token";
    pair::here(&format!("umask 077; echo another-token-of-another-cluster >{other}")).ended(0);
    let refused = silkrail(&format!("check bw {THERE} --token-file {other}")).ended(1);
    assert!(refused.stderr.contains("the token is wrong or missing"), "{refused:?}");
    let refused = silkrail(&format!("check bw {THERE}")).ended(1);
    assert!(refused.stderr.contains("requires a token: use --token-file"), "{refused:?}");
    pair::here(&format!("chmod 644 {other}")).ended(0);
    let refused = silkrail(&format!("check bw {THERE} --token-file {other}")).ended(1);
    assert!(refused.stderr.contains("chmod 600"), "{refused:?}");
    let open = silkrail("check serve --listen 0.0.0.0:18514").ended(1);
    assert!(open.stderr.contains("--token-file"), "{open:?}");
}

#[test]
fn a_test_that_cannot_run_is_an_error_with_a_reason() {
    let _agent = RemoteAgent::start();
    let before = silkrail("check history --json").json();
    let failed = check(&format!("bw {THERE} --device mlx5_9")).ended(1);
    assert!(failed.stderr.contains("no RDMA device mlx5_9; available: rxe0/1"), "{failed:?}");
    let failed = check(&format!("bw {THERE} --peer-device mlx5_9")).ended(1);
    assert!(
        failed.stderr.contains(&format!("{THERE}: no usable RDMA port: no RDMA device mlx5_9")),
        "{failed:?}"
    );
    let failed = check(&format!("lat {THERE} --gid-index 77")).ended(1);
    assert!(failed.stderr.contains("has no GID 77"), "{failed:?}");
    check(&format!("bw {THERE} --device --help")).ended(2);
    check(&format!("bw {THERE} --size 0")).ended(2);
    let failed = check("bw 192.0.2.2:18599 --duration 1").ended(1);
    assert!(failed.stderr.contains("does `silkrail check serve` run there"), "{failed:?}");
    assert_eq!(silkrail("check history --json").json(), before, "no result is stored");
}

#[test]
fn an_agent_without_perftest_reports_the_missing_package() {
    let agent = RemoteAgent::start_with("env PATH=/nonexistent");
    let failed = check(&format!("bw {THERE}")).ended(1);
    assert!(
        failed.stderr.contains("ib_write_bw: not found in PATH; install the package perftest"),
        "{failed:?}"
    );
    assert!(agent.log().contains("install the package perftest"), "{}", agent.log());
}

#[test]
fn a_killed_client_leaves_no_process_and_the_agent_continues_to_serve() {
    let _agent = RemoteAgent::start();
    let mut client = long_test();
    let busy = check(&format!("bw {THERE} --duration 1")).ended(1);
    assert!(busy.stderr.contains("busy: another test is running"), "{busy:?}");
    client.kill().unwrap();
    client.wait().unwrap();
    no_perftest_is_left();
    check(&format!("bw {THERE} --duration 3 --qps 2 --min-gbps 0.001 --no-store")).ended(0);
}

#[test]
fn an_interrupt_of_the_client_cleans_up() {
    let _agent = RemoteAgent::start();
    let mut client = long_test();
    pair::here(&format!("kill -INT {}", client.id())).ended(0);
    assert_eq!(client.wait().unwrap().code(), Some(1));
    no_perftest_is_left();
}

#[test]
fn an_agent_that_exits_ends_its_test() {
    let agent = RemoteAgent::start();
    let mut client = long_test();
    agent.end().ended(0);
    assert_eq!(client.wait().unwrap().code(), Some(1), "no result");
    no_perftest_is_left();
}

#[test]
fn a_killed_agent_ends_its_test() {
    let _agent = RemoteAgent::start();
    let mut client = long_test();
    pair::there("kill -9 $(cat /run/agent.pid)").ended(0);
    assert_eq!(client.wait().unwrap().code(), Some(1), "no result");
    no_perftest_is_left();
}

#[test]
fn a_firewall_that_drops_roce_is_reported() {
    let _agent = RemoteAgent::start();
    pair::there(
        "set -e; modprobe -a sch_ingress cls_u32 act_gact; tc qdisc add dev eth0 clsact
        tc filter add dev eth0 ingress protocol ip u32 match ip protocol 17 0xff match ip dport 4791 0xffff action drop",
    )
    .ended(0);
    let blocked = check(&format!("bw {THERE} --duration 1 --qps 1 --no-store"));
    pair::there("tc qdisc del dev eth0 clsact").ended(0);
    let blocked = blocked.ended(1);
    assert!(blocked.stderr.contains("is UDP port 4791 (RoCE v2) open"), "{blocked:?}");
    no_perftest_is_left();
}
