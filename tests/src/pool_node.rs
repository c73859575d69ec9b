//! A node that uses pools of the cluster: a state directory, an agent (`silkraild ipam`), and calls of `silkrail-ipam`. There is
//! no machine, so any number of nodes can be had.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use tempfile::TempDir;
use testkit::{Answer, Binaries, Call};

use crate::{control_plane::ControlPlane, daemon};

/// The time within which an agent serves plugins.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A node.
#[derive(Debug)]
pub struct PoolNode {
    name: String,
    state: TempDir,
    binaries: Binaries,
    kubeconfig: PathBuf,
    kubelet_kubeconfig: Option<PathBuf>,
    /// The value of `SILKRAIL_KILL_POINT`.
    kill_point: Option<u32>,
    agent: Option<Child>,
}

impl PoolNode {
    /// Adds a node to the cluster, starts its agent, and waits until it has the pools.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(plane: &ControlPlane, name: &str) -> Self {
        plane.add_node(name);
        Self::start_over(plane.agent_kubeconfig(), name)
    }

    /// Starts the agent of a node that is in the cluster, with a kubeconfig file.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_over(kubeconfig: PathBuf, name: &str) -> Self {
        Self::start_with(kubeconfig, None, name)
    }

    /// Adds a node to the cluster, and starts its agent with the credentials of its kubelet, so that it watches pods.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_watching_pods(plane: &ControlPlane, name: &str) -> Self {
        plane.add_node(name);
        Self::start_with(plane.agent_kubeconfig(), Some(plane.kubelet_kubeconfig(name)), name)
    }

    fn start_with(kubeconfig: PathBuf, kubelet_kubeconfig: Option<PathBuf>, name: &str) -> Self {
        let mut node = Self {
            name: name.to_owned(),
            state: testkit::state_dir(),
            binaries: Binaries::find(),
            kubeconfig,
            kubelet_kubeconfig,
            kill_point: None,
            agent: None,
        };
        node.start_agent();
        node.wait_for_pools();
        node
    }

    /// Waits until plugins can read the pools of the cluster.
    ///
    /// # Panics
    /// If they cannot.
    pub fn wait_for_pools(&self) {
        let pools = self.state.path().join("cluster/pools/pools.json");
        let deadline = Instant::now() + START_TIMEOUT;
        while !pools.exists() {
            assert!(Instant::now() < deadline, "there are no pools: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts the agent.
    ///
    /// # Panics
    /// If it does not listen.
    pub fn start_agent(&mut self) {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut agent = self.agent_command();
        agent.stdout(Stdio::null()).stderr(log);
        let socket = self.state.path().join("cluster/socket");
        let _ = fs::remove_file(&socket);
        self.agent = Some(agent.spawn().unwrap());
        let deadline = Instant::now() + START_TIMEOUT;
        while !socket.exists() {
            assert!(Instant::now() < deadline, "the agent does not start: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs another agent until it exits.
    ///
    /// # Panics
    /// If it cannot be run.
    pub fn run_agent(&self) -> Output {
        self.agent_command().output().unwrap()
    }

    fn agent_command(&self) -> Command {
        let mut agent = Command::new(daemon::executable());
        agent.args(["ipam", "--node-name", &self.name]).arg("--state-dir").arg(self.state.path());
        agent.env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null());
        agent.envs(self.kill_point.map(|number| ("SILKRAIL_KILL_POINT", number.to_string())));
        if let Some(kubelet) = &self.kubelet_kubeconfig {
            agent.arg("--kubelet-kubeconfig").arg(kubelet);
        }
        agent
    }

    /// The next agent ends at this point, before or after a request about blocks.
    pub fn set_kill_point(&mut self, number: Option<u32>) {
        self.kill_point = number;
    }

    /// Whether the agent has ended.
    ///
    /// # Panics
    /// If that cannot be determined.
    pub fn has_agent_ended(&mut self) -> bool {
        self.agent.as_mut().is_none_or(|agent| agent.try_wait().unwrap().is_some())
    }

    /// The next agent does not watch pods.
    pub fn stop_watching_pods(&mut self) {
        self.kubelet_kubeconfig = None;
    }

    /// Returns the state directory.
    pub fn state_dir(&self) -> &Path {
        self.state.path()
    }

    /// Kills the agent.
    pub fn kill_agent(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }

    /// Removes what a reboot removes, and starts the agent again.
    pub fn reboot(&mut self) {
        self.switch_off();
        self.start_agent();
        self.wait_for_pools();
    }

    /// Kills the agent and removes what a reboot removes.
    pub fn switch_off(&mut self) {
        self.kill_agent();
        for entry in fs::read_dir(self.state.path()).unwrap() {
            let path = entry.unwrap().path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.unwrap();
        }
    }

    /// Returns a call for a container, with these pools.
    pub fn call(&self, container: &str, pools: &[&str]) -> Call {
        let ipam = json!({"type": "silkrail-ipam", "store": "cluster", "default_ipv4_ippool": pools, "nodeName": self.name});
        let conf = json!({"cniVersion": "1.1.0", "name": "rail", "type": "silkrail-ipam", "ipam": ipam});
        Call::new(&self.binaries, "silkrail-ipam")
            .state_dir(self.state.path())
            .conf(&conf)
            .container(container)
    }

    /// Calls ADD for a container, and returns the address. Like the kubelet, it tries again if the plugin says so.
    ///
    /// # Panics
    /// If there is none.
    pub fn add(&self, container: &str, pool: &str) -> String {
        let deadline = Instant::now() + START_TIMEOUT;
        let mut answer = self.try_add(container, pool);
        while answer.json()["code"] == 11 && Instant::now() < deadline {
            answer = self.try_add(container, pool);
        }
        let result = answer.json();
        let address = result["ips"][0]["address"].as_str();
        let address = address.unwrap_or_else(|| panic!("{result}\n{}", self.log()));
        address.split('/').next().unwrap().to_owned()
    }

    /// Calls ADD for a container.
    pub fn try_add(&self, container: &str, pool: &str) -> Answer {
        self.call(container, &[pool]).add()
    }

    /// Calls DEL for a container.
    ///
    /// # Panics
    /// If it fails.
    pub fn del(&self, container: &str, pool: &str) {
        self.call(container, &[pool]).del().done();
    }

    /// Returns the addresses that are claimed on the node.
    ///
    /// # Panics
    /// If the store cannot be read.
    pub fn claims(&self) -> Vec<String> {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let store = ipam::LocalStore::open_existing(self.state.path(), boot_id.trim()).unwrap();
        let claims = store.map_or_else(Vec::new, |store| store.claims().unwrap());
        claims.into_iter().map(|claim| claim.address.to_string()).collect()
    }

    /// Returns the blocks that the node has leased according to the cluster.
    pub fn blocks(&self, plane: &ControlPlane) -> Vec<String> {
        let is_own = |block: &serde_json::Value| block["spec"]["owner"]["nodeName"] == self.name.as_str();
        let name = |block: serde_json::Value| block["metadata"]["name"].as_str().unwrap().to_owned();
        plane.list("ipblocks").into_iter().filter(is_own).map(name).collect()
    }

    /// Returns what the agent has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Returns the files from which plugins read pools.
    ///
    /// # Panics
    /// If they cannot be read.
    pub fn pool_files(&self) -> String {
        let files = fs::read_dir(self.state.path().join("cluster/pools")).unwrap();
        files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap_or_default()).collect()
    }

    /// Waits until the agent has logged a text.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.log().contains(text) {
            assert!(Instant::now() < deadline, "the agent does not log {text:?}: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kept when the node is rebooted.
    fn log_path(&self) -> PathBuf {
        self.state.path().with_extension("log")
    }
}

impl Drop for PoolNode {
    fn drop(&mut self) {
        self.kill_agent();
        let _ = fs::remove_file(self.log_path());
    }
}
