//! A `silkrail check` agent in the other machine, and the processes of both machines.

use silkrail_tests::{
    cli::{self, CommandOutput},
    pair::{self, MachinePair, THERE},
};
use testkit::wait_until;

/// The token file in both machines.
pub(crate) const TOKEN: &str = "/run/check.token";

/// A running agent in the other machine; the test holds both machines for as long as this value lives.
#[derive(Debug)]
pub(crate) struct RemoteAgent {
    _pair: MachinePair,
}

impl RemoteAgent {
    /// Starts an agent with a token and default options, or uses that of an earlier test if it still runs.
    pub(crate) fn start() -> Self {
        let pair = MachinePair::new();
        if pair::there("[ ! -e /run/agent.not-default ] && kill -0 $(cat /run/agent.pid)").code != Some(0) {
            start("");
        }
        Self { _pair: pair }
    }

    /// Starts an agent with a command prefix such as `env PATH=/nonexistent`, for this test only.
    pub(crate) fn start_with(prefix: &str) -> Self {
        let pair = MachinePair::new();
        start(prefix);
        pair::there("touch /run/agent.not-default").ended(0);
        Self { _pair: pair }
    }

    /// Returns the agent's log.
    pub(crate) fn log(&self) -> String {
        pair::there("cat /run/agent.log").stdout
    }

    /// Sends SIGTERM to the agent, and waits until it has exited.
    pub(crate) fn end(&self) -> CommandOutput {
        pair::there(
            "kill $(cat /run/agent.pid); for i in $(seq 1000); do
            kill -0 $(cat /run/agent.pid) 2>/dev/null || exit 0; sleep 0.05; done; exit 1",
        )
    }
}

/// Starts an agent in the other machine, after killing a running one.
fn start(prefix: &str) {
    let token = format!("umask 077; echo 0123456789abcdef0123456789abcdef >{TOKEN}");
    pair::here(&token).ended(0);
    let serve = format!("check serve --listen {THERE}:18514 --token-file {TOKEN}");
    let start = format!(
        "{token}
        kill -9 $(cat /run/agent.pid 2>/dev/null) 2>/dev/null
        rm -f /run/agent.not-default
        setsid {} {prefix} {} {serve} >/run/agent.log 2>&1 & echo $! >/run/agent.pid
        for i in $(seq 1000); do grep -q listening /run/agent.log && exit; sleep 0.05; done
        cat /run/agent.log; exit 1",
        IDLE.join(" "),
        cli::executable().display()
    );
    pair::there(&start).ended(0);
}

/// A prefix with which the kernel's work comes first: perftest polls, and the kernel's RoCE needs the machine's only CPU.
pub(crate) const IDLE: [&str; 3] = ["chrt", "--idle", "0"];

/// What perftest prints if it cannot measure the clock rate, because the emulator is busy. Then all its results are 0.
pub(crate) const UNKNOWN_CLOCK_RATE: &str = "Correlation coefficient";

/// Runs `silkrail check` with arguments and the token file, and once more if perftest could not measure the clock rate.
pub(crate) fn check(arguments: &str) -> CommandOutput {
    let run = || cli::silkrail_by(&IDLE, &format!("check {arguments} --token-file {TOKEN}"));
    let output = run();
    if ![&output.stdout, &output.stderr].iter().any(|text| text.contains(UNKNOWN_CLOCK_RATE)) {
        return output;
    }
    eprintln!("perftest could not measure the clock rate; once more: {output:?}");
    run()
}

/// Returns the names of the perftest processes in this machine and in the other one.
pub(crate) fn perftests() -> [String; 2] {
    let list = "cat /proc/[0-9]*/comm 2>/dev/null | grep -E '^ib_(read|write|send)_(bw|lat)$'; true";
    [pair::here(list).stdout, pair::there(list).stdout]
}

/// Waits until no perftest process is left in either machine.
pub(crate) fn no_perftest_is_left() {
    wait_until("no perftest process is left", || perftests() == [const { String::new() }; 2]);
}
