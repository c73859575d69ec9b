//! HTTP responses. Compression needs large responses, so the lab tests it.

use silkrail_tests::scrape::Scrape;

use crate::DaemonFixture;

/// The Accept header of Prometheus.
const PROMETHEUS: &str =
    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1";

#[test]
fn the_text_format_is_served_unless_openmetrics_is_requested() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    for accept in [None, Some("*/*"), Some("text/plain;version=0.0.4")] {
        let accept: Vec<_> = accept.map(|accept| ("Accept", accept)).into_iter().collect();
        let answer = daemon.request("GET /metrics", &accept);
        assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        assert!(!answer.text().contains("# EOF"), "{accept:?}");
        assert!(answer.headers["vary"].contains("Accept"));
    }
    let answer = daemon.request("GET /metrics", &[("Accept", PROMETHEUS)]);
    assert_eq!(answer.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = answer.text();
    assert_eq!((text.matches("# EOF").count(), text.ends_with("\n# EOF\n")), (1, true), "{text}");
    assert_eq!(Scrape::parse(&text).value("rdma_exporter_build_info", &[]), "1");
}

#[test]
fn a_head_request_gets_the_headers_only() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    for path in ["/", "/metrics", "/healthz"] {
        let (whole, head) =
            (daemon.request(&format!("GET {path}"), &[]), daemon.request(&format!("HEAD {path}"), &[]));
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.headers["content-type"], whole.headers["content-type"], "{path}");
        let length: usize = head.headers["content-length"].parse().unwrap();
        // The timestamp of the next collection may have fewer digits.
        assert!(length.abs_diff(whole.body.len()) < 10, "{path}: {length}");
    }
}

#[test]
fn an_unknown_path_is_not_found_and_the_response_lists_the_paths() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    for path in ["/metric", "/metrics/", "/../etc/passwd", "/api/v1/nodes", "//"] {
        let answer = daemon.request(&format!("GET {path}"), &[]);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("/metrics") && answer.text().contains("/healthz"), "{path}");
    }
    assert_eq!(daemon.request("GET /metrics?name[]=x", &[]).status, 200, "a query is not part of a path");
}

#[test]
fn another_method_is_refused_and_the_response_lists_the_allowed_ones() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    for request in ["POST /metrics", "PUT /", "DELETE /nowhere", "OPTIONS /healthz"] {
        let answer = daemon.request(request, &[("Content-Length", "0")]);
        assert_eq!((answer.status, answer.headers["allow"].as_str()), (405, "GET, HEAD"), "{request}");
    }
}

#[test]
fn the_probe_port_serves_health_only() {
    let node = DaemonFixture::new();
    let daemon = node.serve(&[]);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(
            (daemon.health(path).status, daemon.request(&format!("GET {path}"), &[]).status),
            (200, 200)
        );
    }
    for path in ["/", "/metrics", "/api/v1/node", "/page/page.js"] {
        let answer = daemon.health(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("/healthz and /readyz"), "{path}");
    }
}
