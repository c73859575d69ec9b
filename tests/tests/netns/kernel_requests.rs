//! The requests and system calls of the plugins: their numbers do not depend on the machine, as their time does.

use std::fs;

use serde_json::json;
use testkit::{Answer, Call};

use silkrail_tests::{
    rail::{RailNode, ipam},
    trace::StraceRun,
};

#[test]
fn macvlan_never_requests_the_vfs_of_its_master() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    let mut trace = StraceRun::new(&rail.node);
    let result = trace.run(&call, Call::add).ok();
    trace.run(&call, |call| call.check_after(&result)).done();
    trace.run(&call, Call::status).done();
    trace.run(&call, Call::del).done();
    assert!(trace.link_queries() > 3, "{:#?}", trace.sent);
    assert_eq!(trace.vf_queries(), 0, "{:#?}", trace.sent);
}

/// Returns the number of netlink requests and of all system calls, from the first read of the configuration to the exit. Those for
/// memory, and those that the standard library makes in debug builds only, are not counted.
fn cost(rail: &RailNode, call: &Call, make: impl FnOnce(&Call) -> Answer) -> (usize, usize) {
    let file = rail.node.state_dir().with_file_name("calls");
    let answer = make(&call.clone().under(&["strace", "-f", "-o", file.to_str().unwrap()]));
    assert!(answer.status.success(), "{answer:?}");
    let text = fs::read_to_string(&file).unwrap();
    let is_counted = |line: &&str| {
        !["brk(", "mmap(", "munmap(", "mprotect(", "mremap(", "F_GETFD", "sigaltstack(", "+++"]
            .iter()
            .any(|other| line.contains(other))
    };
    let calls: Vec<_> =
        text.lines().skip_while(|line| !line.contains("read(0,")).filter(is_counted).collect();
    (calls.iter().filter(|line| line.contains("sendto(")).count(), calls.len())
}

/// A number that grows makes every pod of every node slower: the ADD of the Go plugins makes thousands.
#[test]
fn the_numbers_of_system_calls_of_a_macvlan_with_ipam_do_not_grow() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10-10.7.0.59"])}));
    // The first one creates directories.
    cost(&rail, &call, Call::add);
    cost(&rail, &call, Call::del);
    let (add, del) = (cost(&rail, &call, Call::add), cost(&rail, &call, Call::del));
    assert_eq!((add, del), ((10, 110), (2, 76)), "netlink requests and system calls of ADD and DEL");
}
