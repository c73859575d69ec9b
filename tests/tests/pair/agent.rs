//! An agent in the other machine, and what runs there and here.

use silkrail_tests::{
    cli::{self, CommandOutput},
    pair::{self, MachinePair, THERE},
};
use testkit::wait_until;

/// Where both machines have the token.
pub(crate) const TOKEN: &str = "/run/check.token";

/// An agent of the other machine, while a test has both machines.
#[derive(Debug)]
pub(crate) struct RemoteAgent {
    _pair: MachinePair,
}

impl RemoteAgent {
    /// With a token, and nothing else said: that of an earlier test, if it still runs.
    pub(crate) fn start() -> Self {
        let pair = MachinePair::new();
        if pair::there("[ ! -e /run/agent.odd ] && kill -0 $(cat /run/agent.pid)").code != Some(0) {
            start("");
        }
        Self { _pair: pair }
    }

    /// With variables of the environment, for this test only.
    pub(crate) fn odd(environment: &str) -> Self {
        let pair = MachinePair::new();
        start(environment);
        pair::there("touch /run/agent.odd").ended(0);
        Self { _pair: pair }
    }

    /// What it said.
    pub(crate) fn log(&self) -> String {
        pair::there("cat /run/agent.log").stdout
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn end(&self) -> CommandOutput {
        pair::there(
            "kill $(cat /run/agent.pid); for i in $(seq 50); do
            kill -0 $(cat /run/agent.pid) 2>/dev/null || exit 0; sleep 0.05; done; exit 1",
        )
    }
}

/// In the other machine, in place of one that is there.
fn start(environment: &str) {
    let token = format!("umask 077; echo 0123456789abcdef0123456789abcdef >{TOKEN}");
    pair::here(&token).ended(0);
    let serve = format!("check serve --listen {THERE}:18514 --token-file {TOKEN}");
    let start = format!(
        "{token}
        kill -9 $(cat /run/agent.pid 2>/dev/null) 2>/dev/null
        rm -f /run/agent.odd
        setsid {environment} {} {serve} >/run/agent.log 2>&1 & echo $! >/run/agent.pid
        for i in $(seq 50); do grep -q listening /run/agent.log && exit; sleep 0.05; done
        cat /run/agent.log; exit 1",
        cli::executable().display()
    );
    pair::there(&start).ended(0);
}

/// `silkrail check` with arguments, and the token.
pub(crate) fn check(arguments: &str) -> CommandOutput {
    cli::silkrail(&format!("check {arguments} --token-file {TOKEN}"))
}

/// The processes of perftest in both machines, here and there.
pub(crate) fn perftests() -> [String; 2] {
    let list = "cat /proc/[0-9]*/comm 2>/dev/null | grep -E '^ib_(read|write|send)_(bw|lat)$'; true";
    [pair::here(list).stdout, pair::there(list).stdout]
}

/// That soon none is left.
pub(crate) fn no_perftest_is_left() {
    wait_until("no process of perftest is left", || perftests() == [const { String::new() }; 2]);
}
