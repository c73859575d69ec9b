//! Requests that the plugins never send to the kernel.

use serde_json::json;
use testkit::Call;

use silkrail_tests::{rail::RailNode, trace::StraceRun};

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
