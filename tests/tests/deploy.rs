//! `conf/deploy`: its parts match each other, and the image's command works with their arguments.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use silkrail_tests::{cli, conf};

const DAEMON_SET: &str = "silkraild/daemonset.yaml";
const GC: &str = "silkrail-gc/daemonset.yaml";

fn kustomization() -> Value {
    conf::object("deploy/kustomization.yaml", "Kustomization")
}

/// The patch that adds the installation to the daemon set.
fn patch() -> Value {
    conf::object("deploy/install.yaml", "DaemonSet")
}

fn installer() -> Value {
    patch()["spec"]["template"]["spec"]["initContainers"][0].clone()
}

fn job() -> Value {
    conf::object("deploy/uninstall.yaml", "Job")["spec"]["template"]["spec"].clone()
}

fn gc() -> Value {
    conf::object(GC, "DaemonSet")["spec"]["template"]["spec"].clone()
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

/// The instructions of the Containerfile, without comments.
fn recipe() -> Vec<(String, String)> {
    let text = conf::text("deploy/Containerfile");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap()).collect()
}

fn instruction(name: &str) -> Value {
    let recipe = recipe();
    let mut found = recipe.iter().filter(|(is, _)| is == name);
    let text = &found.next().unwrap().1;
    assert!(found.next().is_none(), "{name} twice");
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

#[test]
fn the_files_that_a_kustomization_names_exist() {
    let kinds = [
        ("deploy", "Kustomization", "v1beta1"),
        ("silkraild", "Kustomization", "v1beta1"),
        ("silkraild-ipam", "Component", "v1alpha1"),
        ("silkraild-ipam-pods", "Component", "v1alpha1"),
        ("silkraild-networks", "Component", "v1alpha1"),
        ("silkraild-tls", "Component", "v1alpha1"),
        ("silkraild-owners", "Component", "v1alpha1"),
        ("silkraild-token-review", "Component", "v1alpha1"),
        ("silkraild-node-condition", "Component", "v1alpha1"),
        ("silkrail-doctor", "Component", "v1alpha1"),
        ("silkrail-gc", "Component", "v1alpha1"),
        ("silkrail-check", "Component", "v1alpha1"),
        ("silkraild-device-plugin", "Component", "v1alpha1"),
    ];
    for (name, kind, version) in kinds {
        let kustomization = conf::object(&format!("{name}/kustomization.yaml"), kind);
        assert_eq!(kustomization["apiVersion"], format!("kustomize.config.k8s.io/{version}"));
        let directory = conf::path(name);
        for resource in kustomization["resources"].as_array().into_iter().flatten() {
            let path = directory.join(resource.as_str().unwrap());
            assert!(path.is_file() || path.join("kustomization.yaml").is_file(), "{}", path.display());
        }
        for patch in kustomization["patches"].as_array().into_iter().flatten() {
            assert!(directory.join(patch["path"].as_str().unwrap()).is_file(), "{patch}");
        }
    }
}

#[test]
fn the_patch_is_for_the_daemon_set_and_every_image_can_be_set() {
    let (patch, base) = (patch(), conf::object(DAEMON_SET, "DaemonSet"));
    for key in ["apiVersion", "kind"] {
        assert_eq!(patch[key], base[key]);
    }
    for key in ["name", "namespace"] {
        assert_eq!(patch["metadata"][key], base["metadata"][key]);
    }
    let kustomization = kustomization();
    let image = format!("{}:latest", kustomization["images"][0]["name"].as_str().unwrap());
    let daemon = &base["spec"]["template"]["spec"]["containers"][0];
    for container in [daemon, &installer(), &job()["containers"][0], &gc()["containers"][0]] {
        assert_eq!(container["image"], image);
    }
}

/// The executables are in the root directory of the image, which is in no PATH.
#[test]
fn the_programs_of_cluster_pools_are_those_of_the_image() {
    let gc = gc();
    for (file, kind, command) in [
        ("silkraild-ipam/daemonset", "DaemonSet", &["/silkraild", "ipam"][..]),
        ("silkraild-ipam/controller", "Deployment", &["/silkraild", "ipam-controller"]),
        ("silkraild-networks/deployment", "Deployment", &["/silkraild", "networks", "--pools=cluster"]),
    ] {
        let object = conf::object(&format!("{file}.yaml"), kind);
        let pod = &object["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["command"], json!(command));
        assert_eq!(container["image"], gc["containers"][0]["image"]);
        assert_eq!(object["metadata"]["namespace"], "silkrail");
        let security = &container["securityContext"];
        assert_eq!(
            (&security["privileged"], &security["capabilities"]),
            (&json!(false), &json!({"drop": ["ALL"]}))
        );
        assert_eq!(pod["automountServiceAccountToken"], false);
        let run = silkrail_tests::daemon::run(&[&command[1..], &["--help"]].concat());
        assert!(run.status.success(), "{run:?}");
    }
    assert!(recipe().iter().any(|(name, value)| name == "COPY" && value == "bin/silkrail bin/silkraild /"));
}

/// kustomize merges lists by name: an equal name would merge two entries.
#[test]
fn names_of_the_patch_do_not_occur_in_the_daemon_set() {
    let base = conf::object(DAEMON_SET, "DaemonSet")["spec"]["template"]["spec"].clone();
    assert_eq!(base["initContainers"], Value::Null);
    for volume in array(&patch()["spec"]["template"]["spec"]["volumes"]) {
        assert!(array(&base["volumes"]).iter().all(|other| other["name"] != volume["name"]), "{volume}");
    }
    assert!(array(&base["tolerations"]).contains(&json!({"operator": "Exists"})));
    assert_eq!(patch()["spec"]["template"]["spec"]["priorityClassName"], "system-node-critical");
    assert!(conf::object(DAEMON_SET, "DaemonSet")["spec"]["updateStrategy"]["rollingUpdate"].is_object());
}

#[test]
fn containers_are_unprivileged_and_mount_host_paths_at_the_same_paths() {
    let install = patch()["spec"]["template"]["spec"].clone();
    for (pod, container, capabilities) in [
        (&install, installer(), json!({"drop": ["ALL"]})),
        (&job(), job()["containers"][0].clone(), json!({"drop": ["ALL"], "add": ["CHOWN"]})),
    ] {
        let security = &container["securityContext"];
        assert_eq!(security["privileged"], false);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["capabilities"], capabilities);
        assert_eq!(array(&container["volumeMounts"]).len(), array(&pod["volumes"]).len());
        for mount in array(&container["volumeMounts"]) {
            let volume =
                array(&pod["volumes"]).iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            assert_eq!(volume["hostPath"]["path"], mount["mountPath"], "records would have other paths");
        }
    }
}

/// The component of the device plugin adds a file and two directories of the host, and no privilege.
#[test]
fn the_device_plugin_reads_its_resources_and_gets_no_capability() {
    let patch = conf::object("silkraild-device-plugin/daemonset.yaml", "DaemonSet");
    let base = conf::object(DAEMON_SET, "DaemonSet");
    assert_eq!(patch["metadata"]["name"], base["metadata"]["name"]);
    assert_eq!(patch["metadata"]["namespace"], base["metadata"]["namespace"]);
    let (pod, container) =
        (&patch["spec"]["template"]["spec"], &patch["spec"]["template"]["spec"]["containers"][0]);
    let daemon = &base["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["name"], daemon["name"]);
    assert_eq!(
        (&container["securityContext"], &daemon["securityContext"]["runAsUser"]),
        (&Value::Null, &json!(0))
    );
    let mounts = array(&container["volumeMounts"]);
    let host = |path: &str| {
        let mount = mounts.iter().find(|mount| mount["mountPath"] == path).unwrap();
        let volume = array(&pod["volumes"]).iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        (volume["hostPath"]["path"].clone(), mount["readOnly"] == true)
    };
    let writable =
        ["/var/lib/kubelet/device-plugins", "/run/silkrail/pod-files", "/run/k8s.cni.cncf.io/devinfo/dp"];
    for path in writable {
        assert_eq!(host(path), (json!(path), false));
    }
    assert_eq!(mounts.iter().filter(|mount| mount["readOnly"] != true).count(), writable.len());
    let names = |object: &Value| array(object).iter().map(|it| it["name"].clone()).collect::<Vec<_>>();
    assert!(
        names(&daemon["volumeMounts"]).iter().all(|name| !names(&container["volumeMounts"]).contains(name))
    );
    let map = conf::object("silkraild-device-plugin/resources.yaml", "ConfigMap");
    let resources = array(&pod["volumes"]).iter().find(|volume| volume["name"] == "resources").unwrap();
    assert_eq!(resources["configMap"]["name"], map["metadata"]["name"]);
    let file = container["env"][0]["value"].as_str().unwrap();
    let (directory, key) = file.rsplit_once('/').unwrap();
    assert!(map["data"][key].is_string() && mounts[0]["mountPath"] == directory, "{file}");
    assert_eq!(container["env"][0]["name"], "SILKRAILD_DEVICE_PLUGIN");
    let drop_in = "silkraild-device-plugin/silkraild.conf";
    assert!(unit(drop_in, "Environment").starts_with("SILKRAILD_DEVICE_PLUGIN=/"));
    assert_eq!(unit(drop_in, "ReadWritePaths"), writable.join(" "));
}

/// The value of a key of a unit.
fn unit(file: &str, key: &str) -> String {
    let text = conf::text(file);
    let mut values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.next().unwrap_or_else(|| panic!("{file}: no {key}")).to_owned()
}

#[test]
fn the_doctor_has_the_capabilities_of_its_unit_and_changes_nothing_but_the_state() {
    let pod = conf::object("silkrail-doctor/daemonset.yaml", "DaemonSet")["spec"]["template"]["spec"].clone();
    let container = pod["containers"][0].clone();
    let of_unit = unit("node/silkrail-doctor.service", "CapabilityBoundingSet");
    let mut expected: Vec<&str> = of_unit.split(' ').map(|name| name.strip_prefix("CAP_").unwrap()).collect();
    expected.insert(1, "SYS_CHROOT");
    // A container may not open /dev/kmsg, whatever its capabilities are.
    expected.retain(|name| *name != "SYSLOG");
    assert_eq!(container["securityContext"]["capabilities"], json!({"drop": ["ALL"], "add": expected}));
    assert_eq!((&pod["hostPID"], &pod["hostNetwork"]), (&json!(true), &json!(true)));
    let writable = array(&container["volumeMounts"]).iter().filter(|mount| mount["readOnly"] != true);
    let writable: Vec<_> = writable.map(|mount| mount["mountPath"].as_str().unwrap()).collect();
    assert_eq!(writable, ["/host/run/silkrail"]);
}

#[test]
fn gc_has_the_capabilities_and_the_interval_of_its_unit() {
    let container = gc()["containers"][0].clone();
    let capabilities = &container["securityContext"]["capabilities"];
    let of_unit: Vec<Value> = unit("node/silkrail-gc.service", "CapabilityBoundingSet")
        .split(' ')
        .map(|name| json!(name.strip_prefix("CAP_").unwrap()))
        .collect();
    assert_eq!(*capabilities, json!({"drop": ["ALL"], "add": of_unit}));
    assert_eq!(container["args"], json!(["gc", "--yes", "--every=600"]));
    let timer = |key| unit("node/silkrail-gc.timer", key);
    assert_eq!((timer("OnUnitInactiveSec"), timer("RandomizedDelaySec")), ("10min".into(), "2min".into()));
}

/// Without the node's PID and network namespaces, `silkrail gc` refuses to run.
#[test]
fn gc_sees_the_processes_and_the_links_of_the_node_and_is_not_privileged() {
    let (pod, container) = (gc(), gc()["containers"][0].clone());
    assert_eq!((&pod["hostPID"], &pod["hostNetwork"]), (&json!(true), &json!(true)));
    let security = &container["securityContext"];
    assert_eq!(security["privileged"], false);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    let writable: Vec<_> = array(&container["volumeMounts"])
        .iter()
        .filter(|mount| mount["readOnly"] != true)
        .map(|mount| mount["mountPath"].as_str().unwrap())
        .collect();
    assert_eq!(writable, ["/run/silkrail", "/sys", "/var/lib/cni"]);
    for mount in array(&container["volumeMounts"]) {
        let volume = array(&pod["volumes"]).iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let (host, path) =
            (volume["hostPath"]["path"].as_str().unwrap(), mount["mountPath"].as_str().unwrap());
        // Journals contain the paths of the node.
        assert!(path == host || path == format!("/var{host}"), "{mount}");
        assert_eq!(mount["mountPropagation"] == "HostToContainer", mount["name"] == "netns", "{mount}");
    }
}

#[test]
fn gc_cannot_use_the_api_and_belongs_to_the_namespace_of_the_daemon() {
    let kinds: Vec<_> = conf::yaml(GC).iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["ServiceAccount", "DaemonSet"], "no role is bound");
    let account = conf::object(GC, "ServiceAccount");
    assert_eq!(account["automountServiceAccountToken"], false);
    assert_eq!(
        (&gc()["automountServiceAccountToken"], &gc()["serviceAccountName"]),
        (&json!(false), &account["metadata"]["name"])
    );
    let (daemon_set, daemon) = (conf::object(GC, "DaemonSet"), conf::object(DAEMON_SET, "DaemonSet"));
    for object in [&account, &daemon_set] {
        assert_eq!(object["metadata"]["namespace"], daemon["metadata"]["namespace"]);
    }
    assert_ne!(daemon_set["metadata"]["name"], daemon["metadata"]["name"]);
    assert_eq!(
        daemon_set["spec"]["selector"]["matchLabels"],
        daemon_set["spec"]["template"]["metadata"]["labels"]
    );
    assert_ne!(daemon_set["spec"]["selector"], daemon["spec"]["selector"]);
}

/// The pod of the agents, and that of the test pods with an agent.
fn check_pods() -> [Value; 2] {
    let pod = |file| conf::object(file, "DaemonSet")["spec"]["template"]["spec"].clone();
    [pod("silkrail-check/daemonset.yaml"), pod("pods/rdma-check.yaml")]
}

#[test]
fn the_agents_of_check_have_one_capability_and_cannot_use_the_api() {
    let kinds: Vec<_> =
        conf::yaml("silkrail-check/daemonset.yaml").iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["ServiceAccount", "DaemonSet"], "no role is bound");
    let [agents, _] = check_pods();
    assert_eq!((&agents["hostNetwork"], &agents["hostPID"]), (&json!(true), &Value::Null));
    assert!(array(&agents["tolerations"]).contains(&json!({"operator": "Exists"})));
    let security = &agents["containers"][0]["securityContext"];
    assert_eq!((&security["privileged"], &security["readOnlyRootFilesystem"]), (&json!(false), &json!(true)));
    for pod in check_pods() {
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"], "add": ["IPC_LOCK"]}));
        assert_eq!(security["allowPrivilegeEscalation"], false);
        let devices = container["resources"]["limits"].as_object().unwrap().keys();
        assert_eq!(
            devices.filter(|name| name.contains('/')).count(),
            1,
            "uverbs devices come from a device plugin"
        );
        let writable = array(&container["volumeMounts"]).iter().filter(|mount| mount["readOnly"] != true);
        assert!(writable.clone().all(|mount| mount["mountPath"] == "/var/lib/silkrail/check"), "{container}");
    }
}

/// Runs the agent of a pod with its arguments, an address of the loopback interface and this token file. Returns its first line.
fn first_line_of_agent(pod: &Value, token: &Path) -> String {
    let arguments = array(&pod["containers"][0]["args"]).iter().map(|arg| {
        let arg = arg.as_str().unwrap();
        match arg.split_once('=') {
            Some(("--token-file", _)) => format!("--token-file={}", token.display()),
            Some(("--listen", address)) => {
                assert!(address == "$(HOST_IP):18514" || address == "$(POD_IP):18514", "{address}");
                "--listen=127.0.0.1:0".to_owned()
            }
            _ => arg.to_owned(),
        }
    });
    let mut command = Command::new(cli::executable());
    let mut agent = command.args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(agent.stderr.take().unwrap()).read_line(&mut line).unwrap();
    agent.kill().unwrap();
    agent.wait().unwrap();
    line
}

#[test]
fn the_agents_of_check_read_the_token_as_the_kubelet_mounts_it() {
    let dir = tempfile::tempdir().unwrap();
    // The kubelet's directory of a Secret: the key is a link to a directory that is replaced with the Secret.
    let data = dir.path().join("..2026");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("token"), "0123456789abcdef0123456789abcdef").unwrap();
    symlink("..2026", dir.path().join("..data")).unwrap();
    symlink("..data/token", dir.path().join("token")).unwrap();
    for pod in check_pods() {
        let volume = array(&pod["volumes"]).iter().find(|volume| volume["name"] == "token").unwrap();
        let mode = u32::try_from(volume["secret"]["defaultMode"].as_u64().unwrap()).unwrap();
        assert_eq!(mode, 0o400);
        fs::set_permissions(data.join("token"), fs::Permissions::from_mode(mode)).unwrap();
        let mounts = array(&pod["containers"][0]["volumeMounts"]);
        let mount = mounts.iter().find(|mount| mount["name"] == "token").unwrap();
        let key = mount["subPath"].as_str().expect("without subPath the agent would refuse a link");
        let arguments = array(&pod["containers"][0]["args"]);
        assert!(arguments.contains(&json!(format!("--token-file={}", mount["mountPath"].as_str().unwrap()))));
        // A subPath is a bind mount of the target of the link.
        let line = first_line_of_agent(&pod, &data.join(key));
        assert!(line.contains("listening on 127.0.0.1"), "{line}");
        let link = first_line_of_agent(&pod, &dir.path().join(key));
        assert!(link.contains("token file"), "{link}");
    }
}

#[test]
fn the_image_of_check_has_the_command_line_and_perftest_and_is_the_one_of_the_manifests() {
    let text = conf::text("deploy/Containerfile.check");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines[..4], ["FROM scratch", "COPY bin/silkrail /", "COPY perftest/ /", "ENV PATH=/usr/bin"]);
    assert_eq!(lines[4], r#"ENTRYPOINT ["/silkrail"]"#);
    for pod in check_pods() {
        assert_eq!(pod["containers"][0]["image"], "registry.example.com/silkrail-check:latest");
        assert_eq!(pod["containers"][0]["command"], Value::Null, "the entry point is the command line");
    }
}

/// Builds the file tree of the Containerfile, and runs its entry point with the arguments of the manifests.
#[test]
fn the_image_installs_and_removes_with_the_arguments_of_the_manifests() {
    let dir = tempfile::tempdir().unwrap();
    let (image, node) = (dir.path().join("image"), dir.path().join("node"));
    fs::create_dir(&image).unwrap();
    fs::create_dir_all(node.join("opt/cni/bin")).unwrap();
    assert_eq!(instruction("FROM"), "scratch");
    let mut copied = 0;
    for (_, files) in recipe().into_iter().filter(|(name, _)| name == "COPY") {
        let (sources, to) = files.rsplit_once(' ').unwrap();
        for source in sources.split(' ') {
            // The layout of hack/build.
            let built = match source.split_once('/').unwrap() {
                ("cni", "macvlan") => "silkrail-cni",
                ("bin", name) => name,
                other => panic!("hack/build does not build {other:?}"),
            };
            let name = if to.ends_with('/') { source.rsplit('/').next().unwrap() } else { &to[1..] };
            fs::copy(cli::executable().with_file_name(built), image.join(name)).unwrap();
            copied += 1;
        }
    }
    assert_eq!(copied, 3);
    let entry = instruction("ENTRYPOINT")[0].as_str().unwrap()[1..].to_owned();
    assert_eq!(instruction("CMD"), installer()["args"]);
    let daemon = conf::object(DAEMON_SET, "DaemonSet")["spec"]["template"]["spec"]["containers"][0].clone();
    assert!(image.join(&daemon["command"][0].as_str().unwrap()[1..]).is_file());
    let run = |args: &Value| {
        let args = array(args).iter().map(|arg| arg.as_str().unwrap());
        let output = Command::new(image.join(&entry)).arg("--root").arg(&node).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&installer()["args"]);
    assert!(node.join("opt/cni/bin/sriov").is_file());
    run(&job()["containers"][0]["args"]);
    assert_eq!(fs::read_dir(node.join("opt/cni/bin")).unwrap().count(), 0);
}
