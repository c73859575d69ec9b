//! The results, as text and as JSON.

use std::{
    collections::BTreeMap, error::Error, fmt, fs, os::unix::fs::MetadataExt, path::Path, time::Duration,
};

use bench::race::{CallTimes, Durations};
use serde_json::{Map, Value, json};

/// Limits of `hack/bench --check`: the maximum ratio of an ADD to the floor's, and the minimum ratio of Go's to ours.
const AT_MOST_FLOORS: f64 = 1.5;
const AT_LEAST_FASTER_THAN_GO: f64 = 4.5;
/// The maximum ratio of a DEL to the floor's. Most of a DEL is a wait in the kernel, which is shorter if it starts later, as
/// with Go's slower start. It is therefore compared with the floor, which starts equally early.
const AT_MOST_DEL_FLOORS: f64 = 1.1;
/// The maximum ratio of an ADD on a node with many addresses and links to one with few.
const AT_MOST_IN_A_CROWD: f64 = 1.1;
/// The goal is 1.1. `stat` of each file, which is needed to detect changes, costs more on a busy machine.
const AT_MOST_OF_POOL_FILES: f64 = 1.25;

/// All results of a run.
pub(crate) struct BenchReport {
    rounds: usize,
    calls: Vec<CallPercentiles>,
    syscalls: Vec<(String, usize)>,
    crowd: Vec<CallPercentiles>,
    ipam: Vec<FillLevelTimes>,
    /// An ADD of macvlan with 1 pool file and with 200, in microseconds.
    pools: [f64; 2],
    size: u64,
    size_of_go: u64,
}

/// The results of a program in microseconds: median and 95th percentile.
struct CallPercentiles {
    name: String,
    add: [f64; 2],
    del: [f64; 2],
}

/// An IPAM plugin's ADD with few and with many addresses in use, median in microseconds.
struct FillLevelTimes {
    name: &'static str,
    few: f64,
    many: f64,
}

impl BenchReport {
    pub(crate) fn new(rounds: usize) -> Self {
        let (calls, syscalls, crowd, ipam) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { rounds, calls, syscalls, crowd, ipam, pools: [f64::NAN; 2], size: 0, size_of_go: 0 }
    }

    /// Adds the results of the macvlan plugins.
    pub(crate) fn macvlan(&mut self, times: &[CallTimes]) {
        self.calls = times.iter().map(CallPercentiles::of).collect();
    }

    /// Adds the results on a node with few addresses and links, and on one with many.
    pub(crate) fn crowd(&mut self, times: &[CallTimes]) {
        self.crowd = times.iter().map(CallPercentiles::of).collect();
    }

    /// Adds the number of system calls of an ADD.
    pub(crate) fn syscalls(&mut self, name: &str, count: usize) {
        self.syscalls.push((name.to_owned(), count));
    }

    /// Adds the results of an IPAM plugin with few and many addresses in use.
    pub(crate) fn ipam(&mut self, name: &'static str, times: &[CallTimes]) {
        if let [few, many] = times {
            self.ipam.push(FillLevelTimes { name, few: us(few.add.median()), many: us(many.add.median()) });
        }
    }

    /// Adds the results of our macvlan with 1 pool file and with 200.
    pub(crate) fn pool_files(&mut self, times: &[CallTimes]) {
        if let [one, many] = times {
            self.pools = [one, many].map(|times| us(times.add.median()));
        }
    }

    /// Reads the sizes of all our plugins, and of the equivalent Go plugins, in bytes.
    pub(crate) fn sizes(&mut self, ours: &Path) -> Result<(), Box<dyn Error>> {
        let mut files = BTreeMap::new(); // hard links count once
        for file in fs::read_dir(ours)? {
            let meta = file?.metadata()?;
            files.insert(meta.ino(), meta.len());
        }
        self.size = files.values().sum();
        for name in ["macvlan", "ipvlan", "host-local"] {
            self.size_of_go += fs::metadata(Path::new("/usr/lib/cni").join(name))?.len();
        }
        Ok(())
    }

    /// Returns whether all limits hold. Only ratios within one run are compared, never absolute times.
    pub(crate) fn holds(&self) -> bool {
        self.floors() <= AT_MOST_FLOORS
            && self.faster_than_go() >= AT_LEAST_FASTER_THAN_GO
            && self.del_floors() <= AT_MOST_DEL_FLOORS
            && self.of_pool_files() <= AT_MOST_OF_POOL_FILES
            && self.crowded() <= AT_MOST_IN_A_CROWD
    }

    fn crowded(&self) -> f64 {
        let adds: Vec<f64> = self.crowd.iter().map(|calls| calls.add[0]).collect();
        if let [few, many] = adds[..] { many / few } else { f64::NAN }
    }

    fn floors(&self) -> f64 {
        self.median("silkrail") / self.median("floor")
    }

    fn of_pool_files(&self) -> f64 {
        self.pools[1] / self.pools[0]
    }

    fn faster_than_go(&self) -> f64 {
        self.median("go") / self.median("silkrail")
    }

    fn del_floors(&self) -> f64 {
        let del = |name| self.of(name, |calls| calls.del[0]);
        del("silkrail") / del("floor")
    }

    /// Returns the median of the ADDs in microseconds.
    fn median(&self, name: &str) -> f64 {
        self.of(name, |calls| calls.add[0])
    }

    fn of(&self, name: &str, what: impl Fn(&CallPercentiles) -> f64) -> f64 {
        self.calls.iter().find(|calls| calls.name == name).map_or(f64::NAN, what)
    }

    pub(crate) fn json(&self) -> Value {
        let object = |entries: Vec<(&str, Value)>| -> Map<String, Value> {
            entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        let pair = |[median, p95]: [f64; 2]| json!({"median_us": median, "p95_us": p95});
        let calls = self.calls.iter();
        let calls =
            calls.map(|c| (c.name.as_str(), json!({"add": pair(c.add), "del": pair(c.del)}))).collect();
        let crowd = self.crowd.iter();
        let crowd =
            crowd.map(|c| (c.name.as_str(), json!({"add": pair(c.add), "del": pair(c.del)}))).collect();
        let syscalls = self.syscalls.iter().map(|(name, count)| (name.as_str(), json!(count))).collect();
        let growth = |g: &FillLevelTimes| json!({"add_us_at_10": g.few, "add_us_at_100000": g.many, "ratio": g.many / g.few});
        let ipam = self.ipam.iter().map(|g| (g.name, growth(g))).collect();
        json!({
            "rounds": self.rounds,
            "macvlan": object(calls),
            "ratios": {"silkrail/floor": self.floors(), "go/silkrail": self.faster_than_go(), "silkrail/floor, DEL": self.del_floors()},
            "pool_files": {"add_us_at_1": self.pools[0], "add_us_at_200": self.pools[1], "ratio": self.of_pool_files()},
            "syscalls": object(syscalls),
            "nodes": object(crowd),
            "ipam": object(ipam),
            "bytes": {"silkrail": self.size, "go": self.size_of_go},
        })
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "macvlan with IPAM, whole process, {} rounds, ms", self.rounds)?;
        writeln!(
            f,
            "  {:<20}{:>10}{:>8}{:>10}{:>8}{:>12}",
            "", "ADD p50", "p95", "DEL p50", "p95", "syscalls"
        )?;
        for (CallPercentiles { name, add, del }, (_, syscalls)) in self.calls.iter().zip(&self.syscalls) {
            write!(f, "  {name:<20}{:>10.2}{:>8.2}", add[0] / 1e3, add[1] / 1e3)?;
            writeln!(f, "{:>10.2}{:>8.2}{syscalls:>12}", del[0] / 1e3, del[1] / 1e3)?;
        }
        writeln!(f, "  silkrail / floor    {:.2} (at most {AT_MOST_FLOORS})", self.floors())?;
        writeln!(
            f,
            "  go / silkrail       {:.2} (at least {AT_LEAST_FASTER_THAN_GO})",
            self.faster_than_go()
        )?;
        writeln!(f, "  DEL, silk. / floor  {:.2} (at most {AT_MOST_DEL_FLOORS})", self.del_floors())?;
        let [one, many] = self.pools.map(|add| add / 1e3);
        writeln!(
            f,
            "  200 pool files      {many:.2} ms, 1 file {one:.2} ms: {:.2} (at most {AT_MOST_OF_POOL_FILES})",
            self.of_pool_files()
        )?;
        writeln!(f, "silkrail on nodes of different sizes, ms")?;
        for CallPercentiles { name, add, del } in &self.crowd {
            write!(f, "  {name:<28}{:>10.2}{:>8.2}", add[0] / 1e3, add[1] / 1e3)?;
            writeln!(f, "{:>10.2}{:>8.2}", del[0] / 1e3, del[1] / 1e3)?;
        }
        writeln!(f, "  ADD, many / few      {:.2} (at most {AT_MOST_IN_A_CROWD})", self.crowded())?;
        writeln!(f, "IPAM ADD, whole process, ms")?;
        writeln!(f, "  {:<14}{:>10}{:>14}{:>8}", "addresses used", "10", "100,000", "ratio")?;
        for FillLevelTimes { name, few, many } in &self.ipam {
            writeln!(f, "  {name:<15}{:>10.2}{:>14.2}{:>8.2}", few / 1e3, many / 1e3, many / few)?;
        }
        writeln!(f, "bytes on disk")?;
        writeln!(f, "  silkrail {} (all plugins)", self.size)?;
        writeln!(f, "  go       {} (macvlan, ipvlan, host-local)", self.size_of_go)
    }
}

impl CallPercentiles {
    fn of(times: &CallTimes) -> Self {
        let two = |sample: &Durations| [us(sample.median()), us(sample.p95())];
        Self { name: times.name.clone(), add: two(&times.add), del: two(&times.del) }
    }
}

fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
