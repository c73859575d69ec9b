//! Label values of any text.

use silkrail_tests::{daemon::run, prometheus, scrape::Scrape};

use crate::DaemonFixture;

#[test]
fn a_node_name_can_be_any_text() {
    let node = DaemonFixture::new();
    for name in ["a \"quoted\" one", "back\\slash", "two\nlines", "\\n", "Knoten-ü-节点", "{node=\"x\"} 1 #"]
    {
        let output = run(&[&node.options()[..], &["--once", "--node-name", name]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let scrape = Scrape::parse(&text);
        assert_eq!(scrape.value("rdma_exporter_build_info", &[("node", name)]), "1", "{text}");
        assert!(scrape.samples().iter().all(|sample| sample.label("node") == name), "{text}");
        let checked = prometheus::checked(&text);
        assert!(checked.status.success(), "{text}{}", String::from_utf8_lossy(&checked.stderr));
    }
}
