//! A software RDMA device (rxe) in the lab's machine, and programs that use it: the only one there whose queue pairs
//! carry traffic.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use testkit::{Observe, TestNode, wait_until};

use crate::machine::LabMachine;

/// The device's name.
pub const DEVICE: &str = "rxe0";
/// The address of its link.
pub const ADDRESS: &str = "192.0.2.1";

/// The machine with a software RDMA device on `eth0`, for as long as this value lives.
#[derive(Debug)]
pub struct Rxe {
    /// The machine.
    pub machine: LabMachine,
}

impl Rxe {
    /// The machine in shared mode, with the device and a GID of its own.
    ///
    /// # Panics
    /// If it cannot be made.
    #[expect(clippy::new_without_default, reason = "it makes a device")]
    pub fn new() -> Self {
        Self::on(LabMachine::shared())
    }

    /// The device on a machine in any mode.
    ///
    /// # Panics
    /// If it cannot be made.
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

    /// The index of the GID that is the link's IPv4 address.
    pub fn gid(&self) -> Option<usize> {
        let table = format!("/sys/class/infiniband/{DEVICE}/ports/1/gids");
        (0..64).find(|index| {
            let gid = fs::read_to_string(format!("{table}/{index}")).unwrap_or_default();
            gid.trim().ends_with("ffff:c000:0201")
        })
    }

    /// Two ends of one of ibverbs-utils' ping-pongs, which would go on for hours.
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

    /// What `rdma` prints of a kind of objects of the device.
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
    /// Starts one; its output goes nowhere.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        Self::spawn(Command::new(program).args(arguments))
    }

    /// Starts a command.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Its process.
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

/// Whether a TCP socket of this machine listens on a port.
pub fn listens(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|local| local.ends_with(&wanted)) && columns.nth(1) == Some("0A")
    })
}
