//! The simulated RDMA devices in the namespaces of pods.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use podmap::{AttachMode, Entry, PodMap};

use crate::{DEVICES, NAMESPACES, Result};

fn tool(program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{program} {arguments:?}: {status}").into()) }
}

/// Creates the devices.
pub(crate) fn create() -> Result<()> {
    tool("rdma", &["system", "set", "netns", "exclusive"])?;
    tool("lab-vfs", &["7", "eth0", "eth1"])?;
    set_all("twins", "15")?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while names()?.len() < DEVICES {
        if Instant::now() > deadline {
            return Err(format!("expected {DEVICES} devices, got {}", names()?.len()).into());
        }
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Writes a debugfs setting of every simulated device.
pub(crate) fn set_all(setting: &str, value: &str) -> Result<()> {
    for device in fs::read_dir("/sys/kernel/debug/rdmasim")? {
        let file = device?.path().join(setting);
        if file.exists() {
            fs::write(file, value)?;
        }
    }
    Ok(())
}

fn names() -> Result<Vec<String>> {
    let entries = fs::read_dir("/sys/class/infiniband")?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().display().to_string()).collect();
    names.sort();
    Ok(names)
}

/// Moves the devices into the pods, and writes a pod map entry for each pod, as the plugins do.
pub(crate) fn move_to_pods() -> Result<()> {
    let map = PodMap::below("/run/silkrail".as_ref());
    let boot_id = bootid::current()?;
    for (number, devices) in names()?.chunks(DEVICES / NAMESPACES).enumerate() {
        let name = format!("pod-{number}");
        tool("ip", &["netns", "add", &name])?;
        for device in devices {
            tool("rdma", &["dev", "set", device, "netns", &name])?;
        }
        let attachment = format!("c{number}@net1").parse()?;
        let mut entry = Entry::new("rdma", format!("c{number}@net1").parse()?);
        entry.boot_id = boot_id.into();
        entry.pod = Some(podmap::PodRef {
            namespace: "bench".into(),
            name: name.clone(),
            uid: Some(format!("00000000-0000-4000-8000-{number:012x}")),
        });
        entry.container.netns_path = PathBuf::from("/run/netns").join(&name);
        let meta = fs::metadata(&entry.container.netns_path)?;
        (entry.container.netns_dev, entry.container.netns_ino) = (meta.dev(), meta.ino());
        entry.rdma.mode = AttachMode::Exclusive;
        entry.rdma.ibdev = devices.first().cloned();
        map.write(&attachment, &entry)?;
    }
    Ok(())
}
