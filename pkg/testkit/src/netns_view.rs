//! Inspecting a network namespace with `ip` and `rdma`.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write},
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

use nix::sched::{CloneFlags, setns};
use serde_json::Value;

use crate::{TestPod, wait_until};

/// A node or a pod, which has a network namespace.
pub trait Observe {
    /// Returns a command that will run in the namespace.
    fn command(&self, program: &str) -> Command;

    /// Runs a function on a thread in the namespace.
    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T;

    /// Runs a command, which must succeed, and returns its output.
    ///
    /// # Panics
    /// If it fails.
    fn run(&self, program: &str, args: &[impl AsRef<OsStr>]) -> String {
        let args: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        let output = self.output(program, &args).expect(program);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command and returns its output and its exit status.
    ///
    /// # Errors
    /// If it cannot be run.
    fn output(&self, program: &str, args: &[&OsStr]) -> io::Result<Output> {
        self.command(program).args(args).output()
    }

    /// Runs `ip` with arguments separated by spaces.
    ///
    /// # Panics
    /// If it fails.
    fn run_ip(&self, args: &str) {
        self.run("ip", &args.split(' ').collect::<Vec<_>>());
    }

    /// Runs `ip -json` and parses its output.
    ///
    /// # Panics
    /// If it fails.
    fn ip(&self, args: &str) -> Vec<Value> {
        parse(&self.run("ip", &[&["-json"], args.split(' ').collect::<Vec<_>>().as_slice()].concat()))
    }

    /// Runs several commands of `ip -json -details` in one process, and parses the output of each.
    ///
    /// # Panics
    /// If one fails.
    fn ip_batch(&self, commands: &[&str]) -> Vec<Vec<Value>> {
        batch(self.command("ip"), commands)
    }

    /// Runs several commands of `ip -6 -json -details`, as [`Observe::ip_batch`] does.
    ///
    /// # Panics
    /// If one fails.
    fn ip6_batch(&self, commands: &[&str]) -> Vec<Vec<Value>> {
        let mut command = self.command("ip");
        command.arg("-6");
        batch(command, commands)
    }

    /// Runs `rdma -j` and parses its output.
    ///
    /// # Panics
    /// If it fails.
    fn rdma(&self, args: &str) -> Vec<Value> {
        parse(&self.run("rdma", &[&["-j"], args.split(' ').collect::<Vec<_>>().as_slice()].concat()))
    }

    /// Creates a veth pair with one end here and the other in a pod, sets both up and waits until they are ready.
    ///
    /// # Panics
    /// If it cannot be created.
    fn cable(&self, name: &str, pod: &TestPod, far: &str)
    where
        Self: Sized,
    {
        let netns = pod.path().display();
        self.run_ip(&format!("link add {name} mtu 1500 type veth peer name {far} netns {netns}"));
        // Without duplicate address detection, which takes a second.
        self.set_sysctl(&format!("net/ipv6/conf/{name}/accept_dad"), "0");
        pod.set_sysctl(&format!("net/ipv6/conf/{far}/accept_dad"), "0");
        self.run_ip(&format!("link set {name} up"));
        pod.run_ip(&format!("link set {far} up"));
        wait_until("the cable is ready", || is_ready(self, name) && is_ready(pod, far));
    }

    /// Returns all links with their details.
    fn links(&self) -> Vec<Value> {
        self.ip("-details link show")
    }

    /// Returns the names of all links.
    fn link_names(&self) -> Vec<String> {
        self.links().iter().map(|link| text(link, "ifname")).collect()
    }

    /// Returns the link of that name, if there is one.
    fn link(&self, name: &str) -> Option<Value> {
        self.links().into_iter().find(|link| link["ifname"] == name)
    }

    /// Returns the addresses of a link as `address/length`, except those of scope link, which the kernel adds.
    fn addresses(&self, name: &str) -> Vec<String> {
        let of = |info: &Value| format!("{}/{}", text(info, "local"), info["prefixlen"]);
        self.address_infos(name).iter().map(of).collect()
    }

    /// Returns the same addresses with all their attributes.
    fn address_infos(&self, name: &str) -> Vec<Value> {
        let links = self.ip("address show");
        let link = links.iter().find(|link| link["ifname"] == name);
        let infos = link.and_then(|link| link["addr_info"].as_array()).cloned().unwrap_or_default();
        infos.into_iter().filter(|info| info["scope"] != "link").collect()
    }

    /// Returns the routes of a link, except those that the kernel adds.
    fn routes(&self, name: &str) -> Vec<Value> {
        let mut routes = self.ip("-4 route show table all");
        routes.extend(self.ip("-6 route show table all"));
        routes.retain(|route| goes_through(route, name) && route["protocol"] != "kernel");
        routes
    }

    /// Returns the value of a sysctl, such as `net/ipv4/conf/net1/arp_notify`.
    fn sysctl(&self, name: &str) -> String {
        let value = self.within(|| fs::read_to_string(sysctl_file(name)));
        value.unwrap_or_else(|e| panic!("{name}: {e}")).trim().to_owned()
    }

    /// Sets a sysctl, given as for [`Observe::sysctl`].
    fn set_sysctl(&self, name: &str, value: &str) {
        let written = self.within(|| fs::write(sysctl_file(name), value));
        written.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

fn batch(mut command: Command, commands: &[&str]) -> Vec<Vec<Value>> {
    command.args(["-json", "-details", "-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut ip = command.spawn().expect("ip");
    let mut input = ip.stdin.take().expect("it is piped");
    input.write_all(commands.join("\n").as_bytes()).expect("ip reads its commands");
    drop(input);
    let output = ip.wait_with_output().expect("ip");
    assert!(output.status.success(), "{commands:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let printed: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&text).into_iter().collect();
    let printed = printed.unwrap_or_else(|e| panic!("not JSON ({e}): {text}"));
    assert_eq!(printed.len(), commands.len(), "{commands:?}: {text}");
    printed.into_iter().map(objects).collect()
}

fn sysctl_file(name: &str) -> String {
    format!("/proc/sys/{name}")
}

/// Runs a function on a thread in the network namespace that a path names. That is several times cheaper than `nsenter`.
///
/// # Panics
/// If the path does not name a network namespace.
pub fn inside<T: Send>(netns: &Path, work: impl FnOnce() -> T + Send) -> T {
    let work = || {
        let file = File::open(netns).unwrap_or_else(|e| panic!("{}: {e}", netns.display()));
        #[expect(clippy::disallowed_methods, reason = "this thread ends here")]
        setns(file, CloneFlags::CLONE_NEWNET).unwrap_or_else(|e| panic!("{}: {e}", netns.display()));
        work()
    };
    let done = thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Observe for TestPod {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        if let Some(user) = self.user() {
            command.arg(format!("--user={}", user.display())).arg("--preserve-credentials");
        }
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }

    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(self.path(), work)
    }

    fn output(&self, program: &str, args: &[&OsStr]) -> io::Result<Output> {
        match self.user() {
            // Only a process with one thread can enter it.
            Some(_) => self.command(program).args(args).output(),
            // A process inherits the namespaces of the thread that starts it.
            None => self.within(|| Command::new(program).args(args).output()),
        }
    }
}

/// Whether a link has a carrier, and the routes that the kernel adds last when the carrier comes up.
fn is_ready(place: &impl Observe, name: &str) -> bool {
    // The lines end with the name of the link, after the flags: RTF_LOCAL is 0x80000000.
    let routes = place.within(|| fs::read_to_string("/proc/thread-self/net/ipv6_route")).unwrap_or_default();
    let of_link = routes.lines().filter(|line| line.split_whitespace().last() == Some(name));
    let (mut local, mut multicast) = (false, false);
    for line in of_link {
        multicast |= line.starts_with("ff000000");
        local |= line.split_whitespace().nth(8).is_some_and(|flags| flags.starts_with('8'));
    }
    local && multicast && place.link(name).is_some_and(|link| link["operstate"] == "UP")
}

fn goes_through(route: &Value, name: &str) -> bool {
    let hops = route["nexthops"].as_array();
    route["dev"] == name || hops.is_some_and(|hops| hops.iter().any(|hop| hop["dev"] == name))
}

fn text(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}

/// Parses the output of a tool, which is empty if there is nothing to list.
fn parse(text: &str) -> Vec<Value> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let parsed: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("not JSON ({e}): {text}"));
    objects(parsed)
}

/// Returns the objects that a tool printed, without the empty ones that it prints for filtered entries.
fn objects(printed: Value) -> Vec<Value> {
    match printed {
        Value::Array(list) => {
            list.into_iter().filter(|item| item != &Value::Object(Default::default())).collect()
        }
        object => vec![object],
    }
}
