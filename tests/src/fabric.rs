//! A simulated fabric: a network namespace for each node with `silkrail check serve`, simulated RDMA devices, and a perftest that
//! is played by a script.
//!
//! What is real: the agents, their protocol, the addresses and the TCP connections. What is not: no RDMA packet is sent. The
//! devices are a copy of a sysfs tree, and the script invents the bandwidth: that of a planted slow port is low only while
//! another port of the same node runs a test, too, as that of a port behind a shared PCI Express switch.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use testkit::{Observe, TestNode, TestPod, wait_until};

use crate::cli::{self, CommandOutput};

/// Plays both ends of a bandwidth test. The directory of the fabric is the first directory above that of the script.
const PLAYED_PERFTEST: &str = r##"#!/usr/bin/perl
use strict; use Fcntl ':flock'; use Socket;
my $args = "@ARGV";
if ($args =~ /--version/) { print "Version: 6.06\n"; exit }
my ($fabric, $node) = $0 =~ m{^(.*)/([^/]+)/bin/[^/]+$};
my ($port) = $args =~ /--port=(\d+)/;
my ($device) = $args =~ /--ib-dev=(\S+)/;
my $me = "$node.$device";
open(my $log, '>>', "$fabric/$node/perftests"); syswrite $log, "$args\n"; close $log;
# Locked while the test runs, and changed at its end.
open(my $mark, '>', "$fabric/ran/$me") or die "mark: $!";
flock($mark, LOCK_EX);
END { utime undef, undef, $mark if $mark }
# Whether a port has run a test since a time.
sub ran_since {
  open(my $other, '<', $_[0]) or return;
  return !flock($other, LOCK_SH | LOCK_NB) || (stat $other)[9] >= $_[1];
}
sub hang { sleep 1 while -e "$fabric/hangs/$node" }
socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
if ($ARGV[-1] =~ /^-/) {
  setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1);
  bind($s, sockaddr_in($port, INADDR_ANY)) or die "bind: $!";
  listen($s, 5); accept(my $c, $s) or die;
  hang();
  syswrite $c, "$me\n"; sysread $c, my $end, 1; exit;
}
connect($s, sockaddr_in($port, inet_aton($ARGV[-1]))) or die "connect: $!";
hang();
my $peer = readline($s); chomp $peer;
select undef, undef, undef, 0.1;
my $gbps = 380 + length($peer) % 5;
for my $end ($me, $peer) {
  # All servers of the peer have started before the first client.
  my ($of) = $peer =~ /^([^.]+)/;
  my $began = (stat "$fabric/ran/$peer")[9];
  my @others = grep { !/\Q$peer\E$/ && ran_since($_, $began) } glob("$fabric/ran/$of.*");
  $gbps = 150 if -e "$fabric/slow/$end" && @others;
}
syswrite $s, "x";
my $rate = $gbps * 1000 / 8 / 65536;
print " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n";
printf " 65536      1000             0.00               %.2f              %.6f\n", $gbps, $rate;
"##;

/// The simulated fabric. Dropping it ends the agents.
#[derive(Debug)]
pub struct SimulatedFabric {
    node: TestNode,
    dir: PathBuf,
    token: PathBuf,
    nodes: Vec<FabricNode>,
}

#[derive(Debug)]
struct FabricNode {
    agent: Child,
    _pod: TestPod,
}

impl SimulatedFabric {
    /// Starts this number of nodes with this number of rails each, and waits until all agents listen.
    ///
    /// # Panics
    /// Without root privileges.
    pub fn new(nodes: usize, rails: usize) -> Self {
        let node = TestNode::new();
        let dir = node.state_dir().with_file_name("fabric");
        for name in ["ran", "slow", "hangs"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        let token = dir.join("token");
        fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        node.run_ip("link add fabric type bridge");
        node.run_ip("address add 10.9.0.254/24 dev fabric");
        node.run_ip("link set fabric up");
        let mut fabric = Self { node, dir, token, nodes: Vec::new() };
        for number in 1..=nodes {
            let started = fabric.start(number, rails);
            fabric.nodes.push(started);
        }
        for number in 1..=nodes {
            let log = fabric.dir.join(name(number)).join("log");
            wait_until("an agent listens", || {
                fs::read_to_string(&log).is_ok_and(|text| text.contains("listening"))
            });
        }
        fabric
    }

    /// Makes a port of a node slow while another port of the node runs a test.
    pub fn make_slow(&self, node: usize, device: &str) {
        File::create(self.dir.join(format!("slow/{}.{device}", name(node)))).unwrap();
    }

    /// Makes perftest of a node hang.
    pub fn make_hang(&self, node: usize) {
        File::create(self.dir.join("hangs").join(name(node))).unwrap();
    }

    /// Kills the agent of a node.
    pub fn kill_agent(&mut self, node: usize) {
        let agent = &mut self.nodes[node - 1].agent;
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// Stops the agent of a node: its kernel accepts connections, and nothing is sent.
    pub fn stop_agent(&self, node: usize) {
        let pid = self.nodes[node - 1].agent.id().to_string();
        self.node.run("kill", &["-STOP", &pid]);
    }

    /// Returns the log of a node's agent.
    pub fn log(&self, node: usize) -> String {
        fs::read_to_string(self.dir.join(name(node)).join("log")).unwrap()
    }

    /// Returns the root directory of the machine that runs `silkrail check mesh`.
    pub fn controller(&self) -> PathBuf {
        self.dir.join("controller")
    }

    /// Returns the command lines of perftest at a node, without `--version`.
    pub fn perftests(&self, node: usize) -> Vec<String> {
        let log = fs::read_to_string(self.dir.join(name(node)).join("perftests")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Runs `silkrail check mesh` with all nodes and these options.
    pub fn mesh(&self, options: &str) -> CommandOutput {
        let hosts: Vec<String> = (1..=self.nodes.len()).map(address).collect();
        let mut command = self.node.command(cli::executable().to_str().unwrap());
        command.arg("--root").arg(self.controller()).args(["check", "mesh"]).args(hosts);
        command.args(options.split_whitespace()).arg("--token-file").arg(&self.token);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        CommandOutput { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn start(&self, number: usize, rails: usize) -> FabricNode {
        let (name, root) = (name(number), self.dir.join(name(number)));
        let pod = self.node.pod(&name);
        let link = format!("to-{number}");
        self.node.run_ip(&format!("link add {link} type veth peer name eth0 netns {}", pod.path().display()));
        self.node.run_ip(&format!("link set {link} master fabric up"));
        let mut batch =
            format!("link set lo up\nlink set eth0 up\naddress add {}/24 dev eth0\n", address(number));
        for rail in 0..rails {
            batch += &format!(
                "link add rail{rail} type bridge\nlink set rail{rail} up\naddress add 10.10.{rail}.{number}/24 dev rail{rail}\n"
            );
        }
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("links"), batch).unwrap();
        pod.run("ip", &["-batch", root.join("links").to_str().unwrap()]);
        (0..rails).for_each(|rail| self.add_device(number, rail));
        let program = root.join("bin/ib_write_bw");
        fs::write(&program, PLAYED_PERFTEST).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let log = File::create(root.join("log")).unwrap();
        let serve = format!(
            "hostname {name}; PATH={}:$PATH exec {} --root {} check serve --listen {}:18514 --token-file {}",
            root.join("bin").display(),
            cli::executable().display(),
            root.display(),
            address(number),
            self.token.display()
        );
        let mut command: Command = pod.command("unshare");
        command.args(["--uts", "sh", "-c", &serve]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        FabricNode { agent: command.spawn().unwrap(), _pod: pod }
    }

    /// Adds the device of a rail to the simulated sysfs tree of a node.
    fn add_device(&self, number: usize, rail: usize) {
        let sys = self.dir.join(name(number)).join("sys");
        let function = sys.join(format!("devices/pci0000:00/0000:{:02x}:00.0", 16 + rail));
        let device = function.join(format!("infiniband/mlx5_{rail}"));
        let port = device.join("ports/1");
        for dir in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
            fs::create_dir_all(port.join(dir)).unwrap();
        }
        let gid = format!("0000:0000:0000:0000:0000:ffff:0a0a:{rail:02x}{number:02x}");
        let files = [
            ("state", "4: ACTIVE"),
            ("link_layer", "Ethernet"),
            ("rate", "400 Gb/sec (4X NDR)"),
            ("gids/0", &gid),
            ("gid_attrs/types/0", "RoCE v2"),
            ("gid_attrs/ndevs/0", &format!("rail{rail}")),
        ];
        for (file, text) in files {
            fs::write(port.join(file), format!("{text}\n")).unwrap();
        }
        symlink(&function, device.join("device")).unwrap();
        let class = sys.join("class/infiniband");
        fs::create_dir_all(&class).unwrap();
        symlink(&device, class.join(format!("mlx5_{rail}"))).unwrap();
    }
}

impl Drop for SimulatedFabric {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.agent.kill();
            let _ = node.agent.wait();
        }
    }
}

/// Returns the name of a node, from 1.
fn name(number: usize) -> String {
    format!("node{number}")
}

/// Returns the management address of a node.
pub fn address(number: usize) -> String {
    format!("10.9.0.{number}")
}
