//! Which pools a request can use, and in which order.

use serde_json::{Value, json};

use super::*;
use crate::PoolListSource;

/// Returns a pool of ten addresses with the further keys of `more`.
fn pool(name: &str, more: Value) -> Value {
    let mut pool = json!({"name": name, "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.10"]});
    pool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pool
}

fn v6(name: &str) -> Value {
    json!({"name": name, "subnet": "fd00::/64", "ips": ["fd00::1-fd00::9"]})
}

fn inline(pools: Vec<Value>) -> Pools {
    Pools::from_inline(&Value::Array(pools)).unwrap()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn select(pools: &Pools, v4: &[&str], v6: &[&str]) -> Result<(Vec<String>, Vec<String>), SelectError> {
    let (v4, v6) = (texts(v4), texts(v6));
    let request = PoolRequest {
        ifname: "net1",
        ipv4: &v4,
        ipv6: &v6,
        source: PoolListSource::Network,
        host_name: "node1",
        pod_namespace: PodNamespace::Of("ai"),
        network: Some("kube-system/macvlan"),
        labels: PodLabels::Unknown,
    };
    let selection = pools.select(&request)?;
    Ok((names(selection.ipv4).0, names(selection.ipv6).0))
}

#[test]
fn ipam_case_062_wildcards_expand_within_their_family() {
    let pools = inline(vec![
        pool("rail1-b", json!({})),
        v6("rail1-six"),
        pool("rail0-a", json!({})),
        pool("x", json!({})),
    ]);
    assert_eq!(select(&pools, &["x", "rail?-*"], &[]).unwrap().0, ["x", "rail1-b", "rail0-a"]);
    assert_eq!(select(&pools, &["*", "x"], &[]).unwrap().0, ["rail1-b", "rail0-a", "x"]);
    assert_eq!(select(&pools, &["rail0-a"], &["rail*"]).unwrap().1, ["rail1-six"]);
    let error = select(&pools, &["nvl[0-9]"], &[]).unwrap_err().to_string();
    assert!(
        error.starts_with("no IPPool available") && error.contains("[nvl[0-9]] of default_ipv4_ippool"),
        "{error}"
    );
    assert!(select(&pools, &["x["], &[]).unwrap_err().to_string().starts_with("wrong input, "));
}

#[test]
fn ipam_case_063_a_pool_that_does_not_exist_is_named() {
    let error = select(&inline(vec![pool("a", json!({}))]), &["a", "rail9"], &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "no IPPool available: IPPool \"rail9\" of default_ipv4_ippool does not exist; known IPPools: [a]"
    );
}

#[test]
fn ipam_case_064_a_pool_listed_twice_is_wrong_input() {
    let error = select(&inline(vec![pool("a", json!({}))]), &["a", "a"], &[]).unwrap_err().to_string();
    assert!(error.starts_with("wrong input, default_ipv4_ippool lists IPPool a twice"), "{error}");
}

#[test]
fn ipam_case_065_disabled_and_terminating_pools_are_skipped() {
    let dying = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
        "metadata": {"name": "dying", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"subnet": "10.0.0.0/24"}});
    let pools = inline(vec![pool("off", json!({"disable": true})), dying, pool("on", json!({}))]);
    assert_eq!(select(&pools, &["off", "dying", "on"], &[]).unwrap().0, ["on"]);
    assert_eq!(
        select(&pools, &["off", "dying"], &[]).unwrap_err().to_string(),
        "no IPPool available, all IPv4 IPPools [off dying] of net1 filtered out: \
         [off: it is disabled; dying: it is being deleted]"
    );
}

#[test]
fn ipam_case_066_another_nodes_pool_is_filtered_out() {
    let pools = inline(vec![
        pool("a", json!({"nodeName": ["node2"]})),
        pool("b", json!({"nodeName": ["node2", "node1"]})),
    ]);
    assert_eq!(select(&pools, &["a", "b"], &[]).unwrap().0, ["b"]);
    let error = select(&pools, &["a"], &[]).unwrap_err().to_string();
    assert!(error.contains("filtered out: [a: nodeName does not list this node, \"node1\"]"), "{error}");
}

#[test]
fn ipam_case_067_a_name_wins_over_the_selector_beside_it() {
    let labels = json!({"matchLabels": {"a": "b"}});
    let pools = inline(vec![
        pool("node", json!({"nodeName": ["node1"], "nodeAffinity": labels})),
        pool("namespace", json!({"namespaceName": ["ai"], "namespaceAffinity": labels})),
    ]);
    assert_eq!(select(&pools, &["node", "namespace"], &[]).unwrap().0, ["node", "namespace"]);
}

#[test]
fn ipam_case_068_every_filter_reports_its_reason() {
    let filters = [
        (json!({"podAffinity": {}}), "podAffinity selects by labels"),
        (json!({"nodeAffinity": {}}), "nodeAffinity selects by labels"),
        (json!({"namespaceAffinity": {}}), "namespaceAffinity selects by labels"),
        (json!({"namespaceName": ["default"]}), "namespaceName does not list the pod's namespace, \"ai\""),
        (
            json!({"multusName": ["macvlan2", "ai/macvlan"]}),
            "does not list this network, \"kube-system/macvlan\"",
        ),
        (json!({"subnet": "fd00::/64", "ips": []}), "it is an IPv6 pool"),
    ];
    for (more, reason) in filters {
        let error = select(&inline(vec![pool("a", more)]), &["a"], &[]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error} must contain {reason}");
    }
    let unknown = PoolRequest { ifname: "net1", ..PoolRequest::default() };
    for (more, reason) in [
        (json!({"namespaceName": ["ai"]}), SkipReason::NoNamespace),
        (json!({"multusName": ["a"]}), SkipReason::NoNetwork),
    ] {
        let pools = inline(vec![pool("a", more), pool("b", json!({}))]);
        assert_eq!(pools.select(&unknown).unwrap().skipped[0].reason, reason);
    }
}

#[test]
fn a_pool_with_selectors_is_used_by_the_pods_that_it_selects() {
    let labels = json!({"matchLabels": {"a": "b"}});
    let pools = inline(vec![
        pool("plain", json!({})),
        pool("tenant", json!({"namespaceAffinity": labels})),
        pool("pod", json!({"podAffinity": labels})),
        pool("both", json!({"podAffinity": labels, "namespaceAffinity": labels})),
    ]);
    let select = |pod: &[&str], namespace: &[&str]| {
        let selecting = SelectingPools { pod_affinity: texts(pod), namespace_affinity: texts(namespace) };
        let all = texts(&["*"]);
        let request =
            PoolRequest { ipv4: &all, labels: PodLabels::Selecting(&selecting), ..PoolRequest::default() };
        let selection = pools.select(&request).unwrap();
        let reasons: Vec<_> = selection.skipped.iter().map(ToString::to_string).collect();
        (names(selection.ipv4).0, reasons)
    };
    assert_eq!(select(&["pod", "both"], &["tenant", "both"]).0, ["both", "pod", "tenant", "plain"]);
    assert_eq!(select(&["both"], &["tenant"]).0, ["tenant", "plain"]);
    let pools = pools.clone().merge(inline(vec![pool("named", json!({"namespaceName": ["ai"]}))]));
    let all = texts(&["pod", "named"]);
    let (labels, pod_namespace) = (PodLabels::Any, PodNamespace::Any);
    let any = PoolRequest { ipv4: &all, labels, pod_namespace, ..PoolRequest::default() };
    assert_eq!(pools.select(&any).unwrap().ipv4.len(), 2);
    let (usable, reasons) = select(&[], &[]);
    assert_eq!(usable, ["plain"]);
    assert_eq!(reasons[0], "tenant: namespaceAffinity does not select the pod");
    assert_eq!(reasons[1], "pod: podAffinity does not select the pod");
}

#[test]
fn an_error_names_the_annotation_that_lists_the_pools() {
    let pools = inline(vec![pool("a", json!({}))]);
    for (source, key) in [
        (PoolListSource::Pod, "of annotation ipam.spidernet.io/ippool of the pod"),
        (PoolListSource::PodInterfaces, "of annotation ipam.spidernet.io/ippools of the pod"),
        (PoolListSource::Namespace, "of annotation ipam.spidernet.io/default-ipv4-ippool of the namespace"),
    ] {
        let missing = texts(&["b"]);
        let request = PoolRequest { ipv4: &missing, source, ..PoolRequest::default() };
        let error = pools.select(&request).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn networks_are_matched_with_or_without_their_namespace() {
    for (listed, network) in [("a/b", "a/b"), ("b", "a/b"), ("a/b", "b"), ("b", "b")] {
        assert!(is_network(listed, network), "{listed} {network}");
    }
    for (listed, network) in [("a/b", "c/b"), ("b", "a/c"), ("a/b", "a"), ("b", "c")] {
        assert!(!is_network(listed, network), "{listed} {network}");
    }
}

#[test]
fn ipam_case_069_the_more_specific_pool_comes_first() {
    let pools = inline(vec![
        pool("plain", json!({})),
        pool("network", json!({"multusName": ["sriov", "macvlan"]})),
        pool("namespace", json!({"namespaceName": ["default", "ai"]})),
        pool("both", json!({"namespaceName": ["ai"], "multusName": ["macvlan"]})),
        pool("node", json!({"nodeName": ["node1"]})),
    ]);
    let order = ["node", "both", "namespace", "network", "plain"];
    assert_eq!(select(&pools, &["*"], &[]).unwrap().0, order);
    let keys =
        ["podAffinity", "nodeName", "nodeAffinity", "namespaceName", "namespaceAffinity", "multusName"];
    let with = |key: &str| if key.ends_with("Name") { json!({key: ["a"]}) } else { json!({key: {}}) };
    let pools = inline(keys.iter().map(|key| pool(&key.to_ascii_lowercase(), with(key))).collect());
    assert!(pools.iter().is_sorted_by(|one, next| priority(one) > priority(next)), "{keys:?}");
}

#[test]
fn only_an_error_that_corrected_files_may_avoid_is_of_files() {
    let of_files = |pools: &Pools, names: &[&str]| select(pools, names, &[]).unwrap_err().is_of_files();
    let twice = || pool("twice", json!({}));
    let pools = inline(vec![twice(), twice(), pool("off", json!({"disable": true}))]);
    assert!(of_files(&pools, &["off", "twice"]));
    for names in [&["off"][..], &["unknown"], &["x*"], &["off", "off"]] {
        assert!(!of_files(&pools, names), "{names:?}");
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("bad.yaml"), "name: [").unwrap();
    let pools = pools.merge(Pools::read_dir(directory.path()).unwrap());
    for names in [&["off"][..], &["unknown"], &["x*"]] {
        assert!(of_files(&pools, names), "{names:?}");
    }
    assert!(!of_files(&pools, &["off", "off"]));
}

#[test]
fn ipam_case_070_equals_keep_the_lists_order() {
    let pools = inline((0..9).map(|index| pool(&format!("p{index}"), json!({}))).collect());
    for _ in 0..100 {
        assert_eq!(select(&pools, &["p7", "p1", "p3", "p0"], &[]).unwrap().0, ["p7", "p1", "p3", "p0"]);
    }
}

#[test]
fn ipam_case_075_a_family_without_pools_gets_no_address() {
    let pools = inline(vec![pool("a", json!({})), v6("b")]);
    assert_eq!(select(&pools, &["a"], &[]).unwrap(), (texts(&["a"]), vec![]));
    assert_eq!(select(&pools, &[], &["b"]).unwrap(), (vec![], texts(&["b"])));
    assert_eq!(select(&pools, &[], &[]).unwrap(), (texts(&["a"]), texts(&["b"])));
}

#[test]
fn without_names_inline_pools_come_before_default_ones() {
    let directory = tempfile::tempdir().unwrap();
    let default = "name: cluster\nsubnet: 10.9.0.0/24\nips: [10.9.0.1]\ndefault: true\n---\n\
                   name: other\nsubnet: 10.8.0.0/24";
    std::fs::write(directory.path().join("a.yaml"), default).unwrap();
    let read = || Pools::read_dir(directory.path()).unwrap();
    assert_eq!(select(&read(), &[], &[]).unwrap().0, ["cluster"]);
    let plain = inline(vec![pool("a", json!({})), pool("b", json!({}))]).merge(read());
    assert_eq!(select(&plain, &[], &[]).unwrap().0, ["a", "b"]);
    let chosen = inline(vec![pool("a", json!({})), pool("b", json!({"default": true}))]).merge(read());
    assert_eq!(select(&chosen, &[], &[]).unwrap().0, ["b"]);
    assert_eq!(select(&chosen, &["other"], &[]).unwrap().0, ["other"]);
}

#[test]
fn an_empty_set_of_pools_is_an_error() {
    let error = select(&Pools::default(), &[], &[]).unwrap_err().to_string();
    assert!(error.starts_with("no IPPool available: default_ipv4_ippool and"), "{error}");
}
