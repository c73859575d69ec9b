//! The programs and processes that a command starts, as the kernel's trace events record them. strace would also record
//! them, but the command would take several times as long.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const EVENTS: [&str; 2] = ["sched/sched_process_exec", "task/task_newtask"];

/// `CLONE_THREAD` of `linux/sched.h`.
const THREAD: u64 = 0x10000;

/// A trace instance (`Documentation/trace/ftrace.rst`), for as long as this value lives.
#[derive(Debug)]
pub struct ProcessTrace {
    instance: PathBuf,
}

impl ProcessTrace {
    /// Creates an instance that records nothing yet.
    ///
    /// # Panics
    /// If the kernel has no tracefs or not these events.
    pub fn new() -> Self {
        let instance = PathBuf::from("/sys/kernel/debug/tracing/instances/silkrail-test");
        fs::create_dir(&instance).unwrap();
        let trace = Self { instance };
        trace.write("tracing_on", "0");
        trace.write("options/event-fork", "1");
        for event in EVENTS {
            trace.write(&format!("events/{event}/enable"), "1");
        }
        trace
    }

    fn write(&self, file: &str, value: &str) {
        let path = self.instance.join(file);
        fs::write(&path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Returns a command that records itself, from the execution of this program on.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let script = "echo $$ >\"$0/set_event_pid\"; echo 1 >\"$0/tracing_on\"; exec \"$@\"";
        command.args(["-ec", script]).arg(&self.instance);
        command.arg(program);
        command
    }

    /// Returns the executed programs, in order.
    ///
    /// # Panics
    /// If the trace cannot be read.
    pub fn programs(&self) -> Vec<String> {
        self.values("sched_process_exec:", "filename=").collect()
    }

    /// Returns the number of processes that were created: not threads, and not the first one.
    ///
    /// # Panics
    /// If the trace cannot be read.
    pub fn processes(&self) -> usize {
        let flags = self.values("task_newtask:", "clone_flags=");
        flags.filter(|flags| u64::from_str_radix(flags, 16).unwrap() & THREAD == 0).count()
    }

    fn values(&self, event: &'static str, key: &'static str) -> impl Iterator<Item = String> + use<> {
        let text = fs::read_to_string(self.instance.join("trace")).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| line.contains(event)).map(str::to_owned).collect();
        lines.into_iter().map(move |line| {
            let value = line.split(key).nth(1).unwrap_or_else(|| panic!("{key} is missing: {line}"));
            value.split(' ').next().unwrap().to_owned()
        })
    }
}

impl Default for ProcessTrace {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ProcessTrace {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.instance);
    }
}
