//! A software RDMA device (rxe) in the lab's machine, and programs that use it. It is the only device of the lab whose queue
//! pairs carry traffic.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use testkit::{Observe, TestNode, wait_until};

use crate::machine::LabMachine;

/// The name of the device.
pub const DEVICE: &str = "rxe0";
/// The address of its link.
pub const ADDRESS: &str = "192.0.2.1";

/// The machine with a software RDMA device on `eth0`, for as long as this value lives.
#[derive(Debug)]
pub struct Rxe {
    /// The machine that has the device.
    pub machine: LabMachine,
}

impl Rxe {
    /// Returns the machine in shared mode, with the device and its GID.
    ///
    /// # Panics
    /// If the device cannot be created.
    #[expect(clippy::new_without_default, reason = "it creates a device")]
    pub fn new() -> Self {
        Self::on(LabMachine::shared())
    }

    /// Creates the device on a machine in any mode.
    ///
    /// # Panics
    /// If the device cannot be created.
    pub fn on(machine: LabMachine) -> Self {
        let rxe = Self { machine };
        rxe.node().run("modprobe", &["rdma_rxe"]);
        rxe.node().run_ip(&format!("address add {ADDRESS}/24 dev eth0"));
        rxe.node().run("rdma", &["link", "add", DEVICE, "type", "rxe", "netdev", "eth0"]);
        wait_until("the device has the link's address", || rxe.gid().is_some());
        rxe
    }

    fn node(&self) -> &TestNode {
        &self.machine.node
    }

    /// Returns the index of the GID of the link's IPv4 address.
    pub fn gid(&self) -> Option<usize> {
        let table = format!("/sys/class/infiniband/{DEVICE}/ports/1/gids");
        (0..64).find(|index| {
            let gid = fs::read_to_string(format!("{table}/{index}")).unwrap_or_default();
            gid.trim().ends_with("ffff:c000:0201")
        })
    }

    /// Starts the server and the client of a ping-pong program of ibverbs-utils, which would run for hours.
    ///
    /// # Panics
    /// If they do not start.
    pub fn pingpong(&self, program: &str, arguments: &[&str]) -> [RxeProgram; 2] {
        let gid = self.gid().unwrap().to_string();
        let common = [&["-d", DEVICE, "-g", &gid, "-n", "100000000"], arguments].concat();
        let server = RxeProgram::start(program, &common);
        wait_until("the server listens", || listens(18515));
        [server, RxeProgram::start(program, &[&common[..], &["127.0.0.1"]].concat())]
    }

    /// Returns the objects of a kind (`qp`, `cq`, …) on the device, as `rdma -d resource show` prints them.
    ///
    /// # Panics
    /// If it cannot be run.
    pub fn printed(&self, kind: &str) -> Vec<Value> {
        let mut objects = self.node().rdma(&format!("-d resource show {kind}"));
        objects.retain(|object| object["ifname"] == DEVICE);
        objects
    }
}

impl Drop for Rxe {
    fn drop(&mut self) {
        let _ = Command::new("rdma").args(["link", "delete", DEVICE]).stderr(Stdio::null()).status();
        let _ = Command::new("ip").args(["address", "del", &format!("{ADDRESS}/24"), "dev", "eth0"]).status();
    }
}

/// A program that runs for as long as this value lives.
#[derive(Debug)]
pub struct RxeProgram(Child);

impl RxeProgram {
    /// Starts a program; its output is discarded.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        Self::spawn(Command::new(program).args(arguments))
    }

    /// Starts a command; its standard output is discarded.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Returns the PID.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for RxeProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns whether a TCP socket of this namespace listens on a port.
pub fn listens(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|local| local.ends_with(&wanted)) && columns.nth(1) == Some("0A")
    })
}
