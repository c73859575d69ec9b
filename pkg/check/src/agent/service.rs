//! The agent's side of an authenticated connection: reads requests, runs tests and sends replies.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{
    admission::ConnectionSlot,
    held_governors::HeldGovernors,
    log::ConnectionLog,
    options::AgentOptions,
    rail_limit::{MAX_RUNNING_RAILS, RailLimit},
};
use crate::{
    Error, Interrupt, PortSelector, TestSpec,
    client::{Client, TestRequest},
    local_end::{LocalContext, LocalEnd, PROGRAM_GRACE},
    node_port::node_ports,
    perftest::RunningProgram,
    port_selection::select,
    protocol::{AgentRefusal, AgentReply, AgentRequest, MAX_RAILS, MessageStream, RefusalReason, RemoteTest},
    start_line::StartLine,
    test_result::TestResult,
};

/// How long an authenticated client may stay idle between requests.
const CLIENT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long perftest's server may take to exit after its client has exited.
const SERVER_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the client is sent [`AgentReply::Working`] while this agent runs a test with another agent.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Interval at which the connection and the process of a test are polled.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the tests that clients request. Each RDMA port has at most one of them at a time.
#[derive(Debug)]
pub(super) struct TestService<'a> {
    pub(super) settings: AgentOptions<'a>,
    pub(super) node: &'a LocalContext,
    governors: Option<HeldGovernors<'a>>,
    pub(super) rails: RailLimit,
}

impl<'a> TestService<'a> {
    pub(super) fn new(settings: AgentOptions<'a>, node: &'a LocalContext) -> Self {
        let governors = settings.governors.map(HeldGovernors::new);
        Self { settings, node, governors, rails: RailLimit::default() }
    }

    /// Serves the requests of a client until it closes the connection.
    pub(super) fn serve_client(
        &self,
        wire: &mut MessageStream,
        slot: &ConnectionSlot<'_>,
        log: &ConnectionLog<'_>,
    ) -> Result<(), Error> {
        loop {
            let request = match wire.receive(CLIENT_IDLE_TIMEOUT, &self.node.interrupt) {
                Ok(request) => request,
                Err(Error::Closed { .. }) => return Ok(()),
                Err(error) => return refused(wire, error),
            };
            slot.has_test(true);
            let result = self.handle(wire, request, log);
            slot.has_test(false);
            match result {
                Ok(reply) => wire.send(&reply)?,
                Err(
                    error @ (Error::Closed { .. }
                    | Error::Altered { .. }
                    | Error::Protocol { .. }
                    | Error::Interrupted),
                ) => return refused(wire, error),
                Err(error) => {
                    log.log_client(&format!("{}: {error}", wire.peer()));
                    wire.send(&AgentReply::Refused(refusal(&error)))?;
                }
            }
        }
    }

    fn handle(
        &self,
        wire: &mut MessageStream,
        request: AgentRequest,
        log: &ConnectionLog<'_>,
    ) -> Result<AgentReply, Error> {
        if matches!(request, AgentRequest::Ports) {
            let node = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
            let ports = node_ports(&self.node.sysfs)?;
            return Ok(AgentReply::Ports { node: node.unwrap_or_default().into(), ports });
        }
        let held = self.governors.as_ref().map(HeldGovernors::hold).transpose()?;
        if let Some(why) = held.as_ref().and_then(|held| held.unchanged.as_deref()) {
            log.log_client(&format!("the CPU frequency governor was not changed: {why}"));
        }
        match request {
            AgentRequest::Test { test, wanted, gid } => {
                let TestSpec { kind, operation, .. } = test;
                log.log_client(&format!(
                    "{}: {kind} by {operation}, {} bytes, {} s",
                    wire.peer(),
                    test.size,
                    test.duration
                ));
                self.serve_test(wire, &test, &wanted.or(&self.settings.wanted), gid)
            }
            AgentRequest::Run(run) => {
                let rails = match run.rails.len() {
                    1 => String::new(),
                    rails => format!(" on {rails} rails"),
                };
                log.log_client(&format!("{}: {} with {}{rails}", wire.peer(), run.test.kind, run.against));
                self.run(wire, *run)
            }
            AgentRequest::Ports | AgentRequest::Finished => Err(wire.protocol("no test is running")),
        }
    }

    /// Runs perftest's server for a test. Its process never outlives this call.
    fn serve_test(
        &self,
        wire: &mut MessageStream,
        test: &TestSpec,
        wanted: &PortSelector,
        gid: Option<std::net::IpAddr>,
    ) -> Result<AgentReply, Error> {
        test.require_consistent()?;
        let program = self.node.launcher.find(test.kind, test.operation)?;
        let ports = self.node.candidate_ports(wanted)?;
        let selected = select(&ports, wanted, gid.or(Some(wire.peer())), wire.local())?;
        let _reserved = self.node.reserve(&selected)?;
        let local_end = LocalEnd::new(self.node, program, test, &selected)?;
        // perftest listens only on the address that the client connected to.
        let at = match wire.local() {
            Some(IpAddr::V4(local)) => Some(local),
            _ => None,
        };
        let (mut running, tcp_port) = local_end.serve(self.settings.first_port, at)?;
        wire.send(&AgentReply::Ready { tcp_port: tcp_port.number(), end: Box::new(local_end.end()) })?;
        let limit = Duration::from_secs(test.duration.get().into()) + PROGRAM_GRACE;
        self.run_server(wire, &mut running, limit)?;
        let output = running.end()?;
        if !output.is_success() {
            return Err(output.failure());
        }
        Ok(AgentReply::Done { end: Box::new(local_end.end()) })
    }

    /// Waits until the client reports that its program has exited, and then until the server has exited or timed out.
    fn run_server(
        &self,
        wire: &mut MessageStream,
        running: &mut RunningProgram,
        limit: Duration,
    ) -> Result<(), Error> {
        let mut deadline = Instant::now() + limit;
        let mut finished = false;
        loop {
            self.node.interrupt.check()?;
            let ended = running.has_ended()?;
            if finished && (ended || Instant::now() >= deadline) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Error::TimedOut { what: "test".into(), seconds: limit.as_secs() });
            }
            match wire.poll(POLL_INTERVAL)? {
                None => {}
                Some(AgentRequest::Finished) if !finished => {
                    (finished, deadline) = (true, deadline.min(Instant::now() + SERVER_EXIT_TIMEOUT));
                }
                Some(_) => return Err(wire.protocol("unexpected message: a test is running")),
            }
        }
    }

    /// Tests with another agent, as its client, on all rails of the request at the same time. Sends the result of each rail to
    /// the client of this connection, and [`AgentReply::Working`] in the meantime. If that client closes the connection, the
    /// tests are interrupted.
    fn run(&self, wire: &mut MessageStream, run: RemoteTest) -> Result<AgentReply, Error> {
        if !run.against.is_ipv4() {
            return Err(wire.protocol("expected the IPv4 address of an agent"));
        }
        if run.rails.is_empty() || run.rails.len() > MAX_RAILS {
            return Err(wire.protocol(&format!("expected 1 to {MAX_RAILS} rails")));
        }
        let Some(_running) = self.rails.reserve(run.rails.len()) else {
            let why = format!("{MAX_RUNNING_RAILS} rails are tested at most at the same time");
            return Ok(AgentReply::Refused(busy(&why)));
        };
        let node = LocalContext {
            launcher: self.node.launcher.clone(),
            sysfs: self.node.sysfs.clone(),
            interrupt: Interrupt::never(),
            ports_in_use: Arc::clone(&self.node.ports_in_use),
        };
        let (start, one_at_a_time) = (StartLine::new(run.rails.len()), Mutex::new(()));
        let (sender, outcomes) = mpsc::channel();
        thread::scope(|scope| {
            for rail in 0..run.rails.len() {
                let (to_watcher, run, node) = (sender.clone(), &run, &node);
                let (place, one_at_a_time) = (start.place(), &one_at_a_time);
                let test = move || {
                    let connect = || {
                        // The other agent limits the unauthenticated connections of one source.
                        let _one = one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
                        Client::connect(node, run.against, self.settings.token.as_ref())
                    };
                    let request = self.request(run, rail);
                    let measured = connect().and_then(|mut client| match run.rails.len() {
                        1 => client.measure(&request),
                        _ => client.measure_with_others(&request, &place),
                    });
                    drop(place);
                    // Sending fails only if the receiver has been dropped.
                    let _ = to_watcher.send(reply_of(rail, measured));
                };
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, test) {
                    let refusal = busy(&format!("no thread could be created: {error}"));
                    let _ = sender.send(AgentReply::RailFailed { rail, refusal });
                }
            }
            drop(sender);
            let watched = self.watch(wire, &outcomes);
            if watched.is_err() {
                node.interrupt.request();
            }
            watched
        })?;
        Ok(AgentReply::RunDone)
    }

    fn request(&self, run: &RemoteTest, rail: usize) -> TestRequest {
        let ends = run.rails[rail].clone();
        let wanted = ends.wanted.or(&self.settings.wanted);
        TestRequest { test: run.test, wanted, peer_wanted: ends.peer_wanted, limit: run.limit }
    }

    /// Sends the outcomes until there are no more.
    fn watch(&self, wire: &mut MessageStream, outcomes: &mpsc::Receiver<AgentReply>) -> Result<(), Error> {
        let mut last_sent = Instant::now();
        loop {
            self.node.interrupt.check()?;
            match outcomes.try_recv() {
                Ok(outcome) => {
                    wire.send(&outcome)?;
                    last_sent = Instant::now();
                    continue;
                }
                Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
                Err(mpsc::TryRecvError::Empty) => {}
            }
            if last_sent.elapsed() >= HEARTBEAT_INTERVAL {
                wire.send(&AgentReply::Working)?;
                last_sent = Instant::now();
            }
            if wire.poll::<AgentRequest>(POLL_INTERVAL)?.is_some() {
                return Err(wire.protocol("unexpected message: a test is running"));
            }
        }
    }
}

fn reply_of(rail: usize, outcome: Result<TestResult, Error>) -> AgentReply {
    match outcome {
        Ok(record) => AgentReply::Result { rail, record: Box::new(record) },
        Err(error) => AgentReply::RailFailed { rail, refusal: refusal(&error) },
    }
}

/// Sends the error to the client, ignoring a closed connection, and returns it.
fn refused(wire: &mut MessageStream, error: Error) -> Result<(), Error> {
    let _ = wire.send(&AgentReply::Refused(refusal(&error)));
    Err(error)
}

fn refusal(error: &Error) -> AgentRefusal {
    let reason = match error {
        Error::Unusable { .. } => RefusalReason::Unusable,
        Error::PortInUse { .. } => RefusalReason::Busy,
        Error::Refused { refusal, .. } => refusal.reason,
        _ => RefusalReason::Failed,
    };
    AgentRefusal { reason, message: error.to_string().into() }
}

pub(super) fn busy(why: &str) -> AgentRefusal {
    AgentRefusal { reason: RefusalReason::Busy, message: format!("busy: {why}; try again later").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_refusal_tells_the_client_what_to_do() {
        let refused = |reason| {
            let refusal = AgentRefusal { reason, message: "no".into() };
            Error::Refused { peer: "192.0.2.1".into(), refusal }
        };
        let unusable = Error::Unusable { program: "ib_write_bw", why: "inf".into(), output: String::new() };
        for (error, reason) in [
            (unusable, RefusalReason::Unusable),
            (Error::PortInUse { device: "mlx5_0".into(), port: 1 }, RefusalReason::Busy),
            // That of the agent which this one tested with.
            (refused(RefusalReason::Busy), RefusalReason::Busy),
            (refused(RefusalReason::Token), RefusalReason::Token),
            (Error::TimedOut { what: "test".into(), seconds: 31 }, RefusalReason::Failed),
        ] {
            assert_eq!(refusal(&error).reason, reason, "{error}");
        }
    }
}
