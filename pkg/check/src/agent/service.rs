//! What a client asks of an agent, and has done.

use std::{
    net::IpAddr,
    sync::{MutexGuard, TryLockError},
    thread,
    time::{Duration, Instant},
};

use super::{Agent, POLL_INTERVAL, admission::ConnectionSlot, log::ConnectionLog};
use crate::{
    Error, Interrupt, PortSelector, TestSpec,
    client::{Client, TestRequest},
    governor::{GovernorOutcome, Governors},
    perftest::RunningProgram,
    protocol::{AgentRefusal, AgentReply, AgentRequest, MessageStream, RefusalReason, RemoteTest},
    session::{LocalContext, LocalEnd, PROGRAM_GRACE},
};

/// How long a client that has shaken hands may ask nothing.
const CLIENT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long perftest's server may take to end after its client has.
const SERVER_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often whoever waits for a test of two agents hears that it is under way.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// How long the test before may still be cleaning up: a client that fails leaves its server's process behind for a moment,
/// and in a mesh the next client comes at once.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(3);

impl Agent<'_> {
    /// Answers a client until it goes.
    pub(super) fn serve_client(
        &self,
        wire: &mut MessageStream,
        place: &ConnectionSlot<'_>,
        log: &ConnectionLog<'_>,
    ) -> Result<(), Error> {
        loop {
            let request = match wire.receive(CLIENT_IDLE_TIMEOUT, &self.node.interrupt) {
                Ok(request) => request,
                Err(Error::Closed { .. }) => return Ok(()),
                Err(error) => return refused(wire, error),
            };
            place.has_test(true);
            let answered = self.answer(wire, request, log);
            place.has_test(false);
            match answered {
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

    fn answer(
        &self,
        wire: &mut MessageStream,
        request: AgentRequest,
        log: &ConnectionLog<'_>,
    ) -> Result<AgentReply, Error> {
        let Some(_one) = self.one()? else {
            return Ok(AgentReply::Refused(busy("another test is under way on this node")));
        };
        let held = self.settings.governors.as_ref().map(Governors::hold).transpose()?;
        if let Some(GovernorOutcome::Without(why)) = held.as_ref().map(|held| &held.done) {
            log.log_client(&format!("the governor stays as it is: {why}"));
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
            AgentRequest::Finished => Err(wire.protocol("nothing is under way")),
        }
    }

    /// The right to have a test; `None` if another has it, and not only for a moment.
    fn one(&self) -> Result<Option<MutexGuard<'_, ()>>, Error> {
        let deadline = Instant::now() + CLEANUP_TIMEOUT;
        loop {
            match self.busy.try_lock() {
                Ok(one) => return Ok(Some(one)),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(Some(poisoned.into_inner())),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(None),
                Err(TryLockError::WouldBlock) => thread::sleep(POLL_INTERVAL),
            }
            self.node.interrupt.check()?;
        }
    }

    /// The server's part of a test. The process ends with it, however it ends.
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
        let session = LocalEnd::new(self.node, program, test, &selected);
        // Where the client will look for it, and nowhere else.
        let at = match wire.local() {
            Some(IpAddr::V4(local)) => Some(local),
            _ => None,
        };
        let (mut running, tcp_port) = session.serve(self.settings.first_port, at)?;
        wire.send(&AgentReply::Ready { tcp_port, end: Box::new(session.end()) })?;
        let limit = Duration::from_secs(test.duration.get().into()) + PROGRAM_GRACE;
        self.run_server(wire, &mut running, limit)?;
        let output = running.end()?;
        if !output.is_success() {
            return Err(output.failure());
        }
        Ok(AgentReply::Done { end: Box::new(session.end()) })
    }

    /// Until the client says that its program has ended, and ours has ended too or had its time.
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
                return Err(Error::TimedOut { what: "the test".into(), seconds: limit.as_secs() });
            }
            match wire.poll(POLL_INTERVAL)? {
                None => {}
                Some(AgentRequest::Finished) if !finished => {
                    (finished, deadline) = (true, deadline.min(Instant::now() + SERVER_EXIT_TIMEOUT));
                }
                Some(_) => return Err(wire.protocol("a test is under way")),
            }
        }
    }

    /// The client's part of a test with another agent. Whoever asked hears in between that it is under way; if they go,
    /// the test ends.
    fn run(&self, wire: &mut MessageStream, run: RemoteTest) -> Result<AgentReply, Error> {
        let RemoteTest { against, test, wanted, peer_wanted, limit } = run;
        if !against.is_ipv4() {
            return Err(wire.protocol("an agent has an IPv4 address"));
        }
        let node = LocalContext {
            launcher: self.node.launcher.clone(),
            sysfs: self.node.sysfs.clone(),
            interrupt: Interrupt::never(),
        };
        let order = TestRequest { test, wanted: wanted.or(&self.settings.wanted), peer_wanted, limit };
        let measure = || Client::connect(&node, against, self.settings.token.as_ref())?.measure(&order);
        let record = thread::scope(|scope| {
            let at_work = scope.spawn(measure);
            let watched = self.watch(wire, || at_work.is_finished());
            if watched.is_err() {
                node.interrupt.request();
            }
            let measured = at_work.join().unwrap_or(Err(Error::Interrupted));
            watched.and(measured)
        })?;
        Ok(AgentReply::Result { record: Box::new(record) })
    }

    fn watch(&self, wire: &mut MessageStream, is_done: impl Fn() -> bool) -> Result<(), Error> {
        let mut told = Instant::now();
        while !is_done() {
            self.node.interrupt.check()?;
            if told.elapsed() >= HEARTBEAT_INTERVAL {
                wire.send(&AgentReply::Working)?;
                told = Instant::now();
            }
            if wire.poll::<AgentRequest>(POLL_INTERVAL)?.is_some() {
                return Err(wire.protocol("a test is under way"));
            }
        }
        Ok(())
    }
}

/// Tells the client, if it is still there, and is done with it.
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
