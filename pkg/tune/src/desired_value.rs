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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the settings of a profile as `setting = value`.
    fn settings(profile: &TuneProfile, root: &Path) -> Vec<String> {
        of(profile, root).iter().map(|(setting, wanted)| format!("{setting} = {}", wanted.text())).collect()
    }

    #[test]
    fn each_key_of_a_profile_has_settings_for_all_objects_of_the_node() {
        let root = tempfile::tempdir().unwrap();
        for dir in [
            "sys/devices/system/cpu/cpu10/cpufreq",
            "sys/devices/system/cpu/cpu2/cpufreq",
            "sys/devices/system/cpu/cpu3",
            "sys/class/infiniband/mlx5_1/ports/1",
            "sys/class/infiniband/mlx5_0/ports/1",
            "sys/class/infiniband/mlx5_0/ports/2",
            "lib/systemd/system",
        ] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        for service in ["k3s-agent", "docker", "sshd"] {
            let unit = format!("lib/systemd/system/{service}.service");
            fs::write(root.path().join(unit), "[Service]\n").unwrap();
        }
        let none = TuneProfile {
            numa_balancing_off: false,
            neighbours: 1000,
            multi_rail: false,
            governor: String::new(),
            memlock: false,
            roce_tos: None,
        };
        let neighbours = [
            "net.ipv4.neigh.default.gc_thresh1 = 250",
            "net.ipv4.neigh.default.gc_thresh2 = 500",
            "net.ipv4.neigh.default.gc_thresh3 = 1000",
            "net.ipv6.neigh.default.gc_thresh1 = 250",
            "net.ipv6.neigh.default.gc_thresh2 = 500",
            "net.ipv6.neigh.default.gc_thresh3 = 1000",
        ];
        assert_eq!(settings(&none, root.path()), neighbours);
        let further = |profile: TuneProfile| settings(&profile, root.path())[neighbours.len()..].to_vec();
        let numa = TuneProfile { numa_balancing_off: true, ..none.clone() };
        assert_eq!(settings(&numa, root.path())[0], "kernel.numa_balancing = 0");
        assert_eq!(
            further(TuneProfile { multi_rail: true, ..none.clone() }),
            [
                "net.ipv4.conf.all.arp_ignore = 1",
                "net.ipv4.conf.all.arp_announce = 2",
                "net.ipv4.conf.all.rp_filter = 2"
            ]
        );
        assert_eq!(
            further(TuneProfile { governor: "powersave".into(), ..none.clone() }),
            ["governor of CPU 2 = powersave", "governor of CPU 10 = powersave"]
        );
        assert_eq!(
            further(TuneProfile { roce_tos: Some(0), ..none.clone() }),
            [
                "RoCE type of service of mlx5_0, port 1 = 0",
                "RoCE type of service of mlx5_0, port 2 = 0",
                "RoCE type of service of mlx5_1, port 1 = 0"
            ]
        );
        assert_eq!(
            further(TuneProfile { memlock: true, ..none }),
            ["LimitMEMLOCK of docker = infinity", "LimitMEMLOCK of k3s-agent = infinity"]
        );
    }

    #[test]
    fn a_value_that_is_as_good_as_the_desired_one_stays() {
        let (off, loose, least) =
            (DesiredValue::Exactly("0".into()), DesiredValue::InsteadOf("1", "2"), DesiredValue::AtLeast(10));
        for (wanted, met, not_met) in [
            (&off, &["0"][..], &["1", ""][..]),
            (&loose, &["0", "2"], &["1"]),
            (&least, &["10", "11"], &["9", "x"]),
        ] {
            assert!(met.iter().all(|value| wanted.is_met(value)), "{}", wanted.text());
            assert!(!not_met.iter().any(|value| wanted.is_met(value)), "{}", wanted.text());
        }
    }
}
