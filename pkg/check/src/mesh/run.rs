//! Runs the rounds from one host: it instructs the agents, which test each other.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::{
    announcement::Announcement,
    pair::NodePair,
    plan::MeshPlan,
    result::{MeshResult, StopReason},
    strikes::Strikes,
    survey::Survey,
};
use crate::{
    Error,
    client::Client,
    local_end::LocalContext,
    port_counters::is_trouble,
    protocol::{MAX_RAILS, RailEnds, RemoteTest},
    test_result::TestResult,
};

/// A round that has ended.
#[derive(Debug)]
pub struct RoundReport<'a> {
    /// The number of the round, from 1.
    pub round: usize,
    /// The number of rounds.
    pub rounds: usize,
    /// The tests of the round.
    pub pairs: &'a mut [NodePair],
    /// The expected time until the last round ends.
    pub left: Duration,
}

/// The outcome of a test on one rail.
type Outcome = Option<Result<TestResult, Error>>;

/// Runs all rounds. Calls `on_round` after each, so that its results are kept if later ones fail. Neither a node that hangs
/// nor an interrupt loses the results of the others: each test has a time limit, and all rounds together.
pub fn run(
    plan: &MeshPlan,
    survey: &Survey,
    node: &LocalContext,
    mut on_round: impl FnMut(RoundReport<'_>),
) -> MeshResult {
    let announced = Announcement::new(plan, survey);
    let schedule = survey.schedule(plan);
    let (began, rounds) = (Instant::now(), schedule.len());
    let deadline = began + announced.longest;
    let (mut pairs, mut strikes, mut stopped) = (Vec::new(), Strikes::default(), None);
    for (number, round) in schedule.into_iter().enumerate() {
        stopped = stopped.or_else(|| reason_to_stop(node, deadline));
        let tests: Vec<_> = round.into_iter().map(|(a, b)| ((a, b), rails(survey, &strikes, a, b))).collect();
        if let Some(reason) = stopped {
            pairs.extend(tests.into_iter().flat_map(|((a, b), tested)| skipped(a, b, tested, reason)));
            continue;
        }
        let until = deadline.min(Instant::now() + plan.longest());
        let mut ended = run_round(plan, survey, node, &tests, until);
        for (pair, is_silent) in &ended {
            if !pair.skipped {
                strikes.count(pair, *is_silent);
            }
        }
        let mut of_round: Vec<NodePair> = ended.drain(..).map(|(pair, _)| pair).collect();
        let done = number + 1;
        let left =
            remaining(began.elapsed(), done, rounds).min(deadline.saturating_duration_since(Instant::now()));
        on_round(RoundReport { round: done, rounds, pairs: &mut of_round, left });
        pairs.extend(of_round);
    }
    // An interrupt during the last round has ended its tests.
    stopped = stopped.or_else(|| node.interrupt.is_requested().then_some(StopReason::Interrupted));
    let nodes = plan.agents.iter().map(|(name, _)| name.clone()).collect();
    let rails = survey.rails().map(|table| table.rails.clone()).unwrap_or_default();
    let mut result = MeshResult::new(nodes, rails, pairs, plan.test.kind);
    result.missing_ports =
        survey.rails().map(|table| table.missing(&survey.responding())).unwrap_or_default();
    result.failed_nodes = survey.failed();
    result.failed_nodes.extend(strikes.failed());
    result.stopped = stopped;
    result
}

fn reason_to_stop(node: &LocalContext, deadline: Instant) -> Option<StopReason> {
    if node.interrupt.is_requested() {
        Some(StopReason::Interrupted)
    } else {
        (Instant::now() >= deadline).then_some(StopReason::TimeLimit)
    }
}

/// Returns the time that the remaining rounds take if they are as long as the average so far.
fn remaining(elapsed: Duration, done: usize, rounds: usize) -> Duration {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    elapsed / count(done).max(1) * count(rounds.saturating_sub(done))
}

/// The rails to test between two nodes, each with whether one of its ends has been given up.
type TestedRails = Vec<(Option<usize>, bool)>;

fn rails(survey: &Survey, strikes: &Strikes, a: usize, b: usize) -> TestedRails {
    let common: Vec<Option<usize>> = match survey.rails() {
        None => vec![None],
        Some(table) => table.common(a, b).into_iter().take(MAX_RAILS).map(Some).collect(),
    };
    let given_up = |rail| [a, b].iter().any(|node| strikes.has_given_up(*node, rail));
    common.into_iter().map(|rail| (rail, given_up(rail))).collect()
}

fn skipped(client: usize, server: usize, rails: TestedRails, reason: StopReason) -> Vec<NodePair> {
    let why = match reason {
        StopReason::Interrupted => "skipped: interrupted",
        StopReason::TimeLimit => "skipped: the time limit was reached",
    };
    let pair = |(rail, _)| failed(client, server, rail, why.to_owned(), true);
    rails.into_iter().map(pair).collect()
}

fn failed(client: usize, server: usize, rail: Option<usize>, why: String, skipped: bool) -> NodePair {
    NodePair { client, server, rail, record: None, error: Some(why), skipped }
}

/// Runs the tests of a round at the same time. Returns each with whether an end did not respond.
fn run_round(
    plan: &MeshPlan,
    survey: &Survey,
    node: &LocalContext,
    tests: &[((usize, usize), TestedRails)],
    until: Instant,
) -> Vec<(NodePair, bool)> {
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for ((client, server), tested) in tests {
            let (client, server) = (*client, *server);
            let to_results = sender.clone();
            let test = move || {
                // Sending fails only if the receiver has been dropped.
                let _ = to_results.send(run_pair(plan, survey, node, (client, server), tested, until));
            };
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, test) {
                let why = format!("no thread could be created: {error}");
                let pairs =
                    tested.iter().map(|(rail, _)| (failed(client, server, *rail, why.clone(), true), false));
                let _ = sender.send(pairs.collect());
            }
        }
        drop(sender);
        results.into_iter().flatten().collect()
    })
}

/// Tests all rails between two nodes at the same time.
fn run_pair(
    plan: &MeshPlan,
    survey: &Survey,
    node: &LocalContext,
    (client, server): (usize, usize),
    tested: &TestedRails,
    until: Instant,
) -> Vec<(NodePair, bool)> {
    let given_up = "skipped: a node that did not respond has been given up".to_owned();
    let (skipped, rails): (TestedRails, TestedRails) = tested.iter().partition(|(_, given_up)| *given_up);
    let mut pairs: Vec<(NodePair, bool)> = skipped
        .into_iter()
        .map(|(rail, _)| (failed(client, server, rail, given_up.clone(), true), false))
        .collect();
    if rails.is_empty() {
        return pairs;
    }
    let ends = |rail: &(Option<usize>, bool)| match (rail.0, survey.rails()) {
        (Some(rail), Some(table)) => {
            let selector = |node| table.port(node, rail).map(|port| port.selector()).unwrap_or_default();
            RailEnds { wanted: selector(client), peer_wanted: selector(server) }
        }
        _ => RailEnds::default(),
    };
    let run = RemoteTest {
        against: plan.agents[server].1,
        test: plan.test,
        rails: rails.iter().map(ends).collect(),
        limit: plan.limit,
    };
    let mut outcomes: Vec<Outcome> = rails.iter().map(|_| None).collect();
    let connected = Client::connect_until(node, plan.agents[client].1, plan.token.as_ref(), Some(until));
    let ended = connected.and_then(|mut client| client.run_between_agents(run, &mut outcomes));
    let limit = plan.longest().as_secs();
    for ((rail, _), outcome) in rails.into_iter().zip(outcomes) {
        pairs.push(match (outcome, &ended) {
            (Some(Ok(record)), _) => {
                let record = Some(without_traffic_counters(record));
                (NodePair { client, server, rail, record, error: None, skipped: false }, false)
            }
            (Some(Err(error)), _) => {
                (failed(client, server, rail, error.to_string(), false), is_silent(&error))
            }
            (None, Err(error)) if Instant::now() >= until => {
                let why = format!("no result within {limit} s ({error})");
                (failed(client, server, rail, why, false), true)
            }
            (None, Err(error)) => (failed(client, server, rail, error.to_string(), false), is_silent(error)),
            (None, Ok(())) => (failed(client, server, rail, "no result".into(), false), false),
        });
    }
    pairs
}

/// Keeps the counters that indicate problems. A mesh of a thousand nodes has tens of thousands of results.
fn without_traffic_counters(mut record: TestResult) -> TestResult {
    for end in [&mut record.client, &mut record.server] {
        end.counters.retain(|name, _| is_trouble(name.as_str()));
    }
    record
}

/// Whether an error means that an end did not respond, and not that it refused.
fn is_silent(error: &Error) -> bool {
    matches!(error, Error::TimedOut { .. } | Error::Connect { .. } | Error::Closed { .. })
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
        process::Command,
        sync::Arc,
    };

    use nix::sys::socket::{Backlog, listen};

    use super::*;
    use crate::{
        Interrupt, RdmaOperation, TestKind, TestSpec,
        mesh::{DEFAULT_TEST_SLACK, SlowPort, survey},
        node_port::NodePort,
        perftest::Launcher,
        protocol::{AgentReply, AgentRequest, MessageStream, handshake::accept_handshake},
        test_result::tests::record,
    };

    const RAILS: usize = 8;

    /// The node whose port on rail 3 is slow.
    const SLOW: usize = 777;

    /// The address of a node: all are of the loopback interface, and have one listener.
    fn address(node: usize) -> Ipv4Addr {
        let [_, _, high, low] = u32::try_from(node).unwrap().to_be_bytes();
        Ipv4Addr::new(127, 1, high, low)
    }

    fn number(address: IpAddr) -> usize {
        let IpAddr::V4(v4) = address else { panic!("{address}") };
        let [_, _, high, low] = v4.octets();
        usize::from(high) << 8 | usize::from(low)
    }

    /// The ports of a node, whose devices have other names on every second node.
    fn ports(node: usize) -> Vec<NodePort> {
        let port = |rail: usize| NodePort {
            device: format!("mlx5_{}", rail + node % 2 * RAILS).parse().unwrap(),
            port: 1u64.try_into().unwrap(),
            infiniband: false,
            link: None,
            address: None,
            networks: vec![format!("10.{rail}.0.0/16").as_str().into()],
            speed_mbps: Some(100_000),
            pci: None,
            numa_node: None,
            unusable: None,
        };
        (0..RAILS).map(port).collect()
    }

    /// A played agent: the protocol is real, and the results are invented.
    fn play_agent(stream: TcpStream) {
        let mut wire = MessageStream::new(stream).unwrap();
        let node = number(wire.local().unwrap());
        let never = Interrupt::never();
        accept_handshake(&mut wire, None, &never, |_| Ok(())).unwrap();
        while let Ok(request) = wire.receive(Duration::from_secs(60), &never) {
            match request {
                AgentRequest::Ports => {
                    wire.send(&AgentReply::Ports { node: "node".into(), ports: ports(node) }).unwrap();
                }
                AgentRequest::Run(run) => {
                    let peer = number(run.against.ip());
                    for (rail, ends) in run.rails.iter().enumerate() {
                        assert_eq!(ends.wanted, ports(node)[rail].selector());
                        assert_eq!(ends.peer_wanted, ports(peer)[rail].selector());
                        let is_slow = [node, peer].contains(&SLOW) && rail == 3;
                        let mut record = record(if is_slow { 40.0 } else { 95.0 });
                        record.server.counters.insert("hw_counters/packet_seq_err".into(), 1);
                        wire.send(&AgentReply::Result { rail, record: Box::new(record) }).unwrap();
                    }
                    wire.send(&AgentReply::RunDone).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_thousand_nodes_with_eight_rails_are_tested_in_a_few_rounds() {
        // Both ends of 500 connections are files of this process.
        let pid = std::process::id().to_string();
        let raised = Command::new("prlimit").args(["--pid", &pid, "--nofile=4096:"]).status().unwrap();
        assert!(raised.success(), "4096 open files");
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        // A round has 500 clients and std queues 128 connections. A client that is not queued tries again after
        // 1 s and 3 s, and gives up after 5 s.
        listen(&listener, Backlog::new(1024).unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(move || play_agent(stream.unwrap()));
            }
        });
        let agents = (0..1000).map(|node| (format!("node{node}"), SocketAddr::from((address(node), port))));
        let one = |n: u64| n.try_into().unwrap();
        let (size, queue_pairs) = (65_536u64.try_into().unwrap(), 1u64.try_into().unwrap());
        let plan = MeshPlan {
            agents: agents.collect(),
            test: TestSpec::new(TestKind::Bandwidth, RdmaOperation::Write, size, queue_pairs, one(1)),
            limit: Default::default(),
            token: None,
            rails: Some(Vec::new()),
            rounds: Some(3),
            seed: 0,
            test_slack: DEFAULT_TEST_SLACK,
            time_limit: None,
        };
        let node = LocalContext {
            launcher: Launcher { path: "/nonexistent".into(), wrapper: Vec::new(), versions: Arc::default() },
            sysfs: sysfs::Sysfs::system(),
            interrupt: Interrupt::never(),
            ports_in_use: Arc::default(),
        };
        let survey = survey(&plan, &node).unwrap();
        let announced = Announcement::new(&plan, &survey);
        assert_eq!((announced.nodes, announced.rails, announced.rounds), (1000, Some(RAILS), 3));
        assert_eq!((announced.tests, announced.all_pairs), (3 * 500 * RAILS, false));
        assert_eq!(
            (announced.expected, announced.longest),
            (Duration::from_secs(9), Duration::from_secs(63))
        );
        let mut rounds = 0;
        let result = run(&plan, &survey, &node, |round| {
            rounds += 1;
            assert_eq!((round.round, round.pairs.len()), (rounds, 500 * RAILS));
        });
        assert_eq!((rounds, result.failures(), result.is_incomplete()), (3, 0, false));
        assert_eq!(result.slow_ports, [SlowPort { node: SLOW, rail: 3, outliers: 3, pairs: 3 }]);
        assert!(result.slow_nodes.is_empty() && result.slow_rails.is_empty());
        assert_eq!(result.outliers.len(), 3);
        let counters = |pair: &NodePair| {
            let record = pair.record.as_ref().unwrap();
            (record.client.counters.len(), record.server.counters.len())
        };
        assert!(result.pairs.iter().all(|pair| counters(pair) == (0, 1)), "only those of problems are kept");
    }

    #[test]
    fn the_remaining_rounds_take_as_long_as_those_before() {
        let seconds = |done, rounds| remaining(Duration::from_secs(10), done, rounds).as_secs();
        assert_eq!([seconds(2, 5), seconds(1, 2), seconds(5, 5), seconds(0, 3)], [15, 10, 0, 30]);
    }

    #[test]
    fn a_refusal_is_no_silence() {
        let peer = || "192.0.2.1".to_owned();
        let refusal = crate::protocol::AgentRefusal {
            reason: crate::protocol::RefusalReason::Busy,
            message: "busy".into(),
        };
        let source = std::io::ErrorKind::ConnectionRefused.into();
        let silent = [
            Error::TimedOut { what: "receive".into(), seconds: 45 },
            Error::Connect { peer: peer(), source },
            Error::Closed { peer: peer() },
        ];
        assert!(silent.iter().all(is_silent));
        let others =
            [Error::Refused { peer: peer(), refusal }, Error::Interrupted, Error::Altered { peer: peer() }];
        assert!(!others.iter().any(is_silent));
    }
}
