//! Owners, as an API server tells of them that behaves well and badly.
//!
//! No real API server runs here: `api_server` is a small stand-in that speaks the same HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod api_server;
mod fixture;

use std::{io::Write, sync::Arc, time::Duration};

use api_server::{ApiFault, FakeApiServer};
use exporter::{CollectorSet, DeviceFilter, ErrorReason, Exporter, ExporterOptions, WorkloadResolver};
use exposition::ExpositionFormat;
use fixture::{
    NODE, REPLICA_SET, RETRY_POLICY, ask, ask_with, kubeconfig, owner, pod, reasons, start, told, until,
    until_told, with_deployment,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};
use workloads::RetryPolicy;

#[tokio::test]
async fn a_pod_of_a_deployment_belongs_to_it_and_never_to_its_replica_set() {
    let server = with_deployment();
    let owners = ask(&server.listen().await);
    let pod = pod("web-1-x", Some("p"));
    until("an owner", || owners.owner(&pod).is_some()).await;
    assert_eq!(told(&owners, &pod), "apps/v1 Deployment ml/web");
    assert_eq!(reasons(&owners), []);
}

#[tokio::test]
async fn a_pod_of_a_cron_job_belongs_to_it() {
    let server = FakeApiServer::new();
    server.put("apis/batch/v1/namespaces/ml/cronjobs/nightly", "c", json!([]));
    server.put(
        "apis/batch/v1/namespaces/ml/jobs/nightly-1",
        "j",
        owner("batch/v1", "CronJob", "nightly", "c"),
    );
    server.put_pod(NODE, "nightly-1-x", "p", owner("batch/v1", "Job", "nightly-1", "j"));
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("nightly-1-x", Some("p")), "batch/v1 CronJob ml/nightly").await;
}

#[tokio::test]
async fn custom_kinds_are_followed_to_the_top() {
    let server = FakeApiServer::new();
    server.serve_kind("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", true);
    server.serve_kind("ray.io/v1", "RayCluster", "rayclusters", true);
    server.serve_kind("ray.io/v1", "RayJob", "rayjobs", true);
    server.put("apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets/train", "js", json!([]));
    let job_set = owner("jobset.x-k8s.io/v1alpha2", "JobSet", "train", "js");
    server.put("apis/batch/v1/namespaces/ml/jobs/train-w-0", "j", job_set);
    server.put_pod(NODE, "train-w-0-0", "p", owner("batch/v1", "Job", "train-w-0", "j"));
    server.put("apis/ray.io/v1/namespaces/ml/rayjobs/tune", "rj", json!([]));
    server.put(
        "apis/ray.io/v1/namespaces/ml/rayclusters/tune-c",
        "rc",
        owner("ray.io/v1", "RayJob", "tune", "rj"),
    );
    server.put_pod(NODE, "tune-c-head", "q", owner("ray.io/v1", "RayCluster", "tune-c", "rc"));
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("train-w-0-0", Some("p")), "jobset.x-k8s.io/v1alpha2 JobSet ml/train").await;
    until_told(&owners, &pod("tune-c-head", Some("q")), "ray.io/v1 RayJob ml/tune").await;
}

#[tokio::test]
async fn an_owner_that_may_not_be_read_leaves_the_one_below_it() {
    let server = FakeApiServer::new();
    server.serve_kind("argoproj.io/v1alpha1", "Workflow", "workflows", true);
    server.fault("apis/argoproj.io/v1alpha1/namespaces", Some(ApiFault::Status(403)));
    server.put_pod(NODE, "flow-1", "p", owner("argoproj.io/v1alpha1", "Workflow", "flow", "w"));
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("flow-1", Some("p")), "argoproj.io/v1alpha1 Workflow ml/flow").await;
    assert_eq!(reasons(&owners), [ErrorReason::Unreadable]);
    let what = &owners.troubles()[0].what;
    assert_eq!(what, "owner of kind Workflow argoproj.io/v1alpha1: the test says 403");
    // Once it may be read, it is.
    server.put(
        "apis/argoproj.io/v1alpha1/namespaces/ml/workflows/flow",
        "w",
        owner("apps/v1", "Deployment", "d", "d"),
    );
    server.put("apis/apps/v1/namespaces/ml/deployments/d", "d", json!([]));
    server.fault("apis/argoproj.io/v1alpha1/namespaces", None);
    until_told(&owners, &pod("flow-1", Some("p")), "apps/v1 Deployment ml/d").await;
    assert_eq!(reasons(&owners), []);
}

#[tokio::test]
async fn a_kind_that_the_server_lacks_leaves_the_one_below_it_until_it_comes() {
    let server = FakeApiServer::new();
    server.put_pod(NODE, "a", "p", owner("example.com/v1", "Thing", "thing", "t"));
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("a", Some("p")), "example.com/v1 Thing ml/thing").await;
    assert_eq!(reasons(&owners), [ErrorReason::Unreadable]);
    server.serve_kind("example.com/v1", "Thing", "things", true);
    server.put("apis/example.com/v1/namespaces/ml/things/thing", "t", owner("batch/v1", "Job", "j", "j"));
    server.put("apis/batch/v1/namespaces/ml/jobs/j", "j", json!([]));
    until_told(&owners, &pod("a", Some("p")), "batch/v1 Job ml/j").await;
}

#[tokio::test]
async fn another_object_of_the_same_name_is_not_the_owner() {
    let server = with_deployment();
    server.put(REPLICA_SET, "another", owner("apps/v1", "Deployment", "web", "d"));
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("web-1-x", Some("p")), "apps/v1 ReplicaSet ml/web-1").await;
    assert_eq!(reasons(&owners), [], "an owner that is gone is no trouble");
}

#[tokio::test]
async fn a_pod_that_is_made_again_under_its_name_is_another() {
    let server = with_deployment();
    let owners = ask(&server.listen().await);
    let old = pod("web-1-x", Some("p"));
    until_told(&owners, &old, "apps/v1 Deployment ml/web").await;
    server.delete_pod("web-1-x");
    server.put("apis/batch/v1/namespaces/ml/jobs/j", "j", json!([]));
    server.put_pod(NODE, "web-1-x", "p2", owner("batch/v1", "Job", "j", "j"));
    until_told(&owners, &pod("web-1-x", Some("p2")), "batch/v1 Job ml/j").await;
    assert_eq!(told(&owners, &pod("web-1-x", None)), "batch/v1 Job ml/j", "by name it is the one that lives");
    assert_eq!(told(&owners, &old), "apps/v1 Deployment ml/web", "what it had is still shown for a while");
    assert_eq!(told(&owners, &pod("web-1-x", Some("p3"))), "", "a UID nobody knows is not taken for a name");
}

#[tokio::test]
async fn a_pod_without_an_owner_has_none_and_one_of_another_node_is_not_asked_for() {
    let server = FakeApiServer::new();
    server.put_pod(NODE, "alone", "p", json!([]));
    server.put_pod("gpu-08", "there", "q", owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    server.put_pod(NODE, "last", "r", owner("batch/v1", "Job", "j", "j"));
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("last", None), "batch/v1 Job ml/j").await;
    assert_eq!(
        (told(&owners, &pod("alone", None)), told(&owners, &pod("there", None))),
        ("".into(), "".into())
    );
    assert_eq!(server.asked("replicasets"), 0);
}

#[tokio::test]
async fn an_owner_in_no_namespace_is_told_without_one() {
    let server = FakeApiServer::new();
    server.serve_kind("example.com/v1", "Fleet", "fleets", false);
    server.put("apis/example.com/v1/fleets/red", "f", json!([]));
    server.put_pod(NODE, "a", "p", owner("example.com/v1", "Fleet", "red", "f"));
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("a", Some("p")), "example.com/v1 Fleet /red").await;
    assert_eq!(server.asked("/apis/example.com/v1/fleets/red"), 1);
}

#[tokio::test]
async fn a_static_pod_belongs_to_its_node_which_is_not_asked_for() {
    let server = FakeApiServer::new();
    let mirror = json!({
        "annotations": { "kubernetes.io/config.mirror": "0b1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f" },
        "ownerReferences": owner("v1", "Node", NODE, "n"),
    });
    server.put_pod_with(NODE, "etcd-gpu-07", "p", mirror);
    let owners = ask(&server.listen().await);
    // A static pod: the node knows it by the hash of its file.
    let pod = pod("etcd-gpu-07", Some("0b1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f"));
    until_told(&owners, &pod, "v1 Node /gpu-07").await;
    assert_eq!(server.asked("nodes/"), 0);
}

#[tokio::test]
async fn a_pod_that_pretends_to_be_another_speaks_for_itself_only() {
    let victim = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";
    let server = with_deployment();
    server.put_pod(NODE, "victim", victim, owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    let claim = json!({
        "annotations": { "kubernetes.io/config.mirror": victim },
        "ownerReferences": owner("batch/v1", "Job", "evil", "e"),
    });
    server.put_pod_with(NODE, "evil", "p2", claim);
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("evil", Some("p2")), "batch/v1 Job ml/evil").await;
    until_told(&owners, &pod("victim", Some(victim)), "apps/v1 Deployment ml/web").await;
}

#[tokio::test]
async fn owners_that_own_each_other_have_an_end() {
    let server = FakeApiServer::new();
    server.put("apis/batch/v1/namespaces/ml/jobs/a", "a", owner("batch/v1", "Job", "b", "b"));
    server.put("apis/batch/v1/namespaces/ml/jobs/b", "b", owner("batch/v1", "Job", "a", "a"));
    server.put_pod(NODE, "x", "p", owner("batch/v1", "Job", "a", "a"));
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("x", Some("p")), "batch/v1 Job ml/b").await;
}

#[tokio::test]
async fn a_hundred_pods_of_one_workload_cost_one_question_for_each_owner_and_one_for_each_group() {
    let server = with_deployment();
    for n in 0..100 {
        let name = format!("pod-{n}");
        server.put_pod(NODE, &name, &name, owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    }
    let owners = ask(&server.listen().await);
    for n in 0..100 {
        until_told(&owners, &pod(&format!("pod-{n}"), None), "apps/v1 Deployment ml/web").await;
    }
    assert_eq!((server.asked("/replicasets/"), server.asked("/deployments/")), (1, 1));
    assert_eq!(server.asked("/apis/apps/v1") - 2, 1);
}

#[tokio::test]
async fn a_watch_that_is_closed_is_resumed_where_it_was() {
    let server = with_deployment();
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    until("a watch", || server.asked("watch=true") == 1).await;
    server.close_watches();
    server.put_pod(NODE, "web-1-y", "p2", owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    until_told(&owners, &pod("web-1-y", None), "apps/v1 Deployment ml/web").await;
    let lists = server.asked("/api/v1/pods") - server.asked("watch=true");
    assert_eq!(lists, 1, "it did not need to begin anew");
    assert_eq!(reasons(&owners), []);
}

#[tokio::test]
async fn a_watch_that_is_too_far_behind_begins_anew() {
    let server = with_deployment();
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    until("a watch", || server.asked("watch=true") == 1).await;
    server.fault("api/v1/pods", Some(ApiFault::Status(500)));
    server.close_watches();
    until("trouble", || reasons(&owners) == [ErrorReason::Refused]).await;
    server.delete_pod("web-1-x");
    server.put_pod(NODE, "web-1-y", "p2", owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    server.compact();
    server.fault("api/v1/pods", None);
    until_told(&owners, &pod("web-1-y", None), "apps/v1 Deployment ml/web").await;
    until("that the pod is gone", || told(&owners, &pod("web-1-x", None)).is_empty()).await;
    // And if it only hears of it in the midst of a watch.
    server.compact();
    server.put_pod(NODE, "web-1-z", "p3", owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    until_told(&owners, &pod("web-1-z", None), "apps/v1 Deployment ml/web").await;
    until("no trouble", || reasons(&owners).is_empty()).await;
}

#[tokio::test]
async fn a_server_that_is_down_is_told_as_trouble_and_found_when_it_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let owners = ask(&format!("http://{address}"));
    until("trouble", || reasons(&owners) == [ErrorReason::Refused]).await;
    assert!(owners.troubles()[0].what.starts_with("pods of node gpu-07 from the API server: "));
    assert_eq!(told(&owners, &pod("web-1-x", None)), "");
    with_deployment().accept(TcpListener::bind(address).await.unwrap(), None);
    until_told(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    until("no trouble", || reasons(&owners).is_empty()).await;
}

#[tokio::test]
async fn what_is_known_stays_known_while_the_server_is_away() {
    let server = with_deployment();
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    server.fault("", Some(ApiFault::Status(500)));
    server.close_watches();
    until("several attempts", || server.asked("/api/v1/pods") > 4).await;
    assert_eq!(told(&owners, &pod("web-1-x", None)), "apps/v1 Deployment ml/web");
    assert_eq!(reasons(&owners), [ErrorReason::Refused]);
}

#[tokio::test]
async fn pods_that_may_not_be_listed_are_trouble_of_permission() {
    let server = with_deployment();
    server.fault("api/v1/pods", Some(ApiFault::Status(403)));
    let owners = ask(&server.listen().await);
    until("trouble", || reasons(&owners) == [ErrorReason::Permission]).await;
}

#[tokio::test]
async fn an_owner_that_hangs_holds_up_no_other() {
    let server = with_deployment();
    server.serve_kind("slow.io/v1", "Slow", "slows", true);
    server.fault("apis/slow.io/v1/namespaces", Some(ApiFault::Hang));
    server.put_pod(NODE, "slow", "s", owner("slow.io/v1", "Slow", "slow", "s"));
    // It is not waited for in vain: this test would end first.
    let owners =
        ask_with(&server.listen().await, RetryPolicy { answer: Duration::from_secs(3600), ..RETRY_POLICY });
    until_told(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    assert_eq!(told(&owners, &pod("slow", None)), "");
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("slow", None), "slow.io/v1 Slow ml/slow").await;
    assert_eq!(reasons(&owners), [ErrorReason::Timeout]);
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_told_as_such() {
    let server = with_deployment();
    server.fault(REPLICA_SET, Some(ApiFault::Garbage));
    let owners = ask(&server.listen().await);
    until_told(&owners, &pod("web-1-x", None), "apps/v1 ReplicaSet ml/web-1").await;
    assert_eq!(reasons(&owners), [ErrorReason::Malformed]);
}

#[tokio::test]
async fn a_server_is_known_by_its_certificate_and_we_by_our_token() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".into()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let tls = ServerConfig::builder().with_no_client_auth();
    let tls = tls.with_single_cert(vec![cert.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = with_deployment();
    server.demand("s3cret");
    server.accept(listener, Some(TlsAcceptor::from(Arc::new(tls))));

    let mut authority = tempfile::NamedTempFile::new().unwrap();
    authority.write_all(cert.pem().as_bytes()).unwrap();
    let mut token = tempfile::NamedTempFile::new().unwrap();
    token.write_all(b"s3cret").unwrap();
    let trusting = start(kubeconfig(address, Some(authority.path()), token.path())).await;
    until_told(&trusting, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;

    let stranger = generate_simple_self_signed(["127.0.0.1".into()]).unwrap();
    std::fs::write(authority.path(), stranger.cert.pem()).unwrap();
    let distrusting = start(kubeconfig(address, Some(authority.path()), token.path())).await;
    until("trouble", || reasons(&distrusting) == [ErrorReason::Refused]).await;
    let what = &distrusting.troubles()[0].what;
    assert!(what.contains("certificate") && !what.contains("s3cret"), "{what}");
}

/// A node's root with one pod in its pod map, and no device.
fn node() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("sys/class/infiniband")).unwrap();
    std::fs::create_dir_all(root.path().join("proc/sys/kernel/random")).unwrap();
    std::fs::write(root.path().join("proc/sys/kernel/random/boot_id"), "this-boot").unwrap();
    let mut entry = podmap::Entry::new("rdma", "a@net1".parse().unwrap());
    entry.boot_id = "this-boot".into();
    entry.pod =
        Some(podmap::PodRef { namespace: "ml".into(), name: "web-1-x".into(), uid: Some("p".into()) });
    let map = podmap::PodMap::below(&root.path().join("run/silkrail"));
    map.write(&"a@net1".parse().unwrap(), &entry).unwrap();
    root
}

#[tokio::test]
async fn the_exporter_shows_owners_and_what_keeps_it_from_knowing_them() {
    let server = with_deployment();
    let owners = Arc::new(ask(&server.listen().await));
    until_told(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    server.fault("", Some(ApiFault::Status(500)));
    server.close_watches();
    until("trouble", || !owners.troubles().is_empty()).await;
    let root = node();
    let settings = ExporterOptions {
        node: NODE.into(),
        root: root.path().to_owned(),
        state_dir: "/run/silkrail".into(),
        collectors: CollectorSet::default(),
        devices: DeviceFilter::default(),
        patience: Duration::from_secs(2),
        kept_files: 0,
        spiderpool: false,
        psn_interval: Duration::from_secs(1),
        psn_drivers: Vec::new(),
    };
    let text = Exporter::new(settings, owners).collect().exposition.encode(ExpositionFormat::Text);
    for line in [
        r#"rdma_pod_info{node="gpu-07",pod_namespace="ml",pod_name="web-1-x",pod_uid="p",owner_api_version="apps/v1",owner_kind="Deployment",owner_namespace="ml",owner_name="web"} 1"#,
        r#"rdma_scrape_collector_success{node="gpu-07",collector="owners"} 0"#,
        r#"rdma_scrape_errors_total{node="gpu-07",collector="owners",reason="refused"} 1"#,
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n\n{text}");
    }
}
