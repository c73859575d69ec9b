//! Owners, from an API server with and without faults. `api_server` is a small fake of it with the
//! same HTTP API.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod api_server;
mod fixture;

use std::{io::Write, sync::Arc, time::Duration};

use api_server::{ApiFault, FakeApiServer};
use exporter::{CollectorSet, ErrorReason, Exporter, ExporterOptions, NameFilter, WorkloadResolver};
use exposition::ExpositionFormat;
use fixture::{
    NODE, REPLICA_SET, RETRY_POLICY, kubeconfig, owner, owner_text, pod, reasons, start, until, until_owner,
    watch, watch_with, with_deployment,
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
    let owners = watch(&server.listen().await);
    let pod = pod("web-1-x", Some("p"));
    until("an owner", || owners.owner(&pod).is_some()).await;
    assert_eq!(owner_text(&owners, &pod), "apps/v1 Deployment ml/web");
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
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("nightly-1-x", Some("p")), "batch/v1 CronJob ml/nightly").await;
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
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("train-w-0-0", Some("p")), "jobset.x-k8s.io/v1alpha2 JobSet ml/train").await;
    until_owner(&owners, &pod("tune-c-head", Some("q")), "ray.io/v1 RayJob ml/tune").await;
}

#[tokio::test]
async fn if_an_owner_cannot_be_read_the_one_below_it_is_returned() {
    let server = FakeApiServer::new();
    server.serve_kind("argoproj.io/v1alpha1", "Workflow", "workflows", true);
    server.fault("apis/argoproj.io/v1alpha1/namespaces", Some(ApiFault::Status(403)));
    server.put_pod(NODE, "flow-1", "p", owner("argoproj.io/v1alpha1", "Workflow", "flow", "w"));
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("flow-1", Some("p")), "argoproj.io/v1alpha1 Workflow ml/flow").await;
    assert_eq!(reasons(&owners), [ErrorReason::Unreadable]);
    let what = &owners.errors()[0].what;
    assert_eq!(what, "owner of kind Workflow argoproj.io/v1alpha1: the test returns 403");
    // Once access is granted, it is read.
    server.put(
        "apis/argoproj.io/v1alpha1/namespaces/ml/workflows/flow",
        "w",
        owner("apps/v1", "Deployment", "d", "d"),
    );
    server.put("apis/apps/v1/namespaces/ml/deployments/d", "d", json!([]));
    server.fault("apis/argoproj.io/v1alpha1/namespaces", None);
    until_owner(&owners, &pod("flow-1", Some("p")), "apps/v1 Deployment ml/d").await;
    assert_eq!(reasons(&owners), []);
}

#[tokio::test]
async fn an_unknown_kind_is_resolved_once_the_server_has_it() {
    for group_exists in [false, true] {
        let server = FakeApiServer::new();
        server.serve_kind(if group_exists { "example.com/v1" } else { "v1" }, "Other", "others", true);
        server.put_pod(NODE, "a", "p", owner("example.com/v1", "Thing", "thing", "t"));
        let owners = watch(&server.listen().await);
        until_owner(&owners, &pod("a", Some("p")), "example.com/v1 Thing ml/thing").await;
        assert_eq!(reasons(&owners), [ErrorReason::Unreadable]);
        server.serve_kind("example.com/v1", "Thing", "things", true);
        server.put("apis/example.com/v1/namespaces/ml/things/thing", "t", owner("batch/v1", "Job", "j", "j"));
        server.put("apis/batch/v1/namespaces/ml/jobs/j", "j", json!([]));
        until_owner(&owners, &pod("a", Some("p")), "batch/v1 Job ml/j").await;
    }
}

#[tokio::test]
async fn another_object_of_the_same_name_is_not_the_owner() {
    let server = with_deployment();
    server.put(REPLICA_SET, "another", owner("apps/v1", "Deployment", "web", "d"));
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("web-1-x", Some("p")), "apps/v1 ReplicaSet ml/web-1").await;
    assert_eq!(reasons(&owners), [], "a missing owner is not an error");
}

#[tokio::test]
async fn a_pod_that_is_created_again_under_its_name_is_another() {
    let server = with_deployment();
    let owners = watch(&server.listen().await);
    let old = pod("web-1-x", Some("p"));
    until_owner(&owners, &old, "apps/v1 Deployment ml/web").await;
    server.delete_pod("web-1-x");
    server.put("apis/batch/v1/namespaces/ml/jobs/j", "j", json!([]));
    server.put_pod(NODE, "web-1-x", "p2", owner("batch/v1", "Job", "j", "j"));
    until_owner(&owners, &pod("web-1-x", Some("p2")), "batch/v1 Job ml/j").await;
    assert_eq!(
        owner_text(&owners, &pod("web-1-x", None)),
        "batch/v1 Job ml/j",
        "by name, the existing pod is found"
    );
    assert_eq!(owner_text(&owners, &old), "apps/v1 Deployment ml/web", "the deleted pod is kept for a while");
    assert_eq!(
        owner_text(&owners, &pod("web-1-x", Some("p3"))),
        "",
        "an unknown UID is not looked up by name"
    );
}

#[tokio::test]
async fn a_pod_without_an_owner_has_none_and_pods_of_other_nodes_are_ignored() {
    let server = FakeApiServer::new();
    server.put_pod(NODE, "alone", "p", json!([]));
    server.put_pod("gpu-08", "there", "q", owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    server.put_pod(NODE, "last", "r", owner("batch/v1", "Job", "j", "j"));
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("last", None), "batch/v1 Job ml/j").await;
    assert_eq!(
        (owner_text(&owners, &pod("alone", None)), owner_text(&owners, &pod("there", None))),
        ("".into(), "".into())
    );
    assert_eq!(server.requests("replicasets"), 0);
}

#[tokio::test]
async fn a_cluster_scoped_owner_has_no_namespace() {
    let server = FakeApiServer::new();
    server.serve_kind("example.com/v1", "Fleet", "fleets", false);
    server.put("apis/example.com/v1/fleets/red", "f", json!([]));
    server.put_pod(NODE, "a", "p", owner("example.com/v1", "Fleet", "red", "f"));
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("a", Some("p")), "example.com/v1 Fleet /red").await;
    assert_eq!(server.requests("/apis/example.com/v1/fleets/red"), 1);
}

#[tokio::test]
async fn a_static_pod_belongs_to_its_node_which_is_not_requested() {
    let server = FakeApiServer::new();
    let mirror = json!({
        "annotations": { "kubernetes.io/config.mirror": "0b1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f" },
        "ownerReferences": owner("v1", "Node", NODE, "n"),
    });
    server.put_pod_with(NODE, "etcd-gpu-07", "p", mirror);
    let owners = watch(&server.listen().await);
    // The UID of a static pod is the hash of its file.
    let pod = pod("etcd-gpu-07", Some("0b1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f"));
    until_owner(&owners, &pod, "v1 Node /gpu-07").await;
    assert_eq!(server.requests("nodes/"), 0);
}

#[tokio::test]
async fn a_pod_cannot_claim_the_uid_of_another() {
    let victim = "0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3";
    let server = with_deployment();
    server.put_pod(NODE, "victim", victim, owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    let claim = json!({
        "annotations": { "kubernetes.io/config.mirror": victim },
        "ownerReferences": owner("batch/v1", "Job", "evil", "e"),
    });
    server.put_pod_with(NODE, "evil", "p2", claim);
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("evil", Some("p2")), "batch/v1 Job ml/evil").await;
    until_owner(&owners, &pod("victim", Some(victim)), "apps/v1 Deployment ml/web").await;
}

#[tokio::test]
async fn a_cycle_of_owners_ends() {
    let server = FakeApiServer::new();
    server.put("apis/batch/v1/namespaces/ml/jobs/a", "a", owner("batch/v1", "Job", "b", "b"));
    server.put("apis/batch/v1/namespaces/ml/jobs/b", "b", owner("batch/v1", "Job", "a", "a"));
    server.put_pod(NODE, "x", "p", owner("batch/v1", "Job", "a", "a"));
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("x", Some("p")), "batch/v1 Job ml/b").await;
}

#[tokio::test]
async fn a_hundred_pods_of_one_workload_cost_one_request_per_owner_and_per_group() {
    let server = with_deployment();
    for n in 0..100 {
        let name = format!("pod-{n}");
        server.put_pod(NODE, &name, &name, owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    }
    let owners = watch(&server.listen().await);
    for n in 0..100 {
        until_owner(&owners, &pod(&format!("pod-{n}"), None), "apps/v1 Deployment ml/web").await;
    }
    assert_eq!((server.requests("/replicasets/"), server.requests("/deployments/")), (1, 1));
    assert_eq!(server.requests("/apis/apps/v1") - 2, 1);
}

#[tokio::test]
async fn a_closed_watch_is_resumed() {
    let server = with_deployment();
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    until("a watch", || server.requests("watch=true") == 1).await;
    server.close_watches();
    server.put_pod(NODE, "web-1-y", "p2", owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    until_owner(&owners, &pod("web-1-y", None), "apps/v1 Deployment ml/web").await;
    let lists = server.requests("/api/v1/pods") - server.requests("watch=true");
    assert_eq!(lists, 1, "the pods are not listed again");
    assert_eq!(reasons(&owners), []);
}

#[tokio::test]
async fn a_watch_that_is_too_old_is_replaced_by_a_list() {
    let server = with_deployment();
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    until("a watch", || server.requests("watch=true") == 1).await;
    server.fault("api/v1/pods", Some(ApiFault::Status(500)));
    server.close_watches();
    until("an error", || reasons(&owners) == [ErrorReason::Refused]).await;
    server.delete_pod("web-1-x");
    server.put_pod(NODE, "web-1-y", "p2", owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    server.compact();
    server.fault("api/v1/pods", None);
    until_owner(&owners, &pod("web-1-y", None), "apps/v1 Deployment ml/web").await;
    until("that the pod is gone", || owner_text(&owners, &pod("web-1-x", None)).is_empty()).await;
    // The same for an error within a watch.
    server.compact();
    server.put_pod(NODE, "web-1-z", "p3", owner("apps/v1", "ReplicaSet", "web-1", "rs"));
    until_owner(&owners, &pod("web-1-z", None), "apps/v1 Deployment ml/web").await;
    until("no error", || reasons(&owners).is_empty()).await;
}

#[tokio::test]
async fn a_server_that_is_down_is_an_error_until_it_starts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let owners = watch(&format!("http://{address}"));
    until("an error", || reasons(&owners) == [ErrorReason::Refused]).await;
    assert!(owners.errors()[0].what.starts_with("pods of node gpu-07 from the API server: "));
    assert_eq!(owner_text(&owners, &pod("web-1-x", None)), "");
    with_deployment().accept(TcpListener::bind(address).await.unwrap(), None);
    until_owner(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    until("no error", || reasons(&owners).is_empty()).await;
}

#[tokio::test]
async fn known_owners_are_kept_while_the_server_is_unavailable() {
    let server = with_deployment();
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    server.fault("", Some(ApiFault::Status(500)));
    server.close_watches();
    until("several attempts", || server.requests("/api/v1/pods") > 4).await;
    assert_eq!(owner_text(&owners, &pod("web-1-x", None)), "apps/v1 Deployment ml/web");
    assert_eq!(reasons(&owners), [ErrorReason::Refused]);
}

#[tokio::test]
async fn pods_that_cannot_be_listed_are_a_permission_error() {
    let server = with_deployment();
    server.fault("api/v1/pods", Some(ApiFault::Status(403)));
    let owners = watch(&server.listen().await);
    until("an error", || reasons(&owners) == [ErrorReason::Permission]).await;
}

#[tokio::test]
async fn a_request_that_hangs_delays_no_other() {
    let server = with_deployment();
    server.serve_kind("slow.io/v1", "Slow", "slows", true);
    server.fault("apis/slow.io/v1/namespaces", Some(ApiFault::Hang));
    server.put_pod(NODE, "slow", "s", owner("slow.io/v1", "Slow", "slow", "s"));
    // With this timeout the test would end before the request.
    let owners = watch_with(
        &server.listen().await,
        RetryPolicy { request_timeout: Duration::from_secs(3600), ..RETRY_POLICY },
    );
    until_owner(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    assert_eq!(owner_text(&owners, &pod("slow", None)), "");
    let owners = watch_with(
        &server.listen().await,
        RetryPolicy { request_timeout: Duration::from_millis(500), ..RETRY_POLICY },
    );
    until_owner(&owners, &pod("slow", None), "slow.io/v1 Slow ml/slow").await;
    assert_eq!(reasons(&owners), [ErrorReason::Timeout]);
}

#[tokio::test]
async fn a_malformed_response_is_reported_as_such() {
    let server = with_deployment();
    server.fault(REPLICA_SET, Some(ApiFault::Garbage));
    let owners = watch(&server.listen().await);
    until_owner(&owners, &pod("web-1-x", None), "apps/v1 ReplicaSet ml/web-1").await;
    assert_eq!(reasons(&owners), [ErrorReason::Malformed]);
    server.fault("api/v1/pods", Some(ApiFault::Status(403)));
    server.close_watches();
    until("both errors", || reasons(&owners) == [ErrorReason::Malformed, ErrorReason::Permission]).await;
}

#[tokio::test]
async fn the_server_is_verified_by_its_certificate_and_the_client_by_its_token() {
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
    until_owner(&trusting, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;

    let other = generate_simple_self_signed(["127.0.0.1".into()]).unwrap();
    std::fs::write(authority.path(), other.cert.pem()).unwrap();
    let distrusting = start(kubeconfig(address, Some(authority.path()), token.path())).await;
    until("an error", || reasons(&distrusting) == [ErrorReason::Refused]).await;
    let what = &distrusting.errors()[0].what;
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
async fn the_exporter_shows_owners_and_errors() {
    let server = with_deployment();
    let owners = Arc::new(watch(&server.listen().await));
    until_owner(&owners, &pod("web-1-x", None), "apps/v1 Deployment ml/web").await;
    server.fault("", Some(ApiFault::Status(500)));
    server.close_watches();
    until("an error", || !owners.errors().is_empty()).await;
    let root = node();
    let settings = ExporterOptions {
        node: NODE.into(),
        root: root.path().to_owned(),
        state_dir: "/run/silkrail".into(),
        collectors: CollectorSet::default(),
        devices: NameFilter::default(),
        metrics: NameFilter::default(),
        device_timeout: Duration::from_secs(2),
        counter_file: None,
        counter_sink: None,
        kept_files: 0,
        spiderpool: false,
        psn_interval: Duration::from_secs(1),
        psn_drivers: Vec::new(),
        resources: exporter::ResourceHealthStore::default(),
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
