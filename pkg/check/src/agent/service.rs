//! The agent's side of an authenticated connection: reads requests, runs tests and sends replies.

use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, TryLockError},
    thread,
    time::{Duration, Instant},
};

use cpufreq::{GovernorOutcome, Governors};

use super::{admission::ConnectionSlot, log::ConnectionLog, options::AgentOptions};
use crate::{
    Error, Interrupt, PortSelector, TestSpec,
    client::{Client, TestRequest},
    local_end::{LocalContext, LocalEnd, PROGRAM_GRACE},
    perftest::RunningProgram,
    protocol::{AgentRefusal, AgentReply, AgentRequest, MessageStream, RefusalReason, RemoteTest},
};

/// How long an authenticated client may stay idle between requests.
const CLIENT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long perftest's server may take to exit after its client has exited.
const SERVER_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the client is sent [`AgentReply::Working`] while this agent runs a test with another agent.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// How long a request waits for the previous test to clean up. After a client fails, its server's process lives on for a
/// moment, and in a mesh the next client connects immediately.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval at which the connection and the process of a test are polled.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the tests that clients request, one at a time.
#[derive(Debug)]
pub(super) struct TestService<'a> {
    pub(super) settings: AgentOptions,
    pub(super) node: &'a LocalContext,
    /// Locked during a test.
    pub(super) busy: Mutex<()>,
}

impl TestService<'_> {
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
                    wire.send(&refusal(&error))?;
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
        let Some(_busy) = self.lock_busy()? else {
            return Ok(AgentReply::Refused(busy("another test is running on this node")));
        };
        let held = self.settings.governors.as_ref().map(Governors::hold).transpose()?;
        if let Some(GovernorOutcome::Without(why)) = held.as_ref().map(|held| &held.done) {
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
                log.log_client(&format!("{}: {} with {}", wire.peer(), run.test.kind, run.against));
                self.run(wire, *run)
            }
            AgentRequest::Finished => Err(wire.protocol("no test is running")),
        }
    }

    /// Takes the lock that a test needs; `None` if another test still holds it after [`CLEANUP_TIMEOUT`].
    fn lock_busy(&self) -> Result<Option<MutexGuard<'_, ()>>, Error> {
        let deadline = Instant::now() + CLEANUP_TIMEOUT;
        loop {
            match self.busy.try_lock() {
                Ok(guard) => return Ok(Some(guard)),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(Some(poisoned.into_inner())),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(None),
                Err(TryLockError::WouldBlock) => thread::sleep(POLL_INTERVAL),
            }
            self.node.interrupt.check()?;
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
        let selected = self.node.select(wanted, gid.or(Some(wire.peer())), wire.local())?;
        let local_end = LocalEnd::new(self.node, program, test, &selected);
        // perftest listens only on the address that the client connected to.
        let at = match wire.local() {
            Some(IpAddr::V4(local)) => Some(local),
            _ => None,
        };
        let (mut running, tcp_port) = local_end.serve(self.settings.first_port, at)?;
        wire.send(&AgentReply::Ready { tcp_port, end: Box::new(local_end.end()) })?;
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

    /// Runs a test with another agent, as its client. Sends [`AgentReply::Working`] to the client of this connection in the
    /// meantime; if that client closes the connection, the test is interrupted.
    fn run(&self, wire: &mut MessageStream, run: RemoteTest) -> Result<AgentReply, Error> {
        let RemoteTest { against, test, wanted, peer_wanted, limit } = run;
        if !against.is_ipv4() {
            return Err(wire.protocol("expected the IPv4 address of an agent"));
        }
        let node = LocalContext {
            launcher: self.node.launcher.clone(),
            sysfs: self.node.sysfs.clone(),
            interrupt: Interrupt::never(),
        };
        let request = TestRequest { test, wanted: wanted.or(&self.settings.wanted), peer_wanted, limit };
        let measure = || Client::connect(&node, against, self.settings.token.as_ref())?.measure(&request);
        let record = thread::scope(|scope| {
            let worker = scope.spawn(measure);
            let watched = self.watch(wire, || worker.is_finished());
            if watched.is_err() {
                node.interrupt.request();
            }
            let measured = worker.join().unwrap_or(Err(Error::Interrupted));
            watched.and(measured)
        })?;
        Ok(AgentReply::Result { record: Box::new(record) })
    }

    fn watch(&self, wire: &mut MessageStream, is_done: impl Fn() -> bool) -> Result<(), Error> {
        let mut last_sent = Instant::now();
        while !is_done() {
            self.node.interrupt.check()?;
            if last_sent.elapsed() >= HEARTBEAT_INTERVAL {
                wire.send(&AgentReply::Working)?;
                last_sent = Instant::now();
            }
            if wire.poll::<AgentRequest>(POLL_INTERVAL)?.is_some() {
                return Err(wire.protocol("unexpected message: a test is running"));
            }
        }
        Ok(())
    }
}

/// Sends the error to the client, ignoring a closed connection, and returns it.
fn refused(wire: &mut MessageStream, error: Error) -> Result<(), Error> {
    let _ = wire.send(&refusal(&error));
    Err(error)
}

fn refusal(error: &Error) -> AgentReply {
    let reason = match error {
        Error::Unusable { .. } => RefusalReason::Unusable,
        Error::Refused { refusal, .. } => refusal.reason,
        _ => RefusalReason::Failed,
    };
    AgentReply::Refused(AgentRefusal { reason, message: error.to_string().into() })
}

pub(super) fn busy(why: &str) -> AgentRefusal {
    AgentRefusal { reason: RefusalReason::Busy, message: format!("busy: {why}; try again later").into() }
}
