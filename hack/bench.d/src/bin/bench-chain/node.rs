//! The node of the measurement: a VF, a pod's namespace, and the additional objects of a crowded node.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::BenchResult;

/// Directory for temporary files, on the tmpfs at `/run`.
pub(crate) const SCRATCH: &str = "/run/silkrail-bench";
pub(crate) const PF: &str = "eth0";
/// Numbers of additional objects on a crowded node.
pub(crate) const ADDRESSES: u32 = 5_000;
pub(crate) const LINKS: u32 = 500;
/// Additional RDMA devices, on the other PF and two of its VFs.
const TWINS: [(&str, &str); 3] = [
    ("/sys/class/net/eth1/device", "31"),
    ("/sys/class/net/eth1/device/virtfn0", "31"),
    ("/sys/class/net/eth1/device/virtfn1", "2"),
];

/// The VF that is attached, with its state on the host.
#[derive(Clone)]
pub(crate) struct BenchVf {
    pub(crate) pci: String,
    pub(crate) link: String,
    pub(crate) mac: String,
    pub(crate) rdma: String,
    pub(crate) rdma_index: String,
}

impl BenchVf {
    /// Reads the first VF of the first PF.
    pub(crate) fn find() -> BenchResult<Self> {
        let dir = PathBuf::from(format!("/sys/class/net/{PF}/device/virtfn0"));
        let only = |below: &str| -> BenchResult<String> {
            let entry = fs::read_dir(dir.join(below))?.next().ok_or(format!("the VF has no {below}"))??;
            Ok(entry.file_name().display().to_string())
        };
        let (link, rdma) = (only("net")?, only("infiniband")?);
        let mac = fs::read_to_string(format!("/sys/class/net/{link}/address"))?.trim().to_owned();
        let shown = Command::new("rdma").args(["-j", "dev", "show", &rdma]).output()?.stdout;
        let shown: Value = serde_json::from_slice(&shown)?;
        let pci = fs::canonicalize(&dir)?.file_name().unwrap_or_default().display().to_string();
        Ok(Self { pci, link, mac, rdma, rdma_index: shown[0]["ifindex"].to_string() })
    }

    pub(crate) fn places(&self) -> [PathBuf; 2] {
        [format!("/sys/class/net/{}", self.link), format!("/sys/class/infiniband/{}", self.rdma)]
            .map(PathBuf::from)
    }

    /// Returns an error unless both devices were moved into the pod.
    pub(crate) fn is_away(&self) -> BenchResult<()> {
        match self.places().into_iter().find(|place| place.exists()) {
            None => Ok(()),
            Some(place) => Err(format!("{} is still on the host", place.display()).into()),
        }
    }

    pub(crate) fn is_home(&self) -> BenchResult<()> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Some(place) = self.places().into_iter().find(|place| !place.exists()) {
            if Instant::now() > deadline {
                return Err(format!("{} did not return to the host", place.display()).into());
            }
            sleep(Duration::from_millis(5));
        }
        let mac = fs::read_to_string(self.places()[0].join("address"))?;
        if mac.trim() == self.mac {
            Ok(())
        } else {
            Err(format!("expected the MAC address {}, got {mac}", self.mac).into())
        }
    }
}

/// Copies a program to memory, since the guest reads its disk from the host through the emulator.
pub(crate) fn copy(program: &Path) -> BenchResult<PathBuf> {
    copy_to(program, "")
}

pub(crate) fn copy_to(program: &Path, dir: &str) -> BenchResult<PathBuf> {
    let dir = Path::new(SCRATCH).join(dir);
    fs::create_dir_all(&dir)?;
    let copy = dir.join(program.file_name().ok_or("missing program")?);
    let silkrail = dir.join("silkrail-ipam");
    fs::copy(program, &copy)?;
    // Hard links, as in /opt/cni/bin, so that the IPAM plugin needs no separate process.
    if !silkrail.exists() && program.with_file_name("silkrail-ipam").exists() {
        fs::hard_link(&copy, &silkrail)?;
    }
    Ok(copy)
}

pub(crate) fn tool(program: &str, arguments: &[&str]) -> BenchResult<()> {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{program} {arguments:?}: {status}").into()) }
}

/// Sets up a node with VFs in exclusive mode, and a pod's namespace.
pub(crate) fn make_node() -> BenchResult<BenchVf> {
    tool("rdma", &["system", "set", "netns", "exclusive"])?;
    tool("lab-vfs", &["7", "eth0", "eth1"])?;
    for pf in [PF, "eth1"] {
        tool("ip", &["link", "set", pf, "up"])?;
    }
    tool("ip", &["netns", "add", "pod"])?;
    sleep(Duration::from_secs(3)); // until the PF has a carrier
    BenchVf::find()
}

/// Adds other addresses, links and RDMA devices.
pub(crate) fn crowd() -> BenchResult<()> {
    let mut batch = String::from("link add crowd type dummy\n");
    for number in 0..ADDRESSES {
        writeln!(batch, "addr add 10.99.{}.{}/32 dev crowd", number / 250, number % 250 + 1)?;
    }
    for number in 0..LINKS {
        writeln!(batch, "link add crowd{number} type dummy")?;
    }
    let path = format!("{SCRATCH}/batch");
    fs::write(&path, batch)?;
    tool("ip", &["-batch", &path])?;
    for (function, twins) in TWINS {
        let pci = fs::canonicalize(function)?;
        let settings = Path::new("/sys/kernel/debug/rdmasim").join(pci.file_name().unwrap_or_default());
        fs::write(settings.join("twins"), twins)?;
    }
    sleep(Duration::from_secs(3)); // the devices are created in the background
    Ok(())
}
