//! A round of probes: each chosen node on each rail, one after the other.

use std::net::SocketAddr;

use super::record::{FailureReason, ProbeRecord, ProbedPair};
use crate::{
    DeviceName, Error, RdmaOperation, TestSpec,
    client::{Client, TestRequest, resolve},
    local_end::LocalContext,
    mesh::RailTable,
    node_port::{NodePort, node_ports},
    protocol::{CheckToken, RefusalReason},
    verdict::Threshold,
};

/// What is probed.
#[derive(Debug)]
pub struct ProberOptions {
    /// The agents to probe, with their names.
    pub peers: Vec<(String, SocketAddr)>,
    /// The test of each probe: one of latency, with a number of messages.
    pub test: TestSpec,
    /// The RDMA devices of this node to probe from; all if empty.
    pub devices: Vec<DeviceName>,
    /// The shared secret of all nodes.
    pub token: Option<CheckToken>,
}

/// Makes rounds of probes.
#[derive(Debug)]
pub struct Prober<'a> {
    /// This node.
    pub node: &'a LocalContext,
    /// What is probed.
    pub options: ProberOptions,
    /// What was seen until now.
    pub record: ProbeRecord,
}

/// The result of one probe, or why there is none.
#[derive(Debug)]
pub struct ProbeOutcome<'a> {
    /// The other node.
    pub peer: &'a str,
    /// The RDMA devices of both nodes, if a rail was probed.
    pub devices: Option<(String, String)>,
    /// The median and the maximum of the round trips in seconds, or the error.
    pub round_trip: Result<(f64, f64), String>,
}

impl Prober<'_> {
    /// Probes each node once, on each rail. `report` is called after each probe. Returns whether the process was asked to exit.
    ///
    /// # Errors
    /// If the ports of this node cannot be read.
    pub fn round(&mut self, report: &mut dyn FnMut(&ProbeOutcome<'_>)) -> Result<bool, Error> {
        let own = node_ports(&self.node.sysfs)?;
        for at in 0..self.options.peers.len() {
            if self.node.interrupt.is_requested() {
                return Ok(true);
            }
            self.probe_node(at, &own, report);
        }
        Ok(self.node.interrupt.is_requested())
    }

    fn probe_node(&mut self, at: usize, own: &[NodePort], report: &mut dyn FnMut(&ProbeOutcome<'_>)) {
        let Self { node, options, record } = self;
        let Some((peer, address)) = options.peers.get(at) else { return };
        let not_made = |record: &mut ProbeRecord, reason, why: String| {
            *record.not_made.entry((peer.clone(), reason)).or_default() += 1;
            ProbeOutcome { peer, devices: None, round_trip: Err(why) }
        };
        let connected = Client::connect(node, *address, options.token.as_ref())
            .and_then(|mut client| client.ports().map(|ports| (client, ports)));
        let (mut client, theirs) = match connected {
            Ok(connected) => connected,
            Err(Error::Interrupted) => return,
            Err(error) => {
                report(&not_made(record, no_agent(&error), error.to_string()));
                // A node or pod may have another address since it restarted.
                if let Some((peer, address)) = options.peers.get_mut(at) {
                    *address = resolve(peer).unwrap_or(*address);
                }
                return;
            }
        };
        let table = RailTable::new(&[own.to_vec(), theirs], &[]);
        let rails: Vec<_> = table
            .common(0, 1)
            .into_iter()
            .filter_map(|rail| Some((table.port(0, rail)?, table.port(1, rail)?)))
            .filter(|(port, _)| options.devices.is_empty() || options.devices.contains(&port.device))
            .collect();
        if rails.is_empty() {
            let why = "no port of this node is on a rail of that node".to_owned();
            return report(&not_made(record, FailureReason::NoRail, why));
        }
        for (number, (port, their_port)) in rails.iter().enumerate() {
            let request = TestRequest {
                test: options.test,
                wanted: port.selector(),
                peer_wanted: their_port.selector(),
                limit: Threshold::default(),
            };
            let devices = (port.device.to_string(), their_port.device.to_string());
            let pair =
                ProbedPair { device: devices.0.clone(), peer: peer.clone(), peer_device: devices.1.clone() };
            let outcome = match client.probe(&request) {
                Ok((_, samples)) if !samples.is_empty() => {
                    let round_trips: Vec<f64> =
                        samples.iter().map(|us| round_trip_seconds(options.test.operation, *us)).collect();
                    record.rails.entry(pair).or_default().add(round_trips.iter().copied());
                    ProbeOutcome { peer, devices: Some(devices), round_trip: summary(round_trips) }
                }
                Err(Error::Interrupted) => return,
                Err(error) if !client.has_sent() => not_made(record, not_started(&error), error.to_string()),
                failed => {
                    record.rails.entry(pair).or_default().failures += 1;
                    let why = failed.err().map_or_else(|| NO_SAMPLES.to_owned(), |error| error.to_string());
                    ProbeOutcome { peer, devices: Some(devices), round_trip: Err(why) }
                }
            };
            let failed = outcome.round_trip.is_err();
            report(&outcome);
            // The connection may be unusable after an error.
            if failed && number + 1 < rails.len() {
                match Client::connect(node, *address, options.token.as_ref()) {
                    Ok(again) => client = again,
                    Err(Error::Interrupted) => return,
                    Err(error) => {
                        let left = rails.len() - number - 1;
                        return (0..left)
                            .for_each(|_| report(&not_made(record, no_agent(&error), error.to_string())));
                    }
                }
            }
        }
    }
}

/// perftest reports half of a round trip, except for READ.
fn round_trip_seconds(operation: RdmaOperation, us: f64) -> f64 {
    let halves = if operation == RdmaOperation::Read { 1.0 } else { 2.0 };
    us * halves / 1e6
}

/// What a probe without a time of a message is reported with.
const NO_SAMPLES: &str = "perftest printed no time of a message: expected those of -U";

/// Returns the median and the maximum.
fn summary(mut round_trips: Vec<f64>) -> Result<(f64, f64), String> {
    round_trips.sort_by(f64::total_cmp);
    let median = round_trips.get(round_trips.len() / 2).copied();
    median.zip(round_trips.last().copied()).ok_or_else(|| NO_SAMPLES.to_owned())
}

/// Why there is no connection to an agent.
fn no_agent(error: &Error) -> FailureReason {
    if is_busy(error) { FailureReason::Busy } else { FailureReason::Agent }
}

/// Why a test was not started although the agent is reachable.
fn not_started(error: &Error) -> FailureReason {
    if is_busy(error) { FailureReason::Busy } else { FailureReason::NotStarted }
}

/// Whether ports or the agent are used by other tests.
fn is_busy(error: &Error) -> bool {
    match error {
        Error::PortInUse { .. } | Error::Evicted { .. } => true,
        Error::Refused { refusal, .. } | Error::NotAdmitted { refusal, .. } => {
            refusal.reason == RefusalReason::Busy
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_twice_what_perftest_reports_except_for_read() {
        assert_eq!(round_trip_seconds(RdmaOperation::Send, 1.5), 3e-6);
        assert_eq!(round_trip_seconds(RdmaOperation::Read, 1.5), 1.5e-6);
        assert_eq!(summary(vec![3.0, 1.0, 2.0]), Ok((2.0, 3.0)));
        assert!(summary(Vec::new()).is_err());
    }

    #[test]
    fn a_node_that_runs_other_tests_is_busy_and_no_failure() {
        use crate::protocol::AgentRefusal;
        let peer = || "192.0.2.1".to_owned();
        let refusal = |reason| AgentRefusal { reason, message: "no".into() };
        for busy in [
            Error::PortInUse { device: "mlx5_0".into(), port: 1 },
            Error::Evicted { peer: peer() },
            Error::Refused { peer: peer(), refusal: refusal(RefusalReason::Busy) },
            Error::NotAdmitted { peer: peer(), refusal: refusal(RefusalReason::Busy) },
        ] {
            assert_eq!([no_agent(&busy), not_started(&busy)], [FailureReason::Busy; 2], "{busy}");
        }
        for other in [
            Error::Closed { peer: peer() },
            Error::Refused { peer: peer(), refusal: refusal(RefusalReason::Token) },
            Error::NotAdmitted { peer: peer(), refusal: refusal(RefusalReason::Address) },
        ] {
            let reasons = [no_agent(&other), not_started(&other)];
            assert_eq!(reasons, [FailureReason::Agent, FailureReason::NotStarted], "{other}");
        }
    }
}
