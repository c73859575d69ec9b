//! The control plane of a real Kubernetes, without nodes: etcd and the API server that `hack/kube prepare` builds.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::{SocketAddr, TcpListener},
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{api_client::ApiClient, conf, daemon, partition::InterruptibleLink, tools};

/// The time within which a program of the control plane starts.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The time within which a change of the cluster has its effect.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The nodes whose kubelets have credentials.
const KUBELETS: [&str; 2] = ["node-a", "node-b"];

/// etcd and an API server, for as long as this value lives.
#[derive(Debug)]
pub struct ControlPlane {
    directory: TempDir,
    etcd_port: u16,
    api_port: u16,
    etcd: Option<Child>,
    api: Option<Child>,
    controller: Option<Child>,
    client: OnceLock<ApiClient>,
    /// Of a shared one: ends the programs with this process.
    guard: Option<Child>,
}

/// Those that no test uses now.
static IDLE: Mutex<Vec<ControlPlane>> = Mutex::new(Vec::new());

/// A control plane that other tests have used before and will use: it has no objects of theirs, but their namespaces. Tests kill
/// their own only.
#[derive(Debug)]
pub struct SharedControlPlane(Option<ControlPlane>);

impl Deref for SharedControlPlane {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.0.as_ref().expect("it is taken by drop only")
    }
}

impl DerefMut for SharedControlPlane {
    fn deref_mut(&mut self) -> &mut ControlPlane {
        self.0.as_mut().expect("it is taken by drop only")
    }
}

impl Drop for SharedControlPlane {
    fn drop(&mut self) {
        let Some(mut plane) = self.0.take() else { return };
        if !thread::panicking() {
            plane.clean();
            IDLE.lock().unwrap().push(plane);
        }
    }
}

impl ControlPlane {
    /// Returns a control plane that no other test uses now. It takes longer to start one than most tests take.
    ///
    /// # Panics
    /// If none can be started.
    pub fn shared() -> SharedControlPlane {
        let idle = IDLE.lock().unwrap().pop();
        SharedControlPlane(Some(idle.unwrap_or_else(|| {
            let mut plane = Self::start();
            plane.guard();
            plane
        })))
    }

    /// Starts etcd and the API server, and applies the `CustomResourceDefinition`s and roles of `conf/silkraild-ipam`.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut plane = Self {
            directory,
            etcd_port: free_port(),
            api_port: free_port(),
            etcd: None,
            api: None,
            controller: None,
            client: OnceLock::new(),
            guard: None,
        };
        plane.make_keys();
        plane.start_etcd();
        plane.start_api();
        let api = plane.api();
        api.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "silkrail"}}));
        for file in [
            "silkraild-ipam/spiderippools",
            "silkraild-ipam/ipblocks",
            "silkraild-ipam/rbac",
            "silkraild-ipam-pods/ipreservations",
            "silkraild-ipam-pods/rbac",
        ] {
            plane.apply_file(file);
        }
        api.wait_for_definitions();
        plane
    }

    /// Returns the API, with the rights of an administrator.
    pub fn api(&self) -> &ApiClient {
        self.client.get_or_init(|| ApiClient::new(&self.path("admin")))
    }

    /// Creates or changes the objects of a file of `conf`.
    pub fn apply_file(&self, name: &str) {
        conf::yaml(&format!("{name}.yaml")).iter().for_each(|object| self.api().apply(object));
    }

    /// Removes what a test has left. Namespaces stay: without a controller they would be deleted forever.
    fn clean(&mut self) {
        self.controller.take().into_iter().for_each(kill);
        for resource in [
            "pods",
            "spidermultusconfigs",
            "network-attachment-definitions",
            "spiderippools",
            "spiderreservedips",
            "ipreservations",
            "ipblocks",
            "nodes",
            "events",
        ] {
            for object in self.api().list(resource) {
                self.api().remove_at_once(resource, &object);
            }
        }
    }

    /// Starts a program that waits until this process has ended, and then ends the control plane and removes its files: those of
    /// `IDLE` are never dropped.
    fn guard(&mut self) {
        let programs = [&self.etcd, &self.api].into_iter().flatten().map(|child| child.id().to_string());
        let mut guard = Command::new("sh");
        guard.args(["-c", "trap '' INT; read -r _; kill -KILL \"$@\"; rm -rf \"$0\""]);
        guard.arg(self.directory.path()).args(programs);
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.guard = Some(guard.spawn().unwrap());
    }

    /// Starts etcd with the data that it had.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_etcd(&mut self) {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        let peer = "http://127.0.0.1:0";
        let mut etcd = self.program("etcd");
        etcd.arg("--data-dir").arg(self.path("etcd")).arg("--unsafe-no-fsync");
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
        etcd.args(["--initial-cluster", &format!("default={peer}")]);
        self.etcd = Some(etcd.spawn().unwrap());
    }

    /// Starts the API server, and waits until it is ready.
    ///
    /// # Panics
    /// If it is not within two minutes.
    pub fn start_api(&mut self) {
        self.start_api_with(&[]);
    }

    /// As [`ControlPlane::start_api`], with further options of kube-apiserver.
    ///
    /// # Panics
    /// If it is not ready within two minutes.
    pub fn start_api_with(&mut self, options: &[&str]) {
        let keys = self.path("keys");
        let mut api = self.program("kube-apiserver");
        api.arg(format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port));
        api.arg(format!("--secure-port={}", self.api_port));
        api.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--authorization-mode=Node,RBAC",
        ]);
        api.args(["--anonymous-auth=false", "--service-cluster-ip-range=10.96.0.0/24"]);
        api.arg("--service-account-issuer=https://kubernetes.default.svc");
        api.arg(format!("--cert-dir={}", keys.display()));
        api.arg(format!("--audit-log-path={}", self.path("audit.log").display()));
        for (option, file) in [
            ("audit-policy-file", "audit.yaml"),
            ("token-auth-file", "tokens.csv"),
            ("service-account-key-file", "accounts.pub"),
            ("service-account-signing-key-file", "accounts.key"),
        ] {
            api.arg(format!("--{option}={}", keys.join(file).display()));
        }
        api.args(options);
        self.api = Some(api.spawn().unwrap());
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.api().is_ready() {
            assert!(
                Instant::now() < deadline,
                "the API server does not start: {}",
                self.log("kube-apiserver")
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Kills the API server.
    pub fn kill_api(&mut self) {
        self.api.take().into_iter().for_each(kill);
    }

    /// Kills etcd.
    pub fn kill_etcd(&mut self) {
        self.etcd.take().into_iter().for_each(kill);
    }

    /// Removes the history of etcd, so that nobody can watch from an earlier version on.
    ///
    /// # Panics
    /// If etcd does not.
    pub fn compact_etcd(&self) {
        let post = |path: &str, body: Value| -> Value {
            let url = format!("http://127.0.0.1:{}/v3/kv/{path}", self.etcd_port);
            let output =
                Command::new("curl").args(["--silent", "--fail", "--data", &body.to_string(), &url]).output();
            serde_json::from_slice(&output.unwrap().stdout).unwrap()
        };
        let revision = post("range", json!({"key": "AA=="}))["header"]["revision"].clone();
        assert!(post("compaction", json!({"revision": revision}))["header"].is_object());
    }

    /// Runs kubectl as an administrator, and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn kubectl(&self, args: &[&str]) -> String {
        let (is_ok, output) = self.try_kubectl(args);
        assert!(is_ok, "kubectl {args:?}: {output}");
        output
    }

    /// Runs kubectl as an administrator, and returns whether it succeeds, and its output or its error.
    pub fn try_kubectl(&self, args: &[&str]) -> (bool, String) {
        let mut kubectl = Command::new(kubernetes("kubectl"));
        let output =
            kubectl.args(args).env("KUBECONFIG", self.path("admin")).current_dir(root()).output().unwrap();
        let text = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Creates or changes an object.
    pub fn apply(&self, object: &Value) {
        self.api().apply(object);
    }

    /// Returns the objects of a resource in all namespaces.
    pub fn list(&self, resource: &str) -> Vec<Value> {
        self.api().list(resource)
    }

    /// Creates a node without a machine.
    pub fn add_node(&self, name: &str) {
        self.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
    }

    /// Sets whether a node is ready, as its kubelet would.
    pub fn set_ready(&self, name: &str, is_ready: bool) {
        let status = if is_ready { "True" } else { "Unknown" };
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        });
        self.api().replace(&format!("/api/v1/nodes/{name}/status"), &node);
    }

    /// Returns the path of the kubeconfig file of an administrator.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.path("admin")
    }

    /// Runs the controller with these options and the rights that `conf/silkraild-ipam` gives it.
    pub fn start_controller(&mut self, options: &[&str]) {
        self.start_program("controller", "ipam-controller", options);
    }

    /// Applies `conf/silkraild-networks` and the definition of Multus's networks, and runs the controller of networks.
    ///
    /// # Panics
    /// If the API server refuses them.
    pub fn start_networks(&mut self, options: &[&str]) {
        self.apply_file("silkraild-networks/spidermultusconfigs");
        self.apply_file("silkraild-networks/rbac");
        self.apply(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
            "spec": {
                "group": "k8s.cni.cncf.io", "scope": "Namespaced",
                "names": {
                    "kind": "NetworkAttachmentDefinition", "plural": "network-attachment-definitions",
                    "singular": "network-attachment-definition",
                },
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"config": {"type": "string"}}}},
                }}}],
            },
        }));
        self.api().wait_for_definitions();
        self.start_program("networks", "networks", options);
    }

    fn start_program(&mut self, user: &str, command: &str, options: &[&str]) {
        let log =
            File::options().create(true).append(true).open(self.path(user).with_extension("log")).unwrap();
        let mut controller = Command::new(daemon::executable());
        controller.arg(command).args(options).env("KUBECONFIG", self.path(user));
        controller.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.controller = Some(controller.spawn().unwrap());
    }

    /// Returns the path of a kubeconfig file with the rights of the agents of `conf/silkraild-ipam`.
    pub fn agent_kubeconfig(&self) -> PathBuf {
        self.path("agent")
    }

    /// Returns the path of a kubeconfig file with the rights of the service account of silkraild, which it has none without components.
    pub fn daemon_kubeconfig(&self) -> PathBuf {
        self.path("silkraild")
    }

    /// Returns the path of a kubeconfig file of the kubelet of a node: `node-a` or `node-b`.
    pub fn kubelet_kubeconfig(&self, node: &str) -> PathBuf {
        self.path(&format!("kubelet-{node}"))
    }

    /// Returns a connection to the API server that can be interrupted, and a kubeconfig file with the rights of an agent over it.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn agent_link(&self) -> (InterruptibleLink, PathBuf) {
        let link = InterruptibleLink::to(SocketAddr::from(([127, 0, 0, 1], self.api_port)));
        let path = self.path(&format!("agent-{}", link.port()));
        self.write_kubeconfig(&path, "agent", link.port());
        (link, path)
    }

    /// Returns the requests about pools and blocks that the API server has answered, as `<verb> <resource> <code>`, with their
    /// numbers.
    ///
    /// # Panics
    /// If its log cannot be read.
    pub fn requests(&self) -> BTreeMap<String, usize> {
        let mut requests = BTreeMap::new();
        for line in fs::read_to_string(self.path("audit.log")).unwrap().lines() {
            // A killed server leaves an incomplete line.
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (verb, of) = (text(&event["verb"]), &event["objectRef"]);
            let resource = [text(&of["resource"]), text(&of["subresource"])].join("/");
            let request =
                format!("{verb} {} {}", resource.trim_end_matches('/'), event["responseStatus"]["code"]);
            *requests.entry(request).or_insert(0) += 1;
        }
        requests
    }

    /// Returns the last lines that a program has logged.
    pub fn log(&self, program: &str) -> String {
        let log = fs::read_to_string(self.path(program).with_extension("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn program(&self, name: &str) -> Command {
        let log =
            File::options().create(true).append(true).open(self.path(name).with_extension("log")).unwrap();
        let mut program = Command::new(kubernetes(name));
        program.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        program
    }

    fn make_keys(&self) {
        let keys = self.path("keys");
        fs::create_dir(&keys).unwrap();
        let openssl = |args: &[&str]| {
            assert!(
                Command::new("openssl")
                    .args(args)
                    .current_dir(&keys)
                    .stderr(Stdio::null())
                    .status()
                    .unwrap()
                    .success()
            );
        };
        openssl(&["genrsa", "-out", "accounts.key", "2048"]);
        openssl(&["rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"]);
        let account = "system:serviceaccount:silkrail:silkraild-ipam";
        let mut tokens = format!(
            "admin-token,admin,1,\"system:masters\"\nagent-token,{account},2\ncontroller-token,{account}-controller,3\n\
             networks-token,system:serviceaccount:silkrail:silkraild-networks,4\nsilkraild-token,system:serviceaccount:silkrail:silkraild,5\n"
        );
        for node in KUBELETS {
            tokens += &format!("kubelet-{node}-token,system:node:{node},{node},\"system:nodes\"\n");
        }
        fs::write(keys.join("tokens.csv"), tokens).unwrap();
        // Every response to a request about blocks and pools.
        let audited = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [
                {"level": "Metadata", "resources": [{"group": "ipam.silkrail.io"}, {"group": "spiderpool.spidernet.io"}]},
                {"level": "None"},
            ],
        });
        fs::write(keys.join("audit.yaml"), audited.to_string()).unwrap();
        for user in ["admin", "agent", "controller", "networks", "silkraild"] {
            self.write_kubeconfig(&self.path(user), user, self.api_port);
        }
        for node in KUBELETS {
            self.write_kubeconfig(&self.kubelet_kubeconfig(node), &format!("kubelet-{node}"), self.api_port);
        }
    }

    fn write_kubeconfig(&self, path: &Path, user: &str, port: u16) {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "a", "cluster": {"server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true}}],
            "users": [{"name": user, "user": {"token": format!("{user}-token")}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": user}}],
            "current-context": "a",
        });
        fs::write(path, config.to_string()).unwrap();
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.guard.take().into_iter().for_each(kill);
        self.controller.take().into_iter().for_each(kill);
        self.kill_api();
        self.kill_etcd();
    }
}

/// Waits until a condition is true, whose description is `what`.
///
/// # Panics
/// If it is not true after a minute.
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + CHANGE_TIMEOUT;
    while !is() {
        assert!(Instant::now() < deadline, "timed out after {CHANGE_TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn kill(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn kubernetes(program: &str) -> PathBuf {
    tools::tools("kubernetes", program).join(program)
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns a free port that the kernel assigns to nobody: it stays free while a program is restarted.
fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| 12_000 + fastrand::u16(..18_000));
    ports.find(is_free).unwrap()
}
