//! The end that waits for tests: one at a time.
//!
//! Whoever connects has a thread of its own: first a stranger, with a few seconds to shake hands, then a client. How many
//! there may be of either, and of one source, is in `admission.rs`.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, TryLockError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{Backlog, listen, setsockopt, sockopt},
};

use crate::{
    Error, Interrupt, Test, Wanted,
    client::{Client, Order},
    error::io as failed,
    governor::{Done, Governors},
    perftest::Running,
    protocol::{Reason, Refusal, Reply, Request, Run, Token, Wire, handshake},
    session::{Node, SLACK, Session},
};

mod admission;
mod bucket;
mod log;

use admission::{Admission, Place};
use log::Log;

/// How long a client that has shaken hands may ask nothing.
const IDLE: Duration = Duration::from_secs(60);

/// How long perftest's server may take to end after its client has.
const LINGER: Duration = Duration::from_secs(5);

/// How often a test's connection and process are looked at.
const TICK: Duration = Duration::from_millis(50);

/// How often whoever waits for a test of two agents hears that it is under way.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long the test before may still be cleaning up: a client that fails leaves its server's process behind for a moment,
/// and in a mesh the next client comes at once.
const CLEANING: Duration = Duration::from_secs(3);

/// How an agent behaves.
#[derive(Debug)]
pub struct Settings {
    /// What clients have to have.
    pub token: Option<Token>,
    /// Addresses that clients have connected to when they reach this agent, beside its own.
    pub known_as: Vec<IpAddr>,
    /// What is used where a client asks for nothing else.
    pub wanted: Wanted,
    /// The first TCP port that is tried for perftest.
    pub first_port: u16,
    /// The governors to set during tests.
    pub governors: Option<Governors>,
}

/// An agent that listens.
#[derive(Debug)]
pub struct Agent<'a> {
    listener: TcpListener,
    settings: Settings,
    node: &'a Node,
    busy: Mutex<()>,
    admission: Admission,
}

impl<'a> Agent<'a> {
    /// Listens.
    ///
    /// # Errors
    /// [`Error::Open`] if others than this node could start tests without a token; [`Error::Io`].
    pub fn listen(address: SocketAddr, settings: Settings, node: &'a Node) -> Result<Self, Error> {
        if settings.token.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(Error::Open { address: address.to_string() });
        }
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            // std's queue has 128 places. Who connects quickly would fill it, and others would be kept waiting.
            listen(&listener, Backlog::MAXCONN)?;
            Ok(listener)
        });
        let listener = listener.map_err(failed(format!("listen on {address}")))?;
        Ok(Self { listener, settings, node, busy: Mutex::new(()), admission: Admission::default() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(failed("ask for the address listened on"))
    }

    /// Serves until the process is to end. `write` is told of each test, in one line, and of what went wrong, in so many
    /// lines that they can be read.
    ///
    /// # Errors
    /// [`Error::Io`] if the socket fails.
    pub fn serve(&self, write: &(dyn Fn(&str) + Sync)) -> Result<(), Error> {
        let log = Log::new(write);
        let served = thread::scope(|scope| {
            while !self.node.interrupt.is_requested() {
                log.tell_rest(false);
                let Some((stream, from)) = self.next()? else { continue };
                let stream = Arc::new(stream);
                let Some(place) = self.admission.admit(&stream, from) else {
                    turn_away(&stream);
                    log.turned_away();
                    continue;
                };
                let log = &log;
                let handled = move || self.attend_to(stream, &place, log);
                // Without a thread there is no talk: the client sees that the connection is closed.
                if thread::Builder::new().spawn_scoped(scope, handled).is_err() {
                    log.turned_away();
                }
            }
            Ok(())
        });
        log.tell_rest(true);
        served
    }

    /// The next connection, if one comes soon.
    fn next(&self) -> Result<Option<(TcpStream, IpAddr)>, Error> {
        let accepted = match self.listener.accept() {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let mut waiting = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
                // A signal interrupts it, or not: it is short.
                let _ = poll(&mut waiting, PollTimeout::from(100u8));
                self.listener.accept()
            }
            accepted => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                let blocking = stream.set_nonblocking(false);
                Ok(blocking.is_ok().then_some((stream, from.ip())))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The peer is gone already, or descriptors are scarce for a moment.
            Err(e) if e.raw_os_error().is_some() => {
                thread::sleep(TICK);
                Ok(None)
            }
            Err(source) => Err(failed("accept a connection")(source)),
        }
    }

    /// A connection, from its first line to its end.
    fn attend_to(&self, stream: Arc<TcpStream>, place: &Place<'_>, log: &Log<'_>) {
        let mut wire = match self.let_in(stream, place) {
            Ok(wire) => wire,
            Err(_) if self.node.interrupt.is_requested() => return,
            Err(error) => return log.stranger(&error.to_string()),
        };
        if let Err(error) = self.talk(&mut wire, place, log) {
            log.client(&error.to_string());
        }
    }

    /// A stranger who becomes a client.
    fn let_in(&self, stream: Arc<TcpStream>, place: &Place<'_>) -> Result<Wire, Error> {
        let mut wire = Wire::new(stream)?;
        let local = wire.local();
        let admit = |to: Option<IpAddr>| {
            self.is_ours(to, local)?;
            if place.is_now_a_client() {
                Ok(())
            } else {
                Err(busy("too many clients are connected, and all have tests"))
            }
        };
        match handshake::accept(&mut wire, self.settings.token.as_ref(), &self.node.interrupt, admit) {
            Err(_) if place.is_closed() => Err(Error::GaveWay { peer: wire.peer().to_string() }),
            accepted => accepted.map(|()| wire),
        }
    }

    /// Whether the address that a client has connected to is this agent's. If it is another's, that one passes on what it
    /// is sent, and its own results would be this node's.
    fn is_ours(&self, to: Option<IpAddr>, local: Option<IpAddr>) -> Result<(), Refusal> {
        let Some(to) = to.map(|to| to.to_canonical()) else { return Ok(()) };
        if local == Some(to) || self.settings.known_as.contains(&to) {
            return Ok(());
        }
        let local = local.map_or_else(|| "unknown".into(), |local| local.to_string());
        let message = format!(
            "you asked for {to}, and this agent's address is {local}: another host passes on what you say; if an address \
             is translated between you on purpose, start this agent with --known-as {to}"
        );
        Err(Refusal { reason: Reason::Address, message: message.into() })
    }

    fn talk(&self, wire: &mut Wire, place: &Place<'_>, log: &Log<'_>) -> Result<(), Error> {
        loop {
            let request = match wire.receive(IDLE, &self.node.interrupt) {
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
                    log.client(&format!("{}: {error}", wire.peer()));
                    wire.send(&refusal(&error))?;
                }
            }
        }
    }

    fn answer(&self, wire: &mut Wire, request: Request, log: &Log<'_>) -> Result<Reply, Error> {
        let Some(_one) = self.one()? else {
            return Ok(Reply::Refused(busy("another test is under way on this node")));
        };
        let held = self.settings.governors.as_ref().map(Governors::hold).transpose()?;
        if let Some(Done::Without(why)) = held.as_ref().map(|held| &held.done) {
            log.client(&format!("the governor stays as it is: {why}"));
        }
        match request {
            Request::Test { test, wanted, gid } => {
                let Test { kind, operation, .. } = test;
                log.client(&format!(
                    "{}: {kind} by {operation}, {} bytes, {} s",
                    wire.peer(),
                    test.size,
                    test.duration
                ));
                self.serve_test(wire, &test, &wanted.or(&self.settings.wanted), gid)
            }
            Request::Run(run) => {
                log.client(&format!("{}: {} with {}", wire.peer(), run.test.kind, run.against));
                self.run(wire, *run)
            }
            Request::Finished => Err(wire.protocol("nothing is under way")),
        }
    }

    /// The right to have a test; `None` if another has it, and not only for a moment.
    fn one(&self) -> Result<Option<MutexGuard<'_, ()>>, Error> {
        let deadline = Instant::now() + CLEANING;
        loop {
            match self.busy.try_lock() {
                Ok(one) => return Ok(Some(one)),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(Some(poisoned.into_inner())),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(None),
                Err(TryLockError::WouldBlock) => thread::sleep(TICK),
            }
            self.node.interrupt.check()?;
        }
    }

    /// The server's part of a test. The process ends with it, however it ends.
    fn serve_test(
        &self,
        wire: &mut Wire,
        test: &Test,
        wanted: &Wanted,
        gid: Option<std::net::IpAddr>,
    ) -> Result<Reply, Error> {
        test.check()?;
        let program = self.node.launcher.find(test.kind, test.operation)?;
        let selected = self.node.select(wanted, gid.or(Some(wire.peer())), wire.local())?;
        let session = Session::new(self.node, program, test, &selected);
        // Where the client will look for it, and nowhere else.
        let at = match wire.local() {
            Some(IpAddr::V4(local)) => Some(local),
            _ => None,
        };
        let (mut running, tcp_port) = session.serve(self.settings.first_port, at)?;
        wire.send(&Reply::Ready { tcp_port, end: Box::new(session.end()) })?;
        let limit = Duration::from_secs(test.duration.get().into()) + SLACK;
        self.attend(wire, &mut running, limit)?;
        let output = running.end()?;
        if !output.is_success() {
            return Err(output.failure());
        }
        Ok(Reply::Done { end: Box::new(session.end()) })
    }

    /// Until the client says that its program has ended, and ours has ended too or had its time.
    fn attend(&self, wire: &mut Wire, running: &mut Running, limit: Duration) -> Result<(), Error> {
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
            match wire.poll(TICK)? {
                None => {}
                Some(Request::Finished) if !finished => {
                    (finished, deadline) = (true, deadline.min(Instant::now() + LINGER));
                }
                Some(_) => return Err(wire.protocol("a test is under way")),
            }
        }
    }

    /// The client's part of a test with another agent. Whoever asked hears in between that it is under way; if they go,
    /// the test ends.
    fn run(&self, wire: &mut Wire, run: Run) -> Result<Reply, Error> {
        let Run { against, test, wanted, peer_wanted, limit } = run;
        if !against.is_ipv4() {
            return Err(wire.protocol("an agent has an IPv4 address"));
        }
        let node = Node {
            launcher: self.node.launcher.clone(),
            sysfs: self.node.sysfs.clone(),
            interrupt: Interrupt::never(),
        };
        let order = Order { test, wanted: wanted.or(&self.settings.wanted), peer_wanted, limit };
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
        Ok(Reply::Result { record: Box::new(record) })
    }

    fn watch(&self, wire: &mut Wire, is_done: impl Fn() -> bool) -> Result<(), Error> {
        let mut told = Instant::now();
        while !is_done() {
            self.node.interrupt.check()?;
            if told.elapsed() >= HEARTBEAT {
                wire.send(&Reply::Working)?;
                told = Instant::now();
            }
            if wire.poll::<Request>(TICK)?.is_some() {
                return Err(wire.protocol("a test is under way"));
            }
        }
        Ok(())
    }
}

/// Tells the client, if it is still there, and is done with it.
fn refused(wire: &mut Wire, error: Error) -> Result<(), Error> {
    let _ = wire.send(&refusal(&error));
    Err(error)
}

fn refusal(error: &Error) -> Reply {
    let reason = match error {
        Error::Unusable { .. } => Reason::Unusable,
        Error::Refused { refusal, .. } => refusal.reason,
        _ => Reason::Failed,
    };
    Reply::Refused(Refusal { reason, message: error.to_string().into() })
}

fn busy(why: &str) -> Refusal {
    Refusal { reason: Reason::Busy, message: format!("busy: {why}; try again later").into() }
}

/// Closes a connection of a source that has too many, without a word and so that the kernel forgets it at once.
fn turn_away(stream: &TcpStream) {
    let _ = setsockopt(stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
}

#[cfg(test)]
mod tests;
