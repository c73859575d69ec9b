//! The end that asks for a test.

use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    Error, PortSelector, TestSpec, gid,
    label::plain,
    perftest::{self, ProgramOutput, UnusableOutput},
    protocol::{AgentReply, AgentRequest, CheckToken, MessageStream, RefusalReason, RemoteTest, handshake},
    record::{TestEnd, TestResult},
    session::{LocalContext, LocalEnd},
    verdict::{Threshold, judge},
};

/// Where agents listen.
pub const PORT: u16 = 18514;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an agent may take to choose a port and to start its server.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(40);

/// How long an agent may take to end its server and to count.
const SERVER_END_TIMEOUT: Duration = Duration::from_secs(15);

/// How long an agent that runs a test for us may be silent.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(45);

/// perftest finds the CPU's clock by measuring; on a busy machine that fails now and then, and all its numbers are 0.
const MAX_ATTEMPTS: usize = 3;

/// Longer tests, in seconds, are not done again.
const MAX_RETRY_SECONDS: u16 = 60;

/// A test that is wanted.
#[derive(Debug, Clone)]
pub struct TestRequest {
    /// Which.
    pub test: TestSpec,
    /// What this end is to use.
    pub wanted: PortSelector,
    /// What the other end is to use.
    pub peer_wanted: PortSelector,
    /// What is enough.
    pub limit: Threshold,
}

/// The address of an agent from `HOST` or `HOST:PORT`.
///
/// # Errors
/// [`Error::Connect`] if the host has no IPv4 address: perftest's ends find each other by IPv4.
pub fn resolve(host: &str) -> Result<SocketAddr, Error> {
    let with_port = |text: &str| (text, PORT).to_socket_addrs();
    let found = if host.rsplit_once(':').is_some() { host.to_socket_addrs() } else { with_port(host) };
    let failed = |source| Error::Connect { peer: host.to_owned(), source };
    let mut found = found.map_err(failed)?;
    found.find(SocketAddr::is_ipv4).ok_or_else(|| failed(std::io::Error::other("it has no IPv4 address")))
}

/// A connection to an agent that knows us.
#[derive(Debug)]
pub struct Client<'a> {
    node: &'a LocalContext,
    wire: MessageStream,
}

impl<'a> Client<'a> {
    /// Connects and shakes hands.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::NotTrusted`], [`Error::Refused`], …
    pub fn connect(
        node: &'a LocalContext,
        agent: SocketAddr,
        token: Option<&CheckToken>,
    ) -> Result<Self, Error> {
        let stream =
            TcpStream::connect_timeout(&agent, CONNECT_TIMEOUT).map_err(|source| match source.kind() {
                ErrorKind::ConnectionReset => Error::TurnedAway { peer: agent.to_string() },
                _ => Error::Connect { peer: agent.to_string(), source },
            })?;
        let mut wire = MessageStream::new(stream).map_err(|error| match error {
            // It was reset before it was looked at.
            Error::Io { source, .. } if source.kind() == ErrorKind::NotConnected => {
                Error::TurnedAway { peer: agent.to_string() }
            }
            error => error,
        })?;
        handshake::connect_handshake(&mut wire, token, &node.interrupt)?;
        Ok(Self { node, wire })
    }

    /// Does a test with the agent. If perftest could not find its clock, once more.
    ///
    /// # Errors
    /// Whatever kept either end from a result.
    pub fn measure(&mut self, order: &TestRequest) -> Result<TestResult, Error> {
        order.test.require_consistent()?;
        let attempts = if order.test.duration.get() <= MAX_RETRY_SECONDS { MAX_ATTEMPTS } else { 1 };
        let mut attempt = 1;
        loop {
            match self.measure_once(order) {
                Err(Error::Unusable { .. }) if attempt < attempts => attempt += 1,
                result => return result,
            }
        }
    }

    fn measure_once(&mut self, order: &TestRequest) -> Result<TestResult, Error> {
        let program = self.node.launcher.find(order.test.kind, order.test.operation)?;
        let peer = self.wire.peer();
        let selected = self.node.select(&order.wanted, Some(peer), self.wire.local())?;
        let gid = selected.gid.as_ref().map(|gid| gid::address(gid.entry.gid));
        self.wire.send(&AgentRequest::Test { test: order.test, wanted: order.peer_wanted.clone(), gid })?;
        let (tcp_port, theirs) = match self.receive(PREPARE_TIMEOUT)? {
            AgentReply::Ready { tcp_port, end } => (tcp_port, end),
            _ => return Err(self.wire.protocol("it is not ready")),
        };
        // Now that their GID is known, there may be a better one for it.
        let selected = self.node.select(&order.wanted, theirs.gid.or(Some(peer)), self.wire.local())?;
        let session = LocalEnd::new(self.node, program, &order.test, &selected);
        let output = session.run(peer, tcp_port)?;
        self.wire.send(&AgentRequest::Finished)?;
        let ours = session.end();
        let theirs = self.other_end(&output)?;
        record(order, &output, ours, theirs)
    }

    /// What the agent says when the test is over. If both ends failed, both are heard.
    fn other_end(&mut self, output: &ProgramOutput) -> Result<TestEnd, Error> {
        match self.receive(SERVER_END_TIMEOUT) {
            Ok(AgentReply::Done { end }) if output.is_success() => Ok(*end),
            Ok(AgentReply::Done { .. }) => Err(output.failure()),
            Err(Error::Refused { peer, mut refusal }) if !output.is_success() => {
                refusal.message = format!("{}; at this end: {}", refusal.message, output.failure()).into();
                Err(Error::Refused { peer, refusal })
            }
            Err(_) if !output.is_success() => Err(output.failure()),
            Err(error) => Err(error),
            Ok(_) => Err(self.wire.protocol("it is not done")),
        }
    }

    /// Has the agent do a test with another agent, for at most as long as it says that it works.
    ///
    /// # Errors
    /// Whatever kept either agent from a result.
    pub fn run_between_agents(&mut self, run: RemoteTest) -> Result<TestResult, Error> {
        self.wire.send(&AgentRequest::Run(Box::new(run)))?;
        loop {
            match self.receive(HEARTBEAT_TIMEOUT)? {
                AgentReply::Working => {}
                AgentReply::Result { record } => return Ok(*record),
                _ => return Err(self.wire.protocol("it has no result")),
            }
        }
    }

    fn receive(&mut self, within: Duration) -> Result<AgentReply, Error> {
        match self.wire.receive(within, &self.node.interrupt)? {
            AgentReply::Refused(refusal) if refusal.reason == RefusalReason::Unusable => {
                Err(Error::Unusable {
                    program: "perftest",
                    why: refusal.message.to_string(),
                    said: String::new(),
                })
            }
            AgentReply::Refused(refusal) => {
                Err(Error::Refused { peer: self.wire.peer().to_string(), refusal })
            }
            reply => Ok(reply),
        }
    }

    /// Whom it is connected with.
    pub fn peer(&self) -> IpAddr {
        self.wire.peer()
    }
}

fn record(
    order: &TestRequest,
    output: &ProgramOutput,
    client: TestEnd,
    server: TestEnd,
) -> Result<TestResult, Error> {
    let TestSpec { kind, operation, .. } = order.test;
    let program = operation.program(kind);
    let measurement = perftest::parse(kind, &output.printed).map_err(|why| match why {
        UnusableOutput::NoMessage => Error::Unanswered { program, said: why.to_string() },
        why => {
            let said = output.complaints.lines().map(str::trim).collect::<Vec<_>>().join("; ");
            Error::Unusable { program, why: why.to_string(), said: plain(&said, 400) }
        }
    })?;
    let verdict =
        judge(kind, order.test.size.get(), &measurement, order.limit, [client.speed_mbps, server.speed_mbps]);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(TestResult { id: 0, time, test: order.test, measurement, verdict, client, server })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_usual_port_or_its_own() {
        assert_eq!(resolve("127.0.0.1").unwrap().to_string(), "127.0.0.1:18514");
        assert_eq!(resolve("127.0.0.1:99").unwrap().to_string(), "127.0.0.1:99");
        for bad in ["", "127.0.0.1:99999", "-d", "a b", "[::1]:5", "::1"] {
            assert!(resolve(bad).is_err(), "{bad:?}");
        }
    }
}
