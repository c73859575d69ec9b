//! Measurements that succeed.

use std::fs;

use serde_json::Value;
use silkrail_tests::{
    cli::silkrail,
    pair::{self, DEVICE, HERE, THERE},
};

use crate::agent::{RemoteAgent, check, no_perftest_is_left};

/// A bandwidth test with a threshold that an emulated machine reaches.
const BW: &str = "bw 192.0.2.2 --duration 3 --qps 2 --min-gbps 0.001";

#[test]
fn bandwidth_of_each_operation_is_measured_with_its_context() {
    let _agent = RemoteAgent::start();
    for op in ["write", "read", "send"] {
        let record = check(&format!("{BW} --op {op} --json")).ended(0).json();
        let gbps = record["bandwidth"]["averageGbps"].as_f64().unwrap();
        assert!(gbps > 0.001 && gbps < 20.0, "{record}");
        assert_eq!((&record["kind"], &record["operation"]), (&"bandwidth".into(), &op.into()));
        assert_eq!(record["verdict"]["passed"], true);
        for (end, node, address) in [("client", "lab", HERE), ("server", "lab-peer", THERE)] {
            let end = &record[end];
            assert_eq!([&end["node"], &end["device"], &end["gid"]], [node, DEVICE, address], "{record}");
            assert_eq!(end["link"], "eth0");
            assert_eq!(end["speedMbps"], 1000);
            assert!(end["gidWhy"].as_str().unwrap().contains("in the peer's subnet"), "{end}");
            assert!(end["perftest"].is_string(), "{end}");
            let sent = end["counters"]["hw_counters/sent_pkts"].as_u64().unwrap();
            assert!(sent > 0, "the counters of both ends grew: {end}");
        }
    }
    no_perftest_is_left();
}

#[test]
fn latency_of_each_operation_is_measured() {
    let _agent = RemoteAgent::start();
    for op in ["write", "read"] {
        let record = check(&format!("lat {THERE} --duration 3 --op {op} --json")).ended(0).json();
        let us = record["latency"]["averageUs"].as_f64().unwrap();
        assert!(us > 1.0 && us < 1e6, "{record}");
        let [p99, p999] = ["p99Us", "p999Us"].map(|key| record["latency"][key].as_f64().unwrap());
        assert!(p99 > 1.0 && p999 >= p99, "{record}");
        assert_eq!(record["verdict"]["passed"], Value::Null, "no threshold is set");
    }
    let slow =
        check(&format!("lat {THERE} --op send --duration 3 --max-us 0.001 --max-p99-us 0.001")).ended(6);
    assert!(slow.stdout.contains("verdict: FAILED: expected at most 0.001 us"), "{slow:?}");
    assert!(slow.stdout.contains("us; expected at most 0.001 us"), "{slow:?}");
}

#[test]
fn options_of_the_traffic_are_accepted_and_gpu_memory_is_refused_by_a_perftest_without_it() {
    let _agent = RemoteAgent::start();
    let options = "--traffic-class 104 --service-level 1 --bidirectional --no-store";
    let record = check(&format!("{BW} {options} --json")).ended(0).json();
    assert_eq!(record["options"]["trafficClass"], 104, "{record}");
    let refused = check(&format!("{BW} --gpu 0")).ended(1);
    assert!(refused.stderr.contains("cannot use the memory of a GPU"), "{refused:?}");
}

#[test]
fn results_are_stored_compared_and_exported() {
    let _agent = RemoteAgent::start();
    pair::here("rm -rf /var/lib/silkrail/check").ended(0);
    let first = check(BW).ended(0);
    assert!(first.stdout.contains("stored as result 1"), "{first:?}");
    // The emulated gigabit port does not reach 80 % of its speed.
    let second = check(&format!("bw {THERE} --duration 3 --qps 2 --threshold 10000")).ended(6);
    assert!(second.stdout.contains("verdict: FAILED") && second.stdout.contains("of 1 Gb/s"), "{second:?}");
    let history = silkrail("check history --json").ended(0).json();
    let ids: Vec<_> =
        history.as_array().unwrap().iter().map(|record| record["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2]);
    let table = silkrail("check history --last 1").ended(0).stdout;
    assert!(
        table.contains("lab-peer rxe0/1") && table.contains("FAILED") && !table.contains("passed"),
        "{table}"
    );
    silkrail("check compare --last --threshold 99").ended(0);
    let compared = silkrail("check compare 1 2 --json --threshold 99").ended(0).json();
    assert_eq!((&compared["before"], &compared["after"]), (&1.into(), &2.into()));
    // The second result, with ten times the bandwidth.
    let path = "/var/lib/silkrail/check/history.jsonl";
    let mut better: Value =
        serde_json::from_str(fs::read_to_string(path).unwrap().lines().nth(1).unwrap()).unwrap();
    let gbps = better["bandwidth"]["averageGbps"].as_f64().unwrap();
    (better["id"], better["bandwidth"]["averageGbps"]) = (3.into(), (gbps * 10.0).into());
    fs::write(path, format!("{}{better}\n", fs::read_to_string(path).unwrap())).unwrap();
    let worse = silkrail("check compare 3 2").ended(6);
    assert!(worse.stdout.contains("-90.0 %: REGRESSION"), "{worse:?}");
    silkrail("check compare 1 9").ended(1);
    let metrics = fs::read_to_string("/var/lib/silkrail/check/check_last.prom").unwrap();
    let labels =
        "operation=\"write\",size=\"65536\",node=\"lab\",device=\"rxe0\",port=\"1\",peer_node=\"lab-peer\"";
    assert!(metrics.contains(&format!("silkrail_check_bandwidth_bits_per_second{{{labels}")), "{metrics}");
}

#[test]
fn packet_loss_that_lowers_the_bandwidth_is_reported() {
    let _agent = RemoteAgent::start();
    pair::here("modprobe sch_netem && tc qdisc replace dev eth0 root netem loss 5%").ended(0);
    let lossy = check(&format!("{BW} --no-store"));
    pair::here("tc qdisc del dev eth0 root").ended(0);
    let lossy = lossy.ended(0);
    let (_, counters) = lossy.stdout.split_once("counters that indicate loss or congestion:").unwrap();
    assert!(counters.contains("hw_counters/"), "{lossy:?}");
}

#[test]
fn a_sweep_has_a_result_for_each_size_over_one_connection() {
    let agent = RemoteAgent::start();
    let before = silkrail("check history --json").json();
    let swept =
        check(&format!("bw {THERE} --duration 3 --min-gbps 0.00001 --sweep 1024..2048 --json --no-store"))
            .ended(0)
            .json();
    let sizes: Vec<_> =
        swept.as_array().unwrap().iter().map(|record| record["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [1024, 2048]);
    assert_eq!(silkrail("check history --json").json(), before, "--no-store");
    assert!(agent.log().contains("1024 bytes, 3 s"), "{}", agent.log());
}
