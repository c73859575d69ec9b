//! The manifests of monitoring: they contain the plain files, and select the right objects. `deploy.rs` has their permissions.

use std::fs;

use serde_json::{Value, json};

use silkrail_tests::{conf, daemon, dashboard::Dashboard};

use crate::promtool;

const DAEMON_SET: &str = "silkraild/daemonset.yaml";
const CONFIG_MAPS: &str = "grafana/kubernetes/configmaps.yaml";

fn daemon_set() -> Value {
    conf::object(DAEMON_SET, "DaemonSet")
}

fn pod() -> Value {
    daemon_set()["spec"]["template"].clone()
}

fn container() -> Value {
    pod()["spec"]["containers"][0].clone()
}

#[test]
fn config_maps_contain_the_dashboards_unchanged() {
    let maps = conf::yaml(CONFIG_MAPS);
    let dashboards = Dashboard::all();
    assert_eq!(maps.len(), dashboards.len());
    for (map, dashboard) in maps.iter().zip(&dashboards) {
        assert_eq!(map["kind"], "ConfigMap");
        assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
        let data = map["data"].as_object().unwrap();
        assert_eq!(data.len(), 1, "{}", dashboard.name);
        let plain = conf::text(&format!("grafana/dashboards/{}", dashboard.name));
        assert!(data[&dashboard.name] == *plain, "{} differs: run hack/manifests", dashboard.name);
    }
}

/// `kubectl apply` stores the object in an annotation of at most 256 KiB.
#[test]
fn config_maps_are_small_enough_to_be_applied() {
    for map in conf::yaml(CONFIG_MAPS) {
        assert!(map.to_string().len() < 250_000, "{}", map["metadata"]["name"]);
    }
}

#[test]
fn the_grafana_operator_finds_every_dashboard_in_its_config_map() {
    let maps = conf::yaml(CONFIG_MAPS);
    let dashboards = conf::yaml("grafana/kubernetes/grafanadashboards.yaml");
    assert_eq!(dashboards.len(), maps.len());
    for (dashboard, map) in dashboards.iter().zip(&maps) {
        assert_eq!(dashboard["apiVersion"], "grafana.integreatly.org/v1beta1");
        assert_eq!(dashboard["kind"], "GrafanaDashboard");
        assert!(dashboard["spec"]["instanceSelector"]["matchLabels"].is_object());
        let reference = &dashboard["spec"]["configMapRef"];
        assert_eq!(reference["name"], map["metadata"]["name"]);
        assert!(map["data"].get(reference["key"].as_str().unwrap()).is_some(), "{reference}");
    }
}

#[test]
fn the_prometheus_rule_contains_the_rules_unchanged() {
    let rule = conf::object("prometheus/kubernetes/prometheusrule.yaml", "PrometheusRule");
    let plain = conf::yaml("prometheus/rules.yml").remove(0);
    assert!(rule["spec"] == plain, "they differ: run hack/manifests");
}

#[test]
fn monitors_select_the_pods_of_the_daemon_set_and_set_the_job_of_the_rules() {
    let pod = pod();
    let labels = pod["metadata"]["labels"].as_object().unwrap();
    let port = &container()["ports"][0]["name"];
    let pod_monitor = conf::object("prometheus/kubernetes/podmonitor.yaml", "PodMonitor");
    let service_monitor = conf::object("prometheus/kubernetes/servicemonitor.yaml", "ServiceMonitor");
    let service = conf::object("prometheus/kubernetes/servicemonitor.yaml", "Service");
    assert_eq!(service["spec"]["selector"], pod["metadata"]["labels"]);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], *port);
    let monitors = [
        (&pod_monitor, "podMetricsEndpoints", labels),
        (&service_monitor, "endpoints", service["metadata"]["labels"].as_object().unwrap()),
    ];
    for (monitor, endpoints, target) in monitors {
        let spec = &monitor["spec"];
        assert_eq!(spec["selector"]["matchLabels"], json!(target));
        assert_eq!(spec["namespaceSelector"]["matchNames"], json!([daemon_set()["metadata"]["namespace"]]));
        assert_eq!(target[spec["jobLabel"].as_str().unwrap()], "silkraild");
        assert_eq!(spec[endpoints][0]["port"], *port);
        assert_eq!(spec[endpoints][0]["honorLabels"], true);
    }
}

/// The examples with TLS match each other, and are otherwise equal to those without.
#[test]
fn the_tls_examples_match_and_differ_from_the_others_in_tls_only() {
    let [plain, secure] = ["servicemonitor", "servicemonitor-tls"]
        .map(|name| conf::object(&format!("prometheus/kubernetes/{name}.yaml"), "ServiceMonitor"));
    let services = ["servicemonitor", "servicemonitor-tls"]
        .map(|name| conf::object(&format!("prometheus/kubernetes/{name}.yaml"), "Service"));
    assert_eq!(services[0], services[1]);
    let mut without = secure.clone();
    let endpoint = without["spec"]["endpoints"][0].as_object_mut().unwrap();
    let (scheme, tls, login) =
        (endpoint.remove("scheme"), endpoint.remove("tlsConfig"), endpoint.remove("basicAuth"));
    assert_eq!(without, plain);
    assert_eq!(scheme.unwrap(), "https");
    for part in [&tls.as_ref().unwrap()["ca"]["secret"], &tls.as_ref().unwrap()["cert"]["secret"]] {
        assert_eq!(part["name"], login.as_ref().unwrap()["username"]["name"]);
    }
    assert!(tls.as_ref().unwrap().get("insecureSkipVerify").is_none());

    let patch = conf::object("silkraild-tls/daemonset.yaml", "DaemonSet");
    let (added, volume) = (
        &patch["spec"]["template"]["spec"]["containers"][0],
        &patch["spec"]["template"]["spec"]["volumes"][0],
    );
    let mount = &added["volumeMounts"][0];
    let file = format!("--web.config.file={}/web.yaml", mount["mountPath"].as_str().unwrap());
    assert_eq!(added["args"], json!([file]));
    assert_eq!((&mount["name"], &volume["secret"]["defaultMode"]), (&volume["name"], &json!("0400")));
    // The login and the server name match; `daemon/web.rs` tests the two examples together.
    let job = conf::yaml("prometheus/tls.yml").remove(0)["scrape_configs"][0].clone();
    assert_eq!(job["tls_config"]["server_name"], tls.unwrap()["serverName"]);
    let web = conf::yaml("silkraild/web.yaml").remove(0);
    assert!(web["basic_auth_users"][job["basic_auth"]["username"].as_str().unwrap()].is_string());
}

/// Debian's promtool is built without Kubernetes support; it checks the rest of that job.
#[test]
fn prometheus_accepts_its_configuration_which_sets_the_job_of_the_rules() {
    let mut configuration = conf::yaml("prometheus/prometheus.yml").remove(0);
    let jobs = configuration["scrape_configs"].as_array_mut().unwrap();
    assert_eq!(jobs[0]["job_name"], "silkraild");
    assert_eq!(jobs[1]["relabel_configs"][0], json!({"target_label": "job", "replacement": "silkraild"}));
    assert!(jobs[0].as_object_mut().unwrap().remove("kubernetes_sd_configs").is_some());
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("prometheus.yml"), configuration.to_string()).unwrap();
    fs::copy(conf::path("prometheus/rules.yml"), directory.path().join("rules.yml")).unwrap();
    promtool::run(&["check", "config", "prometheus.yml"], directory.path());
}

#[test]
fn the_daemon_set_has_the_node_name_and_health_probes() {
    let container = container();
    assert_eq!(container["env"][0]["name"], "NODE_NAME");
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
    assert_eq!(container["ports"], json!([{"name": "metrics", "containerPort": 9879}]));
    // In the host network namespace, where this is the node's loopback address.
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"], json!({"path": path, "host": "127.0.0.1", "port": 9880}));
    }
    let help = String::from_utf8(daemon::run(&["--help"]).stdout).unwrap();
    assert!(help.contains("[default: 127.0.0.1:9880]"), "{help}");
    assert!(conf::text("silkraild/silkraild.service").contains("127.0.0.1:9880"));
}

/// One container has the token, not the one that installs the plugins, and each component sets one variable: their order does not
/// matter.
#[test]
fn the_token_of_a_node_cannot_read_pods_unless_owners_are_enabled() {
    let kinds: Vec<_> = conf::yaml(DAEMON_SET).iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["Namespace", "ServiceAccount", "DaemonSet"], "no role is bound");
    let off = json!({"name": "SILKRAILD_KUBERNETES", "value": "off"});
    assert!(container()["env"].as_array().unwrap().contains(&off));
    let component = |name: &str, variable: &str, value: &str| {
        let mut patch = conf::object(&format!("{name}/daemonset.yaml"), "DaemonSet");
        let env = patch["spec"]["template"]["spec"]["containers"][0]["env"].take();
        assert_eq!(env, json!([{"name": variable, "value": value}]));
        patch["spec"]["template"]["spec"].clone()
    };
    let owners = component("silkraild-owners", "SILKRAILD_KUBERNETES", "auto");
    assert_eq!(component("silkraild-token-review", "SILKRAILD_WEB_TOKEN_REVIEW", "true"), owners);
    assert_eq!(component("silkraild-node-condition", "SILKRAILD_NODE_CONDITION", "true"), owners);
    assert_eq!(
        (&owners["automountServiceAccountToken"], &owners["initContainers"]),
        (&Value::Null, &Value::Null)
    );
    let (mount, volume) = (&owners["containers"][0]["volumeMounts"][0], &owners["volumes"][0]);
    assert_eq!(mount["name"], volume["name"]);
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    let sources = volume["projected"]["sources"].as_array().unwrap();
    assert!(sources.iter().any(|source| source["serviceAccountToken"]["path"] == "token"));
}
