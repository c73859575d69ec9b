//! Two virtual machines of the lab on one network, with a software RDMA device each.
//!
//! A test runs in the first machine. The second executes scripts that the test writes to `/lab-out`, which both machines share.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use testkit::wait_until;

use crate::cli::CommandOutput;

/// The address of the first machine.
pub const HERE: &str = "192.0.2.1";
/// The address of the second machine.
pub const THERE: &str = "192.0.2.2";
/// The RDMA device of each machine.
pub const DEVICE: &str = "rxe0";

static ONE: Mutex<bool> = Mutex::new(false);
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The setup of both machines. The simulated devices are removed, since they carry no traffic and must not be selected.
const SETUP: &str = "set -e
    rmmod rdmasim
    modprobe rdma_rxe
    ip link set lo up
    ip link set eth0 up
    rdma link add rxe0 type rxe netdev eth0";

/// Exclusive use of both machines, for as long as this value lives.
#[derive(Debug)]
pub struct MachinePair {
    _one: MutexGuard<'static, bool>,
}

impl MachinePair {
    /// Waits for the machines, and sets up their devices and addresses once.
    ///
    /// # Panics
    /// If the setup fails.
    #[expect(clippy::new_without_default, reason = "it creates devices")]
    pub fn new() -> Self {
        assert!(
            std::env::var_os("SILKRAIL_LAB").is_some(),
            "these tests need two machines: run hack/test pair"
        );
        let mut one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !*one {
            let with = |address| format!("{SETUP}\nip address add {address}/24 dev eth0");
            here(&with(HERE)).ended(0);
            there(&with(THERE)).ended(0);
            let gid = "for i in $(seq 500); do
                grep -qr ffff:c000:02 /sys/class/infiniband/rxe0/ports/1/gids/ && exit; sleep 0.1; done; exit 1";
            here(gid).ended(0);
            there(gid).ended(0);
            *one = true;
        }
        Self { _one: one }
    }
}

/// Runs a script in this machine.
///
/// # Panics
/// If it cannot be run.
pub fn here(script: &str) -> CommandOutput {
    let output = Command::new("bash").args(["-c", script]).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CommandOutput { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs a script in the other machine. `stdout` contains its standard output and standard error.
///
/// # Panics
/// If that machine does not execute the script in time.
pub fn there(script: &str) -> CommandOutput {
    let n = NEXT.fetch_add(1, Ordering::SeqCst);
    let file = |name: &str| Path::new("/lab-out").join(format!("{name}.{n}"));
    fs::write(file("new"), script).unwrap();
    fs::rename(file("new"), file("todo")).unwrap();
    wait_until("the other machine has executed the script", || file("done").exists());
    let read = |name| fs::read_to_string(file(name)).unwrap();
    CommandOutput { code: read("done").trim().parse().ok(), stdout: read("out"), stderr: String::new() }
}
