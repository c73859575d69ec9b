//! The manifests: they contain the plain files, select the right objects, and have no more permissions than needed.

use std::{collections::BTreeSet, fs};

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

fn names(list: &Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
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
fn grafana_without_kubernetes_reads_the_dashboards_from_a_directory() {
    let provider = conf::yaml("grafana/provisioning.yaml").remove(0);
    assert_eq!(provider["apiVersion"], 1);
    assert_eq!(provider["providers"][0]["type"], "file");
    assert!(provider["providers"][0]["options"]["path"].is_string());
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
    assert_eq!(patch["metadata"]["name"], daemon_set()["metadata"]["name"]);
    let (added, volume) = (
        &patch["spec"]["template"]["spec"]["containers"][0],
        &patch["spec"]["template"]["spec"]["volumes"][0],
    );
    assert_eq!(added["name"], container()["name"]);
    assert_eq!(container()["args"], Value::Null, "the patch would replace them");
    let mount = &added["volumeMounts"][0];
    let file = format!("--web.config.file={}/web.yaml", mount["mountPath"].as_str().unwrap());
    assert_eq!(added["args"], json!([file]));
    assert_eq!((&mount["name"], &volume["secret"]["defaultMode"]), (&volume["name"], &json!("0400")));
    assert!(!names(&container()["volumeMounts"]).contains(mount["name"].as_str().unwrap()));
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
fn the_daemon_set_has_what_attribution_needs_and_is_not_privileged() {
    let spec = &pod()["spec"];
    assert_eq!(spec["hostNetwork"], true);
    assert_eq!(spec["hostPID"], true);
    let security = &container()["securityContext"];
    assert_eq!(security["privileged"], false);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(
        security["capabilities"],
        json!({"drop": ["ALL"], "add": ["SYS_ADMIN", "DAC_READ_SEARCH", "SYS_PTRACE"]})
    );
}

#[test]
fn the_unit_has_the_capabilities_of_the_daemon_set() {
    let unit = conf::text("silkraild/silkraild.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let of_unit: BTreeSet<&str> = line.split(' ').map(|name| name.strip_prefix("CAP_").unwrap()).collect();
    let container = container();
    let added = container["securityContext"]["capabilities"]["add"].as_array().unwrap();
    assert_eq!(of_unit, added.iter().map(|name| name.as_str().unwrap()).collect());
}

#[test]
fn the_daemon_set_mounts_every_volume_read_only_except_that_of_its_counters() {
    let (pod, container) = (pod(), container());
    assert_eq!(names(&container["volumeMounts"]), names(&pod["spec"]["volumes"]));
    for path in ["/run/netns", "/var/run/netns"] {
        // Runtimes use either path for a namespace.
        assert!(container["volumeMounts"].as_array().unwrap().iter().any(|mount| mount["mountPath"] == path));
    }
    for mount in container["volumeMounts"].as_array().unwrap() {
        let is_written = mount["name"] == "counters";
        assert_eq!(mount["readOnly"] == true, !is_written, "{mount}");
        if mount["name"] == "netns" {
            assert_eq!(mount["mountPropagation"], "HostToContainer");
        }
    }
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

#[test]
fn the_token_of_a_node_cannot_read_pods_unless_owners_are_enabled() {
    assert_eq!(pod()["spec"]["automountServiceAccountToken"], false);
    let account = conf::object(DAEMON_SET, "ServiceAccount");
    assert_eq!(account["automountServiceAccountToken"], false);
    assert_eq!(pod()["spec"]["serviceAccountName"], account["metadata"]["name"]);
    let kinds: Vec<_> = conf::yaml(DAEMON_SET).iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["Namespace", "ServiceAccount", "DaemonSet"], "no role is bound");
    // With owners enabled, only one container has the token, not the one that installs the plugins.
    let patch = conf::object("silkraild-owners/daemonset.yaml", "DaemonSet");
    // Each component sets one variable, so their order does not matter.
    let mut review = conf::object("silkraild-token-review/daemonset.yaml", "DaemonSet");
    let env = |patch: &Value| patch["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    assert_eq!(env(&patch), json!([{"name": "SILKRAILD_KUBERNETES", "value": "auto"}]));
    assert_eq!(env(&review), json!([{"name": "SILKRAILD_WEB_TOKEN_REVIEW", "value": "true"}]));
    assert!(
        container()["env"]
            .as_array()
            .unwrap()
            .contains(&json!({"name": "SILKRAILD_KUBERNETES", "value": "off"}))
    );
    review["spec"]["template"]["spec"]["containers"][0]["env"] = env(&patch);
    assert_eq!(review, patch, "they are equal otherwise");
    let mut condition = conf::object("silkraild-node-condition/daemonset.yaml", "DaemonSet");
    assert_eq!(env(&condition), json!([{"name": "SILKRAILD_NODE_CONDITION", "value": "true"}]));
    condition["spec"]["template"]["spec"]["containers"][0]["env"] = env(&patch);
    assert_eq!(condition, patch, "they are equal otherwise");
    assert_eq!(patch["metadata"]["name"], daemon_set()["metadata"]["name"]);
    assert_eq!(patch["metadata"]["namespace"], daemon_set()["metadata"]["namespace"]);
    let patch = patch["spec"]["template"]["spec"].clone();
    assert_eq!(patch["automountServiceAccountToken"], Value::Null, "it stays off");
    assert_eq!(patch["initContainers"], Value::Null);
    assert_eq!(patch["containers"][0]["name"], container()["name"]);
    let (mount, volume) = (&patch["containers"][0]["volumeMounts"][0], &patch["volumes"][0]);
    assert_eq!(mount["name"], volume["name"]);
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    let sources = volume["projected"]["sources"].as_array().unwrap();
    assert!(sources.iter().any(|source| source["serviceAccountToken"]["path"] == "token"));
    assert!(!names(&pod()["spec"]["volumes"]).contains(volume["name"].as_str().unwrap()));
}

#[test]
fn the_account_can_read_pods_and_owners_only() {
    const OWNERS: &str = "silkraild-owners/rbac.yaml";
    let role = conf::object(OWNERS, "ClusterRole");
    for rule in role["rules"].as_array().unwrap() {
        let pods = rule["resources"] == json!(["pods"]);
        let verbs = if pods { json!(["list", "watch"]) } else { json!(["get"]) };
        assert_eq!(rule["verbs"], verbs, "{rule}");
        assert!(!rule.to_string().contains('*') && !rule.to_string().contains("secrets"), "{rule}");
    }
    let binding = conf::object(OWNERS, "ClusterRoleBinding");
    let account = conf::object(DAEMON_SET, "ServiceAccount");
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["name"], account["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["namespace"], account["metadata"]["namespace"]);
}

#[test]
fn the_account_for_node_conditions_can_patch_the_status_of_nodes_only() {
    const CONDITION: &str = "silkraild-node-condition/rbac.yaml";
    let role = conf::object(CONDITION, "ClusterRole");
    assert_eq!(
        role["rules"],
        json!([{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}])
    );
    let binding = conf::object(CONDITION, "ClusterRoleBinding");
    let account = conf::object(DAEMON_SET, "ServiceAccount");
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["name"], account["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["namespace"], account["metadata"]["namespace"]);
}

#[test]
fn the_account_for_token_review_has_no_other_permission() {
    const REVIEW: &str = "silkraild-token-review/rbac.yaml";
    let (binding, account) =
        (conf::object(REVIEW, "ClusterRoleBinding"), conf::object(DAEMON_SET, "ServiceAccount"));
    assert_eq!(binding["roleRef"]["name"], "system:auth-delegator");
    assert_eq!(binding["subjects"][0]["name"], account["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["namespace"], account["metadata"]["namespace"]);
    // For the scraper: the permission that silkraild checks with the API.
    let role = conf::object(REVIEW, "ClusterRole");
    assert_eq!(role["rules"], json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));
    let help = String::from_utf8(daemon::run(&["--help"]).stdout).unwrap();
    for variable in ["SILKRAILD_WEB_TOKEN_REVIEW", "SILKRAILD_KUBERNETES", "SILKRAILD_NODE_CONDITION"] {
        assert!(help.contains(variable), "{help}");
    }
}
