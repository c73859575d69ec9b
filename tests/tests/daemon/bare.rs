//! silkraild on a node without RDMA.

use std::process::Output;

use silkrail_tests::{daemon, scrape::Scrape};

use crate::DaemonFixture;

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Whether a metric is one of RDMA, and not one of silkraild itself.
fn is_of_rdma(name: &&str) -> bool {
    !name.starts_with("rdma_exporter_") && !name.starts_with("rdma_scrape_")
}

#[test]
fn once_prints_the_build_info_and_no_rdma_metric() {
    let node = DaemonFixture::new();
    let output = daemon::run(&[&node.options()[..], &["--once", "--node-name", "bare"]].concat());
    let (stdout, stderr) = text(&output);
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""));
    let scrape = Scrape::parse(&stdout);
    assert_eq!(scrape.value("rdma_exporter_build_info", &[("node", "bare")]), "1");
    assert_eq!(scrape.names().into_iter().filter(is_of_rdma).collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(scrape.of("rdma_scrape_errors_total", &[]).is_empty(), "{stdout}");
}

#[test]
fn it_becomes_ready_and_serves_metrics_and_a_page() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    let metrics = daemon.request("GET /metrics", &[]);
    assert_eq!(metrics.status, 200);
    let scrape = Scrape::parse(&metrics.text());
    assert_eq!(scrape.value("rdma_exporter_build_info", &[]), "1");
    assert_eq!(scrape.names().into_iter().filter(is_of_rdma).collect::<Vec<_>>(), Vec::<&str>::new());
    let page = daemon.request("GET /", &[]);
    assert_eq!((page.status, page.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    assert_eq!(daemon.request("GET /api/v1/node", &[]).status, 200);
    assert!(!daemon.log().contains("WARN"), "{}", daemon.log());
}
