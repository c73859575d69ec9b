//! The end that requests a test from an agent.

use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    Error, Iterations, PortSelector, Seconds, TestKind, TestSpec, gid_selection,
    local_end::{LocalContext, LocalEnd},
    node_port::{MAX_NODE_PORTS, NodePort},
    perftest::{self, ProgramOutput, UnusableOutput},
    port_selection::select,
    protocol::{AgentReply, AgentRequest, CheckToken, MessageStream, RefusalReason, RemoteTest, handshake},
    sanitized_text::plain,
    start_line::StartPlace,
    test_result::{TestEnd, TestResult},
    verdict::{Threshold, judge},
};

/// The default TCP port of agents.
pub const PORT: u16 = 18514;

/// Timeout of `connect(2)`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an agent may take to select a port and to start perftest's server.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(40);

/// How long an agent may take to end its server and to read the counters.
const SERVER_END_TIMEOUT: Duration = Duration::from_secs(15);

/// How long an agent that runs a test with another agent may send nothing.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(45);

/// Attempts per test: perftest measures the CPU's clock rate, which can fail on a busy machine; then all its numbers are 0.
const MAX_ATTEMPTS: usize = 3;

/// Tests longer than this are not repeated.
const MAX_RETRY_SECONDS: u16 = 60;

/// The fewest messages of a latency test: the 99.9th percentile is one of them.
const MIN_LATENCY_MESSAGES: u32 = 1000;

/// The most messages of a latency test: perftest keeps the time of each.
const MAX_LATENCY_MESSAGES: u32 = 5_000_000;

/// A test, with the ports to use and the threshold to pass.
#[derive(Debug, Clone)]
pub struct TestRequest {
    /// What to measure.
    pub test: TestSpec,
    /// The device, port and GID for this end.
    pub wanted: PortSelector,
    /// The device, port and GID for the other end.
    pub peer_wanted: PortSelector,
    /// The threshold for the verdict.
    pub limit: Threshold,
}

/// Resolves `HOST` or `HOST:PORT` to the IPv4 address of an agent.
///
/// # Errors
/// [`Error::Connect`] if the host has no IPv4 address: perftest connects its two ends over IPv4.
pub fn resolve(host: &str) -> Result<SocketAddr, Error> {
    let with_port = |text: &str| (text, PORT).to_socket_addrs();
    let found = if host.rsplit_once(':').is_some() { host.to_socket_addrs() } else { with_port(host) };
    let failed = |source| Error::Connect { peer: host.to_owned(), source };
    let mut found = found.map_err(failed)?;
    found
        .find(SocketAddr::is_ipv4)
        .ok_or_else(|| failed(std::io::Error::other("the host has no IPv4 address")))
}

/// An authenticated connection to an agent.
#[derive(Debug)]
pub struct Client<'a> {
    node: &'a LocalContext,
    wire: MessageStream,
    /// Whether perftest of this end was run in the last test.
    has_sent: bool,
}

impl<'a> Client<'a> {
    /// Connects to an agent and completes the handshake.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::NotTrusted`], [`Error::Refused`], …
    pub fn connect(
        node: &'a LocalContext,
        agent: SocketAddr,
        token: Option<&CheckToken>,
    ) -> Result<Self, Error> {
        Self::connect_until(node, agent, token, None)
    }

    /// Connects as [`Client::connect`] does. All waits of this connection end at `deadline`.
    ///
    /// # Errors
    /// Those of [`Client::connect`]; [`Error::TimedOut`].
    pub fn connect_until(
        node: &'a LocalContext,
        agent: SocketAddr,
        token: Option<&CheckToken>,
        deadline: Option<Instant>,
    ) -> Result<Self, Error> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let within = left.unwrap_or(CONNECT_TIMEOUT).clamp(Duration::from_millis(1), CONNECT_TIMEOUT);
        let stream = TcpStream::connect_timeout(&agent, within).map_err(|source| match source.kind() {
            ErrorKind::ConnectionReset => Error::ClosedBeforeGreeting { peer: agent.to_string() },
            _ => Error::Connect { peer: agent.to_string(), source },
        })?;
        let mut wire = MessageStream::new(stream).map_err(|error| match error {
            // The connection was reset before its address could be read.
            Error::Io { source, .. } if source.kind() == ErrorKind::NotConnected => {
                Error::ClosedBeforeGreeting { peer: agent.to_string() }
            }
            error => error,
        })?;
        wire.set_deadline(deadline);
        handshake::connect_handshake(&mut wire, token, &node.interrupt)?;
        Ok(Self { node, wire, has_sent: false })
    }

    /// Runs a test with the agent. Repeats a short test whose result is unusable, up to three attempts in total.
    ///
    /// # Errors
    /// Any error at either end.
    pub fn measure(&mut self, request: &TestRequest) -> Result<TestResult, Error> {
        request.test.require_consistent()?;
        let attempts = if request.test.duration.get() <= MAX_RETRY_SECONDS { MAX_ATTEMPTS } else { 1 };
        let mut attempt = 1;
        loop {
            match self.measure_all(request, None) {
                Err(Error::Unusable { .. }) if attempt < attempts => attempt += 1,
                result => return result,
            }
        }
    }

    /// Runs a test with the agent that starts together with those of other rails. It is not repeated: the others have ended.
    ///
    /// # Errors
    /// Any error at either end.
    pub fn measure_with_others(
        &mut self,
        request: &TestRequest,
        start: &StartPlace<'_>,
    ) -> Result<TestResult, Error> {
        request.test.require_consistent()?;
        self.measure_all(request, Some(start))
    }

    /// Runs a test of latency with a number of messages, and returns the time of each message in microseconds, too.
    ///
    /// # Errors
    /// Any error at either end.
    pub fn probe(&mut self, request: &TestRequest) -> Result<(TestResult, Vec<f64>), Error> {
        request.test.require_consistent()?;
        let (result, output) = self.measure_with_output(request, None, true)?;
        Ok((result, perftest::samples(&output.printed)))
    }

    /// Measures latency twice: for a short time, and then with the number of messages that fit the duration, because
    /// perftest has percentiles only of a number of messages.
    fn measure_all(
        &mut self,
        request: &TestRequest,
        start: Option<&StartPlace<'_>>,
    ) -> Result<TestResult, Error> {
        if request.test.kind == TestKind::Bandwidth || request.test.messages.is_some() {
            return self.measure_once(request, start);
        }
        let mut brief = request.clone();
        brief.test.duration = Seconds::SHORTEST;
        let average_us = self.measure_once(&brief, start)?.value().unwrap_or(f64::INFINITY);
        let mut whole = request.clone();
        whole.test.messages = Some(messages(request.test.duration, average_us));
        self.measure_once(&whole, start)
    }

    fn measure_once(
        &mut self,
        request: &TestRequest,
        start: Option<&StartPlace<'_>>,
    ) -> Result<TestResult, Error> {
        self.measure_with_output(request, start, false).map(|(result, _)| result)
    }

    fn measure_with_output(
        &mut self,
        request: &TestRequest,
        start: Option<&StartPlace<'_>>,
        samples: bool,
    ) -> Result<(TestResult, ProgramOutput), Error> {
        self.has_sent = false;
        let program = self.node.launcher.find(request.test.kind, request.test.operation)?;
        let peer = self.wire.peer();
        let ports = self.node.candidate_ports(&request.wanted)?;
        let selected = select(&ports, &request.wanted, Some(peer), self.wire.local())?;
        let mut reserved = Some(self.node.reserve(&selected)?);
        let gid = selected.gid.as_ref().map(|gid| gid_selection::address(gid.entry.gid));
        self.wire.send(&AgentRequest::Test {
            test: request.test,
            wanted: request.peer_wanted.clone(),
            gid,
        })?;
        let (tcp_port, remote) = match self.receive(PREPARE_TIMEOUT)? {
            AgentReply::Ready { tcp_port, end } => (tcp_port, end),
            _ => return Err(self.wire.protocol("expected the message \"ready\"")),
        };
        // Now that the GID of the other end is known, another GID of this end may fit better.
        let selected = select(&ports, &request.wanted, remote.gid.or(Some(peer)), self.wire.local())?;
        if reserved.as_ref().is_none_or(|reserved| !reserved.is_of(&selected)) {
            // The former port first, so that two tests that exchange their ports do not wait for each other.
            drop(reserved.take());
            reserved = Some(self.node.reserve(&selected)?);
        }
        let _reserved = reserved;
        let local_end = LocalEnd::new(self.node, program, &request.test, &selected)?;
        if let Some(start) = start {
            start.wait(&self.node.interrupt)?;
        }
        let output = local_end.run(&self.wire, tcp_port, samples);
        // A program that fails has an output.
        self.has_sent = matches!(output, Ok(_) | Err(Error::TimedOut { .. }));
        let output = output?;
        self.wire.send(&AgentRequest::Finished)?;
        let local = local_end.end();
        let remote = self.other_end(&output)?;
        let result = record(request, &output, local, remote)?;
        Ok((result, output))
    }

    /// Receives the agent's last message of a test. If both ends failed, the error contains the messages of both.
    fn other_end(&mut self, output: &ProgramOutput) -> Result<TestEnd, Error> {
        match self.receive(SERVER_END_TIMEOUT) {
            Ok(AgentReply::Done { end }) if output.is_success() => Ok(*end),
            Ok(AgentReply::Done { .. }) => Err(output.failure()),
            Err(Error::Refused { peer, mut refusal }) if !output.is_success() => {
                refusal.message = format!("{}; the client: {}", refusal.message, output.failure()).into();
                Err(Error::Refused { peer, refusal })
            }
            Err(_) if !output.is_success() => Err(output.failure()),
            Err(error) => Err(error),
            Ok(_) => Err(self.wire.protocol("expected the message \"done\"")),
        }
    }

    /// Has the agent test with another agent, on all rails of the request at the same time. Waits as long as the agent sends
    /// [`AgentReply::Working`]. Writes the result or the error of each rail to `outcomes`, which keeps those that arrived
    /// before an error.
    ///
    /// # Errors
    /// An error of the connection, or a refusal of the whole request.
    pub fn run_between_agents(
        &mut self,
        run: RemoteTest,
        outcomes: &mut [Option<Result<TestResult, Error>>],
    ) -> Result<(), Error> {
        self.wire.send(&AgentRequest::Run(Box::new(run)))?;
        loop {
            let (rail, outcome) = match self.receive(HEARTBEAT_TIMEOUT)? {
                AgentReply::Working => continue,
                AgentReply::Result { rail, record } => (rail, Ok(*record)),
                AgentReply::RailFailed { rail, refusal } => {
                    (rail, Err(Error::Refused { peer: self.wire.peer().to_string(), refusal }))
                }
                AgentReply::RunDone => return Ok(()),
                _ => return Err(self.wire.protocol("expected the message \"result\"")),
            };
            match outcomes.get_mut(rail) {
                Some(place) => *place = Some(outcome),
                None => return Err(self.wire.protocol("a result of a rail that was not requested")),
            }
        }
    }

    /// Returns the agent's ports.
    ///
    /// # Errors
    /// An error of the connection; [`Error::Refused`], for example if the node has no RDMA devices.
    pub fn ports(&mut self) -> Result<Vec<NodePort>, Error> {
        self.wire.send(&AgentRequest::Ports)?;
        match self.receive(PREPARE_TIMEOUT)? {
            AgentReply::Ports { ports, .. } if ports.len() <= MAX_NODE_PORTS => Ok(ports),
            _ => Err(self.wire.protocol("expected the message \"ports\"")),
        }
    }

    fn receive(&mut self, within: Duration) -> Result<AgentReply, Error> {
        match self.wire.receive(within, &self.node.interrupt)? {
            AgentReply::Refused(refusal) if refusal.reason == RefusalReason::Unusable => {
                Err(Error::Unusable {
                    program: "perftest",
                    why: refusal.message.to_string(),
                    output: String::new(),
                })
            }
            AgentReply::Refused(refusal) => {
                Err(Error::Refused { peer: self.wire.peer().to_string(), refusal })
            }
            reply => Ok(reply),
        }
    }

    /// Whether the last test got as far as RDMA: perftest was run at this end. An error before it is none of the fabric.
    pub fn has_sent(&self) -> bool {
        self.has_sent
    }

    /// Returns the IP address of the agent.
    pub fn peer(&self) -> IpAddr {
        self.wire.peer()
    }
}

/// Returns the number of messages that take about this long. A message and its reply take twice the latency.
fn messages(duration: Seconds, average_us: f64) -> Iterations {
    let most = f64::from(MAX_LATENCY_MESSAGES);
    let fit = f64::from(duration.get()) * 1e6 / (2.0 * average_us);
    let fit = if fit.is_finite() { fit } else { 0.0 }.clamp(f64::from(MIN_LATENCY_MESSAGES), most);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is within the bounds above"
    )]
    let fit = fit as u32;
    u64::from(fit).try_into().unwrap_or(Iterations::LEAST)
}

fn record(
    request: &TestRequest,
    output: &ProgramOutput,
    client: TestEnd,
    server: TestEnd,
) -> Result<TestResult, Error> {
    let TestSpec { kind, operation, .. } = request.test;
    let program = operation.program(kind);
    let measurement = perftest::parse(kind, &output.printed).map_err(|why| match why {
        UnusableOutput::NoMessage => Error::Unanswered { program, output: why.to_string() },
        why => {
            let output = output.complaints.lines().map(str::trim).collect::<Vec<_>>().join("; ");
            Error::Unusable { program, why: why.to_string(), output: plain(&output, 400) }
        }
    })?;
    let speeds = [client.speed_mbps, server.speed_mbps];
    let verdict = judge(&request.test, &measurement, request.limit, speeds);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(TestResult { id: 0, time, test: request.test, measurement, verdict, client, server })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_default_port_or_its_own() {
        assert_eq!(resolve("127.0.0.1").unwrap().to_string(), "127.0.0.1:18514");
        assert_eq!(resolve("127.0.0.1:99").unwrap().to_string(), "127.0.0.1:99");
        for bad in ["", "127.0.0.1:99999", "-d", "a b", "[::1]:5", "::1"] {
            assert!(resolve(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_number_of_messages_fits_the_duration() {
        let of = |seconds: u64, us| messages(seconds.try_into().unwrap(), us).get();
        assert_eq!([of(5, 2.0), of(1, 500.0)], [1_250_000, 1000]);
        assert_eq!([of(3600, 1.0), of(1, 0.0), of(1, f64::NAN)], [5_000_000, 1000, 1000]);
    }
}
