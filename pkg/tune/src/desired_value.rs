//! The desired values of a node's settings, derived from a profile.

use std::{fs, path::Path};

use crate::{Setting, TuneProfile};

/// The systemd services of container runtimes.
const RUNTIMES: [&str; 7] = ["containerd", "crio", "docker", "k3s", "k3s-agent", "rke2-server", "rke2-agent"];

/// The desired value of a setting.
pub(crate) enum DesiredValue {
    Exactly(String),
    /// Replace the first value by the second; other values are accepted.
    InsteadOf(&'static str, &'static str),
    AtLeast(u64),
}

impl DesiredValue {
    pub(crate) fn is_met(&self, value: &str) -> bool {
        match self {
            Self::Exactly(wanted) => wanted == value,
            Self::InsteadOf(unwanted, _) => *unwanted != value,
            Self::AtLeast(least) => value.parse().is_ok_and(|value: u64| value >= *least),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Exactly(wanted) => wanted.clone(),
            Self::InsteadOf(_, wanted) => (*wanted).to_owned(),
            Self::AtLeast(least) => least.to_string(),
        }
    }
}

/// Returns the settings of a profile with their desired values, for the node whose root directory is `root`.
pub(crate) fn of(profile: &TuneProfile, root: &Path) -> Vec<(Setting, DesiredValue)> {
    let node = Tunables { root };
    let sysctl = |name: &str, wanted| (Setting::Sysctl { name: name.into() }, wanted);
    let mut all = Vec::new();
    if profile.numa_balancing_off {
        all.push(sysctl("kernel.numa_balancing", DesiredValue::Exactly("0".into())));
    }
    for family in ["ipv4", "ipv6"] {
        // The kernel starts garbage collection at gc_thresh1 and refuses new entries at gc_thresh3.
        for (number, parts) in [(1, 4), (2, 2), (3, 1)] {
            let name = format!("net.{family}.neigh.default.gc_thresh{number}");
            all.push(sysctl(&name, DesiredValue::AtLeast(u64::from(profile.neighbours / parts))));
        }
    }
    if profile.multi_rail {
        all.push(sysctl("net.ipv4.conf.all.arp_ignore", DesiredValue::AtLeast(1)));
        all.push(sysctl("net.ipv4.conf.all.arp_announce", DesiredValue::AtLeast(2)));
        // 0 (no filtering) is accepted too.
        all.push(sysctl("net.ipv4.conf.all.rp_filter", DesiredValue::InsteadOf("1", "2")));
    }
    if !profile.governor.is_empty() {
        let of = |cpu| (Setting::Governor { cpu }, DesiredValue::Exactly(profile.governor.clone()));
        all.extend(node.cpus().into_iter().map(of));
    }
    if let Some(tos) = profile.roce_tos {
        let of = |(device, port)| (Setting::RoceTos { device, port }, DesiredValue::Exactly(tos.to_string()));
        all.extend(node.ports().into_iter().map(of));
    }
    if profile.memlock {
        let installed = RUNTIMES.into_iter().filter(|service| node.has_service(service));
        all.extend(installed.map(|service| {
            (Setting::Memlock { service: service.into() }, DesiredValue::Exactly("infinity".into()))
        }));
    }
    all
}

/// The tunable objects of a node.
struct Tunables<'a> {
    root: &'a Path,
}

impl Tunables<'_> {
    fn cpus(&self) -> Vec<u32> {
        let number = |name: String| name.strip_prefix("cpu")?.parse().ok();
        let mut cpus: Vec<u32> =
            self.names("sys/devices/system/cpu").into_iter().filter_map(number).collect();
        let dir = |cpu| self.root.join(format!("sys/devices/system/cpu/cpu{cpu}"));
        // An offline CPU has the directory cpufreq, but its files cannot be read. CPU 0 can lack the file `online`.
        let is_offline =
            |cpu| fs::read_to_string(dir(cpu).join("online")).is_ok_and(|online| online.trim() == "0");
        cpus.retain(|cpu| dir(*cpu).join("cpufreq").is_dir() && !is_offline(*cpu));
        cpus.sort_unstable();
        cpus
    }

    fn ports(&self) -> Vec<(String, u32)> {
        let mut all = Vec::new();
        for device in self.names("sys/class/infiniband") {
            let ports = self.names(&format!("sys/class/infiniband/{device}/ports"));
            all.extend(ports.iter().filter_map(|port| Some((device.clone(), port.parse().ok()?))));
        }
        all.sort_unstable();
        all
    }

    /// Whether the service is installed and its unit file does not already set `LimitMEMLOCK=infinity`.
    fn has_service(&self, service: &str) -> bool {
        let dirs = [
            "etc/systemd/system",
            "usr/lib/systemd/system",
            "lib/systemd/system",
            "usr/local/lib/systemd/system",
        ];
        let file = dirs.iter().map(|dir| self.root.join(dir).join(format!("{service}.service")));
        let text = file.into_iter().find_map(|path| fs::read_to_string(path).ok());
        text.is_some_and(|text| !text.lines().any(|line| line.trim() == "LimitMEMLOCK=infinity"))
    }

    fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(dir)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}
