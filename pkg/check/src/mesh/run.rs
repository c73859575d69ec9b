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
