//! The offsets of 32-bit counters, which outlive the daemon: without them, the values would fall at each restart by the wraparounds
//! before it, and the next rate would be a spike.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{CounterHistory, PortKey, saved_port::SavedPort};

/// How often the raw values are saved if no offset has changed. A wraparound while the daemon does not run is recognized by them.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);
/// The mode of the file and its directory: counters are not secret, but only root writes them.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// The counters of all ports, as they are in the file.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SavedCounters {
    /// The counters of another boot started at zero.
    boot_id: String,
    ports: Vec<SavedPort>,
}

/// Gets the content of the file whenever it is to be replaced, if another process writes it. It must not wait.
#[derive(Clone)]
pub struct CounterSink(Arc<dyn Fn(Vec<u8>) + Send + Sync>);

impl CounterSink {
    /// Returns a sink that calls a function.
    pub fn new(send: impl Fn(Vec<u8>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }
}

impl fmt::Debug for CounterSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CounterSink")
    }
}

/// Replaces the file of the offsets, and creates its directory.
///
/// # Errors
/// Why it cannot be written, as a text.
pub fn save_counters(path: &Path, content: &[u8]) -> Result<(), String> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    statefile::make_dir(directory, DIRECTORY_MODE)
        .and_then(|()| statefile::replace(path, FILE_MODE, content))
        .map_err(|error| error.to_string())
}

/// The file of the offsets.
#[derive(Debug)]
pub(crate) struct CounterFile {
    path: PathBuf,
    sink: Option<CounterSink>,
    boot_id: String,
    /// The offsets at the last save, and its time.
    saved: Option<(u64, Instant)>,
    /// The error that was logged last, which is not logged again.
    error: Option<String>,
}

impl CounterFile {
    pub(crate) fn new(path: PathBuf, boot_id: String, sink: Option<CounterSink>) -> Self {
        Self { path, sink, boot_id, saved: None, error: None }
    }

    /// Reads the offsets of this boot into a history.
    pub(crate) fn restore(&mut self, history: &mut CounterHistory) {
        match self.read() {
            Ok(saved) => history.saved = saved,
            Err(why) => {
                self.log(format!("the counters continue without those of the former silkraild: {why}"))
            }
        }
    }

    fn read(&self) -> Result<HashMap<PortKey, SavedPort>, String> {
        let Some(content) = statefile::read(&self.path).map_err(|error| error.to_string())? else {
            return Ok(HashMap::new());
        };
        let saved: SavedCounters =
            serde_json::from_slice(&content).map_err(|error| format!("{}: {error}", self.path.display()))?;
        if saved.boot_id != self.boot_id {
            return Ok(HashMap::new());
        }
        Ok(saved.ports.into_iter().map(|port| ((port.index, port.port), port)).collect())
    }

    /// Saves the offsets if one has changed, or if they were saved long ago. At whatever time the daemon ends, the pairs in the file are
    /// consistent: a wraparound that is not in it is recognized again.
    pub(crate) fn save(&mut self, history: &CounterHistory) {
        let changes = history.changes();
        let is_recent = |(saved, at): &(u64, Instant)| *saved == changes && at.elapsed() < SAVE_INTERVAL;
        if self.saved.as_ref().is_some_and(is_recent) {
            return;
        }
        let ports = history.to_save();
        // A node without RDMA.
        if ports.is_empty() && self.saved.is_none() {
            return;
        }
        let content = SavedCounters { boot_id: self.boot_id.clone(), ports };
        match self.write(&content) {
            Ok(()) => (self.saved, self.error) = (Some((changes, Instant::now())), None),
            Err(why) => {
                self.log(format!("the offsets of 32-bit counters are lost at the next restart: {why}"))
            }
        }
    }

    fn write(&self, content: &SavedCounters) -> Result<(), String> {
        let text = serde_json::to_vec(content).map_err(|error| error.to_string())?;
        match &self.sink {
            Some(sink) => (sink.0)(text),
            None => save_counters(&self.path, &text)?,
        }
        Ok(())
    }

    fn log(&mut self, what: String) {
        if self.error.as_ref() != Some(&what) {
            tracing::warn!("{what}");
            self.error = Some(what);
        }
    }
}

impl CounterHistory {
    /// Returns the offsets of a port that the former daemon saved, once.
    pub(super) fn take_saved(&mut self, port: PortKey, device: &str) -> Option<SavedPort> {
        self.saved.remove(&port).filter(|saved| saved.device == device)
    }

    /// Returns a number that changes with each offset and each reset.
    fn changes(&self) -> u64 {
        self.ports.values().map(|port| port.changes).fold(self.ports.len() as u64, u64::wrapping_add)
    }

    fn to_save(&self) -> Vec<SavedPort> {
        let port = |((index, port), history): (&PortKey, &super::PortHistory)| SavedPort {
            index: *index,
            port: *port,
            device: history.device.clone(),
            resets: history.resets,
            counters: history.wrapping_counters(),
        };
        let mut ports: Vec<SavedPort> = self.ports.iter().map(port).collect();
        // Those that were not read yet: a device may hang.
        ports.extend(self.saved.values().cloned());
        ports.sort_unstable_by_key(|port| (port.index, port.port));
        ports
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::HistoryTest;
    use super::*;

    fn file(dir: &Path) -> CounterFile {
        CounterFile::new(dir.join("silkraild/counters.json"), "this-boot".into(), None)
    }

    fn restarted(dir: &Path) -> HistoryTest {
        let mut test = HistoryTest::new();
        file(dir).restore(&mut test.history);
        test
    }

    #[test]
    fn a_counter_continues_after_a_restart_and_after_a_wrap_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let mut test = HistoryTest::new();
        test.enter(None, 4_294_967_290, 0);
        assert_eq!(test.enter(None, 4, 0), 4_294_967_300);
        file(dir.path()).save(&test.history);
        let mut second = restarted(dir.path());
        assert_eq!(second.enter(None, 9, 0), 4_294_967_305, "without a spike");
        second.enter(None, 3_000_000_000, 0);
        file(dir.path()).save(&second.history);
        let mut third = restarted(dir.path());
        assert_eq!(third.enter(None, 5, 0), 2 * (1 << 32) + 5, "it wrapped while no daemon ran");
    }

    #[test]
    fn a_wrap_is_saved_at_once_and_other_values_after_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let (mut test, mut file) = (HistoryTest::new(), file(dir.path()));
        test.enter(None, 4_294_967_290, 0);
        file.save(&test.history);
        test.enter(None, 4, 0);
        file.save(&test.history);
        assert_eq!(restarted(dir.path()).enter(None, 4_294_967_295, 0), (1 << 33) - 1);
        let content = || fs::read(dir.path().join("silkraild/counters.json")).unwrap();
        let before = content();
        test.enter(None, 2_000_000_000, 0);
        file.save(&test.history);
        assert_eq!(content(), before);
        let saved = file.saved.as_mut().unwrap();
        saved.1 = saved.1.checked_sub(SAVE_INTERVAL).unwrap();
        file.save(&test.history);
        assert_ne!(content(), before);
    }

    #[test]
    fn every_save_may_be_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let raw = [4_294_967_290_u64, 4, 2_200_000_000, 4_294_967_295, 0, 1];
        let exposed = [
            4_294_967_290_u64,
            (1 << 32) + 4,
            (1 << 32) + 2_200_000_000,
            (1 << 33) - 1,
            1 << 33,
            (1 << 33) + 1,
        ];
        // The daemon is killed after each reading, before it has saved the offsets, or after.
        for saved_at in 0..raw.len() {
            let _ = fs::remove_dir_all(dir.path().join("silkraild"));
            let mut test = HistoryTest::new();
            for value in &raw[..=saved_at] {
                test.enter(None, *value, 0);
            }
            file(dir.path()).save(&test.history);
            for at in saved_at..(saved_at + 2).min(raw.len()) {
                let mut killed = restarted(dir.path());
                assert_eq!(
                    killed.enter(None, raw[at], 0),
                    exposed[at],
                    "saved at {saved_at}, killed at {at}"
                );
            }
        }
    }

    #[test]
    fn a_reset_is_counted_once_for_the_port_and_survives_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut test = HistoryTest::new();
        test.enter_with(None, &[("out_of_sequence", 100), ("packet_seq_err", 200)], 0);
        test.enter_with(None, &[("out_of_sequence", 1), ("packet_seq_err", 2)], 0);
        assert_eq!(test.resets(), 1);
        file(dir.path()).save(&test.history);
        let mut second = restarted(dir.path());
        second.enter_with(None, &[("out_of_sequence", 3), ("packet_seq_err", 4)], 0);
        assert_eq!(second.resets(), 1);
        // The driver was loaded again while no daemon ran.
        let mut third = restarted(dir.path());
        assert_eq!(third.enter_with(None, &[("out_of_sequence", 0), ("packet_seq_err", 0)], 0), 0);
        assert_eq!(third.resets(), 2);
    }

    #[test]
    fn a_port_that_was_not_read_yet_keeps_its_offset_and_a_node_without_ports_has_no_file() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path()).save(&HistoryTest::new().history);
        assert!(!dir.path().join("silkraild").exists());
        let mut test = HistoryTest::new();
        test.enter(None, 4_294_967_290, 0);
        test.enter(None, 4, 0);
        file(dir.path()).save(&test.history);
        // Its device hangs while two daemons read another one.
        for _ in 0..2 {
            let mut other = restarted(dir.path());
            other.port = (8, 1);
            other.enter(None, 5, 0);
            file(dir.path()).save(&other.history);
        }
        assert_eq!(restarted(dir.path()).enter(None, 9, 0), (1 << 32) + 9);
    }

    #[test]
    fn another_process_can_write_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, sent) = std::sync::mpsc::channel();
        let sink = CounterSink::new(move |text| sender.send(text).unwrap());
        let path = dir.path().join("silkraild/counters.json");
        let mut test = HistoryTest::new();
        test.enter(None, 4_294_967_290, 0);
        test.enter(None, 4, 0);
        CounterFile::new(path.clone(), "this-boot".into(), Some(sink)).save(&test.history);
        assert!(!path.exists());
        save_counters(&path, &sent.recv().unwrap()).unwrap();
        assert_eq!(restarted(dir.path()).enter(None, 9, 0), (1 << 32) + 9);
    }

    #[test]
    fn a_failed_save_is_tried_again_and_all_ports_that_are_gone_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (mut test, mut file) = (HistoryTest::new(), file(dir.path()));
        test.enter(None, 1, 0);
        fs::write(dir.path().join("silkraild"), "not a directory").unwrap();
        file.save(&test.history);
        assert!(file.error.is_some() && file.saved.is_none());
        fs::remove_file(dir.path().join("silkraild")).unwrap();
        file.save(&test.history);
        assert!(file.error.is_none() && file.saved.is_some());
        let ports = |dir: &Path| {
            CounterFile::new(dir.join("silkraild/counters.json"), "this-boot".into(), None).read()
        };
        assert_eq!(ports(dir.path()).unwrap().len(), 1);
        test.history.forget(|_| true);
        test.history.forget(|_| true);
        file.save(&test.history);
        assert!(ports(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn another_boot_another_device_and_a_damaged_file_start_at_0() {
        let dir = tempfile::tempdir().unwrap();
        let mut test = HistoryTest::new();
        test.enter(None, 4_294_967_290, 0);
        test.enter(None, 4, 0);
        file(dir.path()).save(&test.history);
        let mut other = HistoryTest::new();
        CounterFile::new(dir.path().join("silkraild/counters.json"), "next-boot".into(), None)
            .restore(&mut other.history);
        assert_eq!(other.enter(None, 9, 0), 9);
        let mut other = HistoryTest { device: "0000:b0:00.0".into(), ..restarted(dir.path()) };
        assert_eq!(other.enter(None, 9, 0), 9);
        for damaged in ["", "{", "[]", "{\"bootId\": \"this-boot\", \"ports\": [{}]}"] {
            fs::write(dir.path().join("silkraild/counters.json"), damaged).unwrap();
            assert_eq!(restarted(dir.path()).enter(None, 9, 0), 9, "{damaged}");
        }
    }
}
