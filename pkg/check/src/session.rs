//! One end's part of a test: its port, its program, its counters.

use std::{
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

use sysfs::Sysfs;

use crate::{
    Error, Interrupt, Test, Wanted, counters, node,
    perftest::{Arguments, Launcher, Output, Program, Role, Running, free_port, is_listening},
    record::End,
    select::{Selected, select},
};

/// How often a program is looked at.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// How much longer than its test a program may take: it registers memory and connects queue pairs first.
pub(crate) const SLACK: Duration = Duration::from_secs(30);

/// How long a server may take until it listens.
const LISTENING: Duration = Duration::from_secs(15);

/// The port that perftest's manual names; the first of those that are tried.
pub const FIRST_PORT: u16 = 18515;

/// How many are tried.
pub const PORTS: u16 = 16;

/// What every test of this node needs.
#[derive(Debug)]
pub struct Node {
    /// How programs are started.
    pub launcher: Launcher,
    /// Where devices are described.
    pub sysfs: Sysfs,
    /// Whether this process is to end.
    pub interrupt: Interrupt,
}

impl Node {
    /// The port for a test with `peer`, of which we know by a connection to our address `local`.
    pub(crate) fn select(
        &self,
        wanted: &Wanted,
        peer: Option<IpAddr>,
        local: Option<IpAddr>,
    ) -> Result<Selected, Error> {
        select(&node::ports(&self.sysfs)?, wanted, peer, local)
    }
}

/// A port of this node that is part of a test, with its counters before it.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    node: &'a Node,
    program: Program<'a>,
    test: &'a Test,
    selected: &'a Selected,
    version: Option<String>,
    before: counters::Counters,
}

impl<'a> Session<'a> {
    pub(crate) fn new(node: &'a Node, program: Program<'a>, test: &'a Test, selected: &'a Selected) -> Self {
        let version = program.version();
        Self { version, before: counters::read(&node.sysfs, selected), node, program, test, selected }
    }

    /// This end, with what its counters have counted by now.
    pub(crate) fn end(&self) -> End {
        let after = counters::read(&self.node.sysfs, self.selected);
        let end = End::of(self.selected, self.version.clone());
        End { counters: counters::growth(&self.before, &after), ..end }
    }

    /// Starts perftest's server on a free port, and returns when it listens.
    pub(crate) fn serve(&self, first_port: u16) -> Result<(Running, u16), Error> {
        let mut next = first_port;
        loop {
            let left = (first_port.saturating_add(PORTS)).saturating_sub(next);
            let port = free_port(next, left).ok_or_else(|| Error::NoPort {
                why: format!("all TCP ports from {first_port} on, {PORTS} of them, are taken"),
            })?;
            let mut running = self.start(Role::Server, port, false)?;
            if self.listens(&mut running, port)? {
                return Ok((running, port));
            }
            let output = running.end()?;
            // Somebody was faster.
            if !is_listening(port) {
                return Err(output.failure());
            }
            next = port.saturating_add(1);
        }
    }

    /// Whether the server listens, or has ended instead.
    fn listens(&self, running: &mut Running, port: u16) -> Result<bool, Error> {
        let deadline = Instant::now() + LISTENING;
        loop {
            self.node.interrupt.check()?;
            if running.has_ended()? {
                return Ok(false);
            }
            if is_listening(port) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                let what = format!("{}, until it listens,", self.program.name());
                return Err(Error::TimedOut { what, seconds: LISTENING.as_secs() });
            }
            thread::sleep(TICK);
        }
    }

    /// Runs perftest's client to its end.
    pub(crate) fn run(&self, server: IpAddr, port: u16) -> Result<Output, Error> {
        let output = self.run_with(server, port, true)?;
        if output.has_no_report() { self.run_with(server, port, false) } else { Ok(output) }
    }

    fn run_with(&self, server: IpAddr, port: u16, report: bool) -> Result<Output, Error> {
        let mut running = self.start(Role::Client(server), port, report)?;
        let limit = Duration::from_secs(self.test.duration.get().into()) + SLACK;
        let deadline = Instant::now() + limit;
        while !running.has_ended()? {
            self.node.interrupt.check()?;
            if Instant::now() >= deadline {
                let said = running.end()?.said();
                let what = format!("{} ({said})", self.program.name());
                return Err(Error::TimedOut { what, seconds: limit.as_secs() });
            }
            thread::sleep(TICK);
        }
        running.end()
    }

    fn start(&self, role: Role, tcp_port: u16, report: bool) -> Result<Running, Error> {
        let gid = self.selected.gid.as_ref().map(|gid| gid.entry.index);
        self.program.start(&Arguments {
            test: self.test,
            device: &self.selected.device,
            port: self.selected.port,
            gid_index: gid.and_then(|index| index.try_into().ok()),
            tcp_port,
            role,
            report,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use rdma::{LinkLayer, PortState};

    use super::*;
    use crate::{Kind, Operation, node::Port};

    #[test]
    fn a_perftest_without_a_report_is_run_for_its_table() {
        let dir = tempfile::tempdir().unwrap();
        let fake = dir.path().join("ib_write_bw");
        let script = "#!/bin/sh
            case \"$*\" in *out_json*) echo \"$0: unrecognized option '--out_json'\" >&2; exit 1 ;; esac
            echo table\n";
        fs::write(&fake, script).unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
        let node = Node {
            launcher: Launcher { path: dir.path().into(), wrapper: Vec::new() },
            sysfs: Sysfs::at(dir.path()),
            interrupt: Interrupt::never(),
        };
        let test = Test {
            kind: Kind::Bandwidth,
            operation: Operation::Write,
            size: 8u64.try_into().unwrap(),
            queue_pairs: 1u64.try_into().unwrap(),
            duration: 1u64.try_into().unwrap(),
        };
        let facts = Port {
            device: "mlx5_0".into(),
            number: 1,
            state: PortState::Active,
            layer: LinkLayer::InfiniBand,
            link: None,
            speed_mbps: None,
            mtu: None,
            gids: Vec::new(),
        };
        let device = "mlx5_0".parse().unwrap();
        let selected = Selected { device, port: 1u64.try_into().unwrap(), gid: None, facts };
        let program = node.launcher.find(test.kind, test.operation).unwrap();
        let output = Session::new(&node, program, &test, &selected).run([127, 0, 0, 1].into(), 1).unwrap();
        assert_eq!((output.is_success(), output.printed.as_str()), (true, "table\n"));
    }
}
