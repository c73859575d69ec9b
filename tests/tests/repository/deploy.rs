//! `conf`: what the manifests of Kubernetes may do, whether their parts match each other, and whether the programs of the images
//! accept their arguments.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use silkrail_tests::{cli, conf, daemon};

const DAEMON_SET: &str = "silkraild/daemonset.yaml";

/// An object of a manifest.
struct Manifest {
    /// The file below `conf/`.
    file: String,
    object: Value,
}

impl Manifest {
    fn all() -> Vec<Self> {
        let files = conf::files(&[".yaml"])
            .into_iter()
            .map(|path| path.strip_prefix(conf::path("")).unwrap().to_str().unwrap().to_owned());
        let objects = files.flat_map(|file| {
            let objects = conf::yaml(&file);
            objects.into_iter().map(move |object| Self { file: file.clone(), object })
        });
        objects.filter(|manifest| manifest.object["kind"].is_string()).collect()
    }

    fn is(&self, kind: &str) -> bool {
        self.object["kind"] == kind
    }

    fn pod(&self) -> &Value {
        &self.object["spec"]["template"]["spec"]
    }

    fn containers(&self) -> impl Iterator<Item = &Value> {
        let lists = ["initContainers", "containers"].map(|key| &self.pod()[key]);
        lists.into_iter().flat_map(|list| list.as_array().into_iter().flatten())
    }

    /// Whether a component changes an object of another directory.
    fn is_patch(&self) -> bool {
        !self.object["spec"]["selector"].is_object() && !self.is("Job")
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn words(value: &Value) -> String {
    array(value).iter().map(text).collect::<Vec<_>>().join(",")
}

fn container(file: &str) -> Value {
    conf::object(file, "DaemonSet")["spec"]["template"]["spec"]["containers"][0].clone()
}

/// What each container of Silkrail may do. A right that is added has to be added here, and to docs/threat-model.md.
#[test]
fn containers_have_no_other_rights() {
    let mut expected = [
        "deploy/install.yaml install: writes /opt/cni/bin /var/lib/silkrail",
        "deploy/uninstall.yaml uninstall: CHOWN writes /opt/cni/bin /var/lib/silkrail",
        "pods/rdma-check.yaml check: IPC_LOCK",
        "silkrail-check/daemonset.yaml check: hostNetwork IPC_LOCK writes /var/lib/silkrail/check",
        "silkrail-doctor/daemonset.yaml doctor: hostNetwork hostPID SYS_ADMIN SYS_CHROOT SYS_PTRACE DAC_READ_SEARCH writes /host/run/silkrail",
        "silkrail-gc/daemonset.yaml gc: hostNetwork hostPID NET_ADMIN SYS_ADMIN SYS_PTRACE DAC_READ_SEARCH writes /run/silkrail /sys /var/lib/cni",
        "silkraild-device-plugin/daemonset.yaml silkraild: writes /var/lib/kubelet/device-plugins /run/silkrail/pod-files /run/k8s.cni.cncf.io/devinfo/dp",
        "silkraild-ipam-pods/daemonset.yaml silkraild-ipam:",
        "silkraild-ipam/controller.yaml controller:",
        "silkraild-ipam/daemonset.yaml silkraild-ipam: hostNetwork writes /run/silkrail/cluster /run/silkrail/ipam",
        "silkraild-networks/deployment.yaml controller:",
        "silkraild-node-condition/daemonset.yaml silkraild:",
        "silkraild-owners/daemonset.yaml silkraild:",
        "silkraild-tls/daemonset.yaml silkraild:",
        "silkraild-token-review/daemonset.yaml silkraild:",
        "silkraild/daemonset.yaml silkraild: hostNetwork hostPID SYS_ADMIN DAC_READ_SEARCH SYS_PTRACE writes /run/silkraild",
    ];
    let mut found = Vec::new();
    for manifest in Manifest::all() {
        let pod = manifest.pod();
        for container in manifest.containers().filter(|container| container["image"] != "mellanox/rping-test")
        {
            let mut line = format!("{} {}:", manifest.file, text(&container["name"]));
            let is_set = |key: &&str| pod[*key] == true;
            line.extend(["hostNetwork", "hostPID"].into_iter().filter(is_set).map(|key| format!(" {key}")));
            let security = &container["securityContext"];
            let added = array(&security["capabilities"]["add"]).iter().map(|name| format!(" {}", text(name)));
            line.extend(added);
            let mounts = array(&container["volumeMounts"]).iter().filter(|mount| mount["readOnly"] != true);
            let written: Vec<_> = mounts.map(|mount| text(&mount["mountPath"])).collect();
            line.extend((!written.is_empty()).then(|| format!(" writes {}", written.join(" "))));
            if manifest.is_patch() && manifest.file != "deploy/install.yaml" {
                assert_eq!(*security, Value::Null, "{line}");
            } else {
                assert_eq!(security["capabilities"]["drop"], json!(["ALL"]), "{line}");
                assert_eq!(security["allowPrivilegeEscalation"], false, "{line}");
                assert_ne!(security["privileged"], true, "{line}");
                let is_test_pod = manifest.file.starts_with("pods/");
                assert!(is_test_pod || security["readOnlyRootFilesystem"] == true, "{line}");
                assert!(manifest.is_patch() || pod["automountServiceAccountToken"] == false, "{line}");
            }
            found.push(line);
        }
    }
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// What the accounts may do in the cluster, by the objects that bind them.
#[test]
fn accounts_have_no_other_permissions() {
    let mut expected = [
        "silkraild-ipam: namespaces: list,watch; ipreservations: get,list,watch,create,update,delete",
        "silkraild-ipam: spiderippools,spiderreservedips: list,watch; nodes: list,watch; ipblocks: get,list,watch,create,patch,delete; ipblocks/status: patch",
        "silkraild-ipam-controller: spiderippools,spiderreservedips: list,watch; spiderippools/status: patch; nodes: get,list,watch; ipblocks: get,list,watch,patch,delete",
        "silkraild-networks: spidermultusconfigs: list,watch; spidermultusconfigs/finalizers: update; network-attachment-definitions: list,watch,create,update,delete; events: create,patch",
        "silkraild: nodes/status: patch",
        "silkraild: pods: list,watch; replicationcontrollers: get; replicasets,deployments,statefulsets,daemonsets: get; jobs,cronjobs: get; jobsets: get; leaderworkersets: get; mpijobs,pytorchjobs,tfjobs,xgboostjobs,paddlejobs,jaxjobs: get; trainjobs: get; rayjobs,rayclusters,rayservices: get; jobs: get; inferenceservices: get; workflows,rollouts: get",
        // The role of Kubernetes for delegated authentication.
        "silkraild: system:auth-delegator",
    ];
    let all = Manifest::all();
    let mut found = Vec::new();
    for binding in all.iter().filter(|manifest| text(&manifest.object["kind"]).ends_with("RoleBinding")) {
        let (role, account) = (&binding.object["roleRef"]["name"], &binding.object["subjects"][0]);
        let named = |manifest: &&Manifest, kind, name: &Value| {
            manifest.is(kind) && manifest.object["metadata"]["name"] == *name
        };
        let is_account = all.iter().any(|manifest| {
            named(&manifest, "ServiceAccount", &account["name"])
                && manifest.object["metadata"]["namespace"] == account["namespace"]
        });
        assert!(is_account, "{}: there is no account {account}", binding.file);
        let rule = |rule: &Value| format!("{}: {}", words(&rule["resources"]), words(&rule["verbs"]));
        let of_role = all.iter().find(|manifest| named(manifest, "ClusterRole", role));
        let rules =
            of_role.map(|role| array(&role.object["rules"]).iter().map(rule).collect::<Vec<_>>().join("; "));
        found.push(format!("{}: {}", text(&account["name"]), rules.unwrap_or_else(|| text(role).to_owned())));
    }
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected);
    // For the scraper: the permission that silkraild checks with the API.
    let scraper = conf::object("silkraild-token-review/rbac.yaml", "ClusterRole");
    assert_eq!(scraper["rules"], json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));
}

#[test]
fn the_files_that_a_kustomization_names_exist() {
    let mut named = 0;
    for Manifest { file, object } in Manifest::all() {
        let directory = conf::path(&file).parent().unwrap().to_owned();
        for resource in array(&object["resources"]).iter().filter(|_| file.ends_with("kustomization.yaml")) {
            let path = directory.join(text(resource));
            assert!(path.is_file() || path.join("kustomization.yaml").is_file(), "{file}: {resource}");
            named += 1;
        }
        for patch in array(&object["patches"]) {
            assert!(directory.join(text(&patch["path"])).is_file(), "{file}: {patch}");
        }
    }
    assert!(named > 10, "{named}");
}

/// conf/deploy can have every component; conf/silkraild those that say so.
#[test]
fn the_components_of_a_kustomization_can_be_uncommented() {
    let components: Vec<_> =
        Manifest::all().into_iter().filter(|manifest| manifest.is("Component")).collect();
    assert!(components.len() > 8, "{}", components.len());
    for (file, has) in
        [("deploy/kustomization.yaml", ""), ("silkraild/kustomization.yaml", "conf/silkraild or")]
    {
        let text = conf::text(file);
        let list = text.lines().skip_while(|line| *line != "# components:");
        let list: String =
            list.map_while(|line| line.strip_prefix("# ")).flat_map(|line| [line, "\n"]).collect();
        let document = yaml::documents(&list).unwrap().pop().unwrap_or_default();
        let listed: Vec<_> = array(&document["components"]).iter().map(self::text).collect();
        let exists = |name: &&str| conf::path(&format!("deploy/{name}/kustomization.yaml")).is_file();
        assert!(listed.iter().all(exists), "{file}: {listed:?}");
        for Manifest { file: component, .. } in &components {
            let name = format!("../{}", component.split('/').next().unwrap());
            let is_optional = !conf::text(component).contains(has);
            assert!(is_optional || listed.contains(&name.as_str()), "{file}: {name}: {listed:?}");
        }
    }
}

/// kustomize finds the object and the container by their names, and merges volumes and mounts of equal names.
#[test]
fn patches_change_an_object_that_exists_and_replace_none_of_its_parts() {
    let all = Manifest::all();
    let workloads = || all.iter().filter(|manifest| manifest.containers().next().is_some());
    let names = |list: &Value| array(list).iter().map(|it| text(&it["name"]).to_owned()).collect::<Vec<_>>();
    for patch in workloads().filter(|manifest| manifest.is_patch()) {
        let identity = |it: &Manifest| {
            (
                it.object["kind"].clone(),
                it.object["metadata"]["name"].clone(),
                it.object["metadata"]["namespace"].clone(),
            )
        };
        let base = workloads().find(|base| !base.is_patch() && identity(base) == identity(patch));
        let base = base.unwrap_or_else(|| panic!("{}: what does it patch?", patch.file));
        for volume in names(&patch.pod()["volumes"]) {
            assert!(!names(&base.pod()["volumes"]).contains(&volume), "{}: {volume}", patch.file);
        }
        for container in array(&patch.pod()["containers"]) {
            let known =
                array(&base.pod()["containers"]).iter().find(|known| known["name"] == container["name"]);
            let known = known.unwrap_or_else(|| panic!("{}: {}", patch.file, container["name"]));
            assert!(known["args"].is_null() || container["args"].is_null(), "{}: args", patch.file);
            for mount in names(&container["volumeMounts"]) {
                assert!(!names(&known["volumeMounts"]).contains(&mount), "{}: {mount}", patch.file);
            }
        }
    }
}

#[test]
fn images_are_those_that_the_kustomizations_set_and_their_programs_accept_the_commands() {
    let image = |directory: &str| {
        let kustomization = conf::object(&format!("{directory}/kustomization.yaml"), "Kustomization");
        format!("{}:latest", text(&kustomization["images"][0]["name"]))
    };
    let (silkrail, component) =
        (image("deploy"), conf::object("silkrail-check/kustomization.yaml", "Component"));
    let check = format!("{}:latest", text(&component["images"][0]["name"]));
    for manifest in Manifest::all() {
        for container in manifest.containers().filter(|container| container["image"].is_string()) {
            let image = text(&container["image"]);
            assert!(
                [&*silkrail, &check, "mellanox/rping-test"].contains(&image),
                "{}: {image}",
                manifest.file
            );
            let command = words(&container["command"]);
            if let Some(command) = command.strip_prefix("/silkraild,") {
                let run = daemon::run(&command.split(',').chain(["--help"]).collect::<Vec<_>>());
                assert!(run.status.success(), "{}: {run:?}", manifest.file);
            }
        }
    }
}

/// Records and journals contain the paths of the node.
#[test]
fn directories_of_the_node_have_their_paths_in_the_container() {
    for file in ["deploy/install.yaml", "deploy/uninstall.yaml", "silkrail-gc/daemonset.yaml", DAEMON_SET] {
        let manifests = Manifest::all();
        let manifest =
            manifests.iter().find(|it| it.file == file && it.containers().next().is_some()).unwrap();
        let container = manifest.containers().next().unwrap();
        for mount in array(&container["volumeMounts"]) {
            let volume =
                array(&manifest.pod()["volumes"]).iter().find(|volume| volume["name"] == mount["name"]);
            let (host, path) = (text(&volume.unwrap()["hostPath"]["path"]), text(&mount["mountPath"]));
            assert!(path == host || path == format!("/var{host}"), "{file}: {mount}");
            // Namespaces that are mounted later.
            assert_eq!(
                mount["mountPropagation"] == "HostToContainer",
                mount["name"] == "netns",
                "{file}: {mount}"
            );
        }
    }
}

/// The value of a key of a unit.
fn unit(file: &str, key: &str) -> String {
    let text = conf::text(file);
    let mut values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.next().unwrap_or_else(|| panic!("{file}: no {key}")).to_owned()
}

#[test]
fn containers_have_the_capabilities_and_intervals_of_the_units() {
    for (service, file) in [
        ("node/silkrail-doctor.service", "silkrail-doctor/daemonset.yaml"),
        ("node/silkrail-gc.service", "silkrail-gc/daemonset.yaml"),
        ("silkraild/silkraild.service", DAEMON_SET),
    ] {
        let mut of_unit: Vec<_> = unit(service, "CapabilityBoundingSet")
            .replace("CAP_", "")
            .split(' ')
            .map(str::to_owned)
            .collect();
        let mut added: Vec<_> = words(&container(file)["securityContext"]["capabilities"]["add"])
            .split(',')
            .map(str::to_owned)
            .collect();
        // The doctor enters the node's root directory; a container may not open /dev/kmsg, whatever its capabilities are.
        added.retain(|name| name != "SYS_CHROOT");
        of_unit.retain(|name| name != "SYSLOG");
        of_unit.sort();
        added.sort();
        assert_eq!(of_unit, added, "{service}");
    }
    assert_eq!(container("silkrail-gc/daemonset.yaml")["args"], json!(["gc", "--yes", "--every=600"]));
    assert_eq!(unit("node/silkrail-gc.timer", "OnUnitInactiveSec"), "10min");
    let (file, drop_in) =
        ("silkraild-device-plugin/daemonset.yaml", "silkraild-device-plugin/silkraild.conf");
    let plugin = container(file);
    let written = array(&plugin["volumeMounts"]).iter().filter(|mount| mount["readOnly"] != true);
    let written: Vec<_> = written.map(|mount| text(&mount["mountPath"])).collect();
    assert_eq!(unit(drop_in, "ReadWritePaths"), written.join(" "));
    // The file with resources is the one of the ConfigMap.
    let (directory, key) = text(&plugin["env"][0]["value"]).rsplit_once('/').unwrap();
    let map = conf::object("silkraild-device-plugin/resources.yaml", "ConfigMap");
    assert!(map["data"][key].is_string() && plugin["volumeMounts"][0]["mountPath"] == directory, "{plugin}");
}

/// The pod of the agents, and that of the test pods with an agent.
fn check_pods() -> [Value; 2] {
    let pod = |file| conf::object(file, "DaemonSet")["spec"]["template"]["spec"].clone();
    [pod("silkrail-check/daemonset.yaml"), pod("pods/rdma-check.yaml")]
}

/// The instructions of the Containerfile, without comments.
fn recipe() -> Vec<(String, String)> {
    let text = conf::text("deploy/Containerfile");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap()).collect()
}

fn instruction(name: &str) -> Value {
    let recipe = recipe();
    let (_, text) = recipe.iter().find(|(is, _)| is == name).unwrap();
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
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
    let install = conf::object("deploy/install.yaml", "DaemonSet")["spec"]["template"]["spec"].clone();
    let uninstall = conf::object("deploy/uninstall.yaml", "Job")["spec"]["template"]["spec"].clone();
    let (install, uninstall) = (&install["initContainers"][0]["args"], &uninstall["containers"][0]["args"]);
    assert_eq!(instruction("CMD"), *install);
    assert!(image.join(&container(DAEMON_SET)["command"][0].as_str().unwrap()[1..]).is_file());
    let run = |args: &Value| {
        let args = array(args).iter().map(|arg| arg.as_str().unwrap());
        let output = Command::new(image.join(&entry)).arg("--root").arg(&node).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(install);
    assert!(node.join("opt/cni/bin/sriov").is_file());
    run(uninstall);
    assert_eq!(fs::read_dir(node.join("opt/cni/bin")).unwrap().count(), 0);
}
