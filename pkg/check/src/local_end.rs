//! The local end of a test: its RDMA port, its perftest program and its counters.

use std::{
    net::Ipv4Addr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use sysfs::Sysfs;

use crate::{
    Error, Interrupt, PortSelector, TestSpec,
    candidate_port::{self, CandidatePort},
    perftest::{
        BIND, EndRole, GpuMemory, Launcher, PerftestArgs, PerftestProgram, ProgramOutput, REPORT,
        RunningProgram, is_listening,
    },
    port_counters,
    port_reservation::{PortReservations, ReservedPort, ReservedTcpPort, TCP_PORTS},
    port_selection::SelectedPort,
    protocol::MessageStream,
    test_result::TestEnd,
};

/// Interval at which a running program is polled.
pub(crate) const PROGRAM_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time that a program may take in addition to the test: it registers memory and connects queue pairs first.
pub(crate) const PROGRAM_GRACE: Duration = Duration::from_secs(30);

/// How long a client may go on after the agent has sent a message: that its server failed. The client's own error is usually more
/// specific, but a retransmission timeout can be longer than the test.
const CLIENT_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(15);

/// The default TCP port of perftest, and the first one that is tried.
pub const FIRST_PORT: u16 = 18515;

/// The environment of all tests on this node.
#[derive(Debug)]
pub struct LocalContext {
    /// Finds and starts programs.
    pub launcher: Launcher,
    /// The sysfs tree with the RDMA devices.
    pub sysfs: Sysfs,
    /// Whether this process was asked to exit.
    pub interrupt: Interrupt,
    /// The ports that tests of this process use.
    pub ports_in_use: Arc<PortReservations>,
}

impl LocalContext {
    /// Returns the ports from which a test selects its own.
    pub(crate) fn candidate_ports(&self, wanted: &PortSelector) -> Result<Vec<CandidatePort>, Error> {
        candidate_port::ports_of(&self.sysfs, wanted.device.as_ref())
    }

    /// Reserves the selected port for a test.
    pub(crate) fn reserve(&self, selected: &SelectedPort) -> Result<ReservedPort<'_>, Error> {
        self.ports_in_use.reserve(selected, &self.interrupt)
    }
}

/// The selected port of this node, with its counters before the test.
#[derive(Debug)]
pub(crate) struct LocalEnd<'a> {
    node: &'a LocalContext,
    program: PerftestProgram<'a>,
    test: &'a TestSpec,
    selected: &'a SelectedPort,
    version: Option<String>,
    gpu: Option<GpuMemory>,
    before: port_counters::PortCounters,
}

impl<'a> LocalEnd<'a> {
    pub(crate) fn new(
        node: &'a LocalContext,
        program: PerftestProgram<'a>,
        test: &'a TestSpec,
        selected: &'a SelectedPort,
    ) -> Result<Self, Error> {
        let version = program.version();
        let gpu = test.options.gpu.map(|gpu| program.gpu_memory(gpu)).transpose()?;
        let before = port_counters::read(&node.sysfs, selected);
        Ok(Self { version, gpu, before, node, program, test, selected })
    }

    /// Returns this end for the result, with the growth of its counters since the start.
    pub(crate) fn end(&self) -> TestEnd {
        let after = port_counters::read(&self.node.sysfs, self.selected);
        let end = TestEnd::of(self.selected, self.version.clone());
        TestEnd { counters: port_counters::growth(&self.before, &after), ..end }
    }

    /// Starts perftest's server on a free TCP port and returns when it listens. Binds it to the address `at` if perftest
    /// supports `--bind_source_ip`.
    pub(crate) fn serve(
        &self,
        first_port: u16,
        at: Option<Ipv4Addr>,
    ) -> Result<(RunningProgram, ReservedTcpPort<'a>), Error> {
        let (mut next, mut at) = (first_port, at);
        loop {
            let reserved = self.node.ports_in_use.reserve_tcp(first_port, next).ok_or_else(|| {
                Error::NoPort { why: format!("the {TCP_PORTS} TCP ports from {first_port} on are in use") }
            })?;
            let port = reserved.number();
            let mut running = self.start(EndRole::Server(at), port, false, false)?;
            if self.listens(&mut running, port)? {
                return Ok((running, reserved));
            }
            let output = running.end()?;
            if at.is_some() && output.does_not_know(BIND) {
                at = None;
                continue;
            }
            // Another process took the port first.
            if !is_listening(port) {
                return Err(output.failure());
            }
            next = port.saturating_add(1);
        }
    }

    /// Waits until the server listens, or returns `false` if it has exited instead.
    fn listens(&self, running: &mut RunningProgram, port: u16) -> Result<bool, Error> {
        let deadline = Instant::now() + LISTEN_TIMEOUT;
        loop {
            self.node.interrupt.check()?;
            if running.has_ended()? {
                return Ok(false);
            }
            if is_listening(port) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                let what = format!("wait for {} to listen", self.program.name());
                return Err(Error::TimedOut { what, seconds: LISTEN_TIMEOUT.as_secs() });
            }
            thread::sleep(PROGRAM_POLL_INTERVAL);
        }
    }

    /// Runs perftest's client until it exits, again without the report if it does not support `--out_json`. It is killed if the
    /// agent, whose connection is `wire`, is gone or has failed.
    /// With `samples` it prints the time of each message.
    pub(crate) fn run(&self, wire: &MessageStream, port: u16, samples: bool) -> Result<ProgramOutput, Error> {
        let output = self.run_with(wire, port, true, samples)?;
        if output.does_not_know(REPORT) { self.run_with(wire, port, false, samples) } else { Ok(output) }
    }

    fn run_with(
        &self,
        wire: &MessageStream,
        port: u16,
        report: bool,
        samples: bool,
    ) -> Result<ProgramOutput, Error> {
        let mut running = self.start(EndRole::Client(wire.peer()), port, report, samples)?;
        let limit = Duration::from_secs(self.test.duration.get().into()) + PROGRAM_GRACE;
        let deadline = Instant::now() + limit;
        let mut server_ended: Option<Instant> = None;
        while !running.has_ended()? {
            self.node.interrupt.check()?;
            if Instant::now() >= deadline {
                let output = running.end()?.output();
                let what = format!("{} ({output})", self.program.name());
                return Err(Error::TimedOut { what, seconds: limit.as_secs() });
            }
            match server_ended {
                Some(ended) if ended.elapsed() >= CLIENT_EXIT_TIMEOUT => break,
                Some(_) => thread::sleep(PROGRAM_POLL_INTERVAL),
                None if wire.wait_for_data(PROGRAM_POLL_INTERVAL)? => server_ended = Some(Instant::now()),
                None => {}
            }
        }
        running.end()
    }

    fn start(
        &self,
        role: EndRole,
        tcp_port: u16,
        report: bool,
        samples: bool,
    ) -> Result<RunningProgram, Error> {
        let gid = self.selected.gid.as_ref().map(|gid| gid.entry.index);
        self.program.start(&PerftestArgs {
            test: self.test,
            device: &self.selected.device,
            port: self.selected.port,
            gid_index: gid.and_then(|index| index.try_into().ok()),
            tcp_port,
            gpu: self.gpu,
            role,
            report,
            samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::Write as _,
        net::{TcpListener, TcpStream},
        path::Path,
    };

    use rdma::{LinkLayer, PortState};

    use super::*;
    use crate::{RdmaOperation, TestKind, simulated_node::write_program};

    /// Calls `with` with a local end whose perftest is this shell script in `dir`.
    fn with_end<T>(dir: &Path, script: &str, with: impl FnOnce(LocalEnd<'_>) -> T) -> T {
        let fake = dir.join("ib_write_bw");
        write_program(&fake, script);
        let node = LocalContext {
            launcher: Launcher { path: dir.into(), wrapper: Vec::new(), versions: Default::default() },
            sysfs: Sysfs::at(dir),
            interrupt: Interrupt::never(),
            ports_in_use: Arc::default(),
        };
        let one = |n: u64| n.try_into().unwrap();
        let test = TestSpec::new(
            TestKind::Bandwidth,
            RdmaOperation::Write,
            8u64.try_into().unwrap(),
            1u64.try_into().unwrap(),
            one(1),
        );
        let facts = CandidatePort {
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
        let selected = SelectedPort { device, port: 1u64.try_into().unwrap(), gid: None, facts };
        let program = node.launcher.find(test.kind, test.operation).unwrap();
        with(LocalEnd::new(&node, program, &test, &selected).unwrap())
    }

    /// Returns a connection to an agent, and the agent's end of it.
    fn connection() -> (MessageStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let wire = MessageStream::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        (wire, listener.accept().unwrap().0)
    }

    #[test]
    fn a_perftest_without_a_report_is_run_again_for_its_table() {
        let dir = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh
            case \"$*\" in *out_json*) echo \"$0: unrecognized option '--out_json'\" >&2; exit 1 ;; esac
            echo table\n";
        let (wire, _agent) = connection();
        let output = with_end(dir.path(), script, |end| end.run(&wire, 1, false)).unwrap();
        assert_eq!((output.is_success(), output.printed.as_str()), (true, "table\n"));
    }

    #[test]
    fn perftest_is_killed_if_the_agent_is_gone_or_has_failed() {
        let dir = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\nexec sleep 600\n";
        let (wire, agent) = connection();
        drop(agent);
        let began = Instant::now();
        let gone = with_end(dir.path(), script, |end| end.run(&wire, 1, false));
        assert!(matches!(gone, Err(Error::Closed { .. })), "{gone:?}");
        let (wire, mut agent) = connection();
        agent.write_all(b"a refusal").unwrap();
        let failed = with_end(dir.path(), script, |end| end.run(&wire, 1, false)).unwrap();
        assert!(!failed.is_success());
        assert!(began.elapsed() < PROGRAM_GRACE, "it was not killed early: {:?}", began.elapsed());
    }

    #[test]
    fn perftest_listens_on_the_address_of_the_connection_if_it_supports_that() {
        let dir = tempfile::tempdir().unwrap();
        let at = [127, 0, 0, 2].into();
        // perftest 4.5 does not know the option, 25.01 does. Both scripts exit without listening.
        let older = "#!/bin/sh
            [ \"$1\" != --version ] || exit 0
            echo \"$*\" >>${0%/*}/started
            case \"$*\" in *bind_*) echo \"$0: unrecognized option '--bind_source_ip=127.0.0.2'\" >&2; exit 1 ;; esac
            echo 'no device' >&2; exit 1\n";
        let newer = older.replace("*bind_*", "never");
        for (script, binds) in [(older, vec![true, false]), (newer.as_str(), vec![true])] {
            // Other tests listen on the usual ports.
            let first = FIRST_PORT + 1000;
            let failure = with_end(dir.path(), script, |end| end.serve(first, Some(at)).map(drop));
            assert!(failure.unwrap_err().to_string().contains("no device"));
            let started = fs::read_to_string(dir.path().join("started")).unwrap();
            let bound: Vec<bool> =
                started.lines().map(|line| line.ends_with(" --bind_source_ip=127.0.0.2")).collect();
            assert_eq!(bound, binds, "{started}");
            fs::remove_file(dir.path().join("started")).unwrap();
        }
    }
}
