//! Ports of a simulated node: a copy of a sysfs tree with addresses of the loopback interface, and a played perftest.

use std::time::Instant;

use super::*;
use crate::{
    client::{Client, TestRequest},
    protocol::{AgentRequest, MAX_RAILS, RailEnds, RemoteTest},
    simulated_node::SimulatedNode,
    test_result::TestResult,
};

/// Plays both ends. The server listens until its client has connected and `$0.hold` is gone; the client prints a report, without
/// a result as often as `$0.zeros` says.
const PLAYED: &str = r##"#!/usr/bin/perl
use IO::Socket::INET;
if ("@ARGV" =~ /--version/) { print "Version: 6.06\n"; exit }
if ("@ARGV" =~ /--help/) { print "  --tclass=<value>\n", -e "$0.cuda" ? "  --use_cuda=<cuda device id>\n" : ""; exit }
my ($port) = "@ARGV" =~ /--port=(\d+)/;
my ($device) = "@ARGV" =~ /--ib-dev=(\S+)/;
open(my $log, '>>', "$0.log"); syswrite $log, "@ARGV\n";
if ($ARGV[-1] =~ /^-/) {
  my $s = IO::Socket::INET->new(LocalPort => $port, Listen => 5, ReuseAddr => 1) or die "listen: $!";
  my $c = $s->accept; print $c "$device\n"; $c->getline; die "the server saw nothing" if -e "$0.fail"; exit;
}
my $s = IO::Socket::INET->new("$ARGV[-1]:$port") or die "connect: $!";
my $peer = $s->getline; chomp $peer;
select undef, undef, undef, 0.05 while -e "$0.hold";
print $s "end\n";
die "no message arrived" if -e "$0.fail";
die "the server has $peer, and this end $device" if $peer ne $device;
if ($0 =~ /_lat/) {
  if ("@ARGV" !~ /--iters/) {
    print " #bytes        #iterations       t_avg[usec]    tps average\n 8     1000     2.50     200000.00\n"; exit;
  }
  print "#, usec\n1, 1.50\n2, 40000.00\n" if "@ARGV" =~ / -U /;
  print " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n";
  print " 8     1000          1.90         30.10        2.40           2.60       0.30           4.20           9.80\n"; exit;
}
print " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n";
if (open(my $zeros, '<', "$0.zeros")) {
  my $left = <$zeros>;
  open(my $rest, '>', "$0.zeros"); print $rest $left - 1;
  if ($left > 0) { print " 65536      1000             0.00               0.00              0.000000\n"; exit; }
}
print " 65536      1000             0.00               96.50              0.184059\n";
"##;

/// A node with this number of ports and a played perftest.
pub(super) fn simulated(ports: usize) -> SimulatedNode {
    let node = SimulatedNode::new();
    for n in 0..ports {
        node.port(&format!("mlx5_{n}"), &format!("0000:{:02x}:00.0", 16 + n), "127.0.0.1");
    }
    node.program("ib_write_bw", PLAYED);
    node.program("ib_write_lat", PLAYED);
    node
}

fn port_selector(device: &str) -> PortSelector {
    PortSelector { device: Some(device.parse().unwrap()), ..PortSelector::default() }
}

pub(super) fn bandwidth() -> crate::TestSpec {
    let AgentRequest::Test { test, .. } = serde_json::from_str(&test(|_| ())).unwrap() else { panic!() };
    test
}

/// Requests a test on this port of a client on the node itself, which has the port of the same name.
fn measure(node: &LocalContext, address: SocketAddr, device: &str) -> Result<TestResult, Error> {
    let request = TestRequest {
        test: bandwidth(),
        wanted: port_selector(device),
        peer_wanted: port_selector(device),
        limit: Default::default(),
    };
    Client::connect(node, address, None)?.measure(&request)
}

/// Returns the bandwidth with one decimal.
fn gbps(measured: Result<TestResult, Error>) -> f64 {
    (measured.unwrap().value().unwrap() * 10.0).round() / 10.0
}

#[test]
fn the_ports_of_a_node_are_listed_without_a_test() {
    let simulated = simulated(2);
    simulated.set_state("mlx5_1", "1: DOWN");
    let served = simulated.context();
    serving_on(&served, settings(), |address| {
        let ports = Client::connect(&node(), address, None).unwrap().ports().unwrap();
        assert_eq!(ports.iter().map(|port| port.name()).collect::<Vec<_>>(), ["mlx5_0/1", "mlx5_1/1"]);
        assert_eq!((ports[0].unusable.is_none(), ports[1].unusable.is_some()), (true, true));
    });
    serving(|address| {
        // This agent has the machine's own devices: either none, which is an error, or a list.
        let ports = Client::connect(&node(), address, None).unwrap().ports();
        assert!(ports.is_ok() || matches!(ports, Err(Error::Refused { .. })), "{ports:?}");
    });
}

#[test]
fn each_port_has_one_test_at_a_time_and_different_ports_are_tested_at_the_same_time() {
    let simulated = simulated(2);
    let hold = simulated.path("bin/ib_write_bw.hold");
    std::fs::write(&hold, "").unwrap();
    // The client's end has ports of its own.
    let (served, client, other) = (simulated.context(), simulated.context(), simulated.context());
    let log = serving_on(&served, settings(), |address| {
        thread::scope(|scope| {
            let running: Vec<_> = ["mlx5_0", "mlx5_1"]
                .map(|device| {
                    scope.spawn({
                        let client = &client;
                        move || measure(client, address, device)
                    })
                })
                .into_iter()
                .collect();
            let started =
                || std::fs::read_to_string(simulated.path("bin/ib_write_bw.log")).unwrap_or_default();
            let began = Instant::now();
            while started().lines().count() < 4 && began.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(20));
            }
            let busy = measure(&other, address, "mlx5_0").unwrap_err();
            assert!(
                matches!(&busy, Error::Refused { refusal, .. } if refusal.reason == RefusalReason::Busy),
                "{busy}"
            );
            assert!(busy.to_string().contains("another test is running on mlx5_0/1"), "{busy}");
            std::fs::remove_file(&hold).unwrap();
            for test in running {
                assert_eq!(gbps(test.join().unwrap()), 96.5);
            }
        });
        assert_eq!(gbps(measure(&other, address, "mlx5_0")), 96.5, "the port is free again");
    });
    assert_eq!(log.matches("bandwidth by write").count(), 4, "{log}");
}

#[test]
fn all_rails_of_two_agents_are_tested_at_the_same_time() {
    let (one, two) = (simulated(4), simulated(4));
    let (first, second, controller) = (one.context(), two.context(), node());
    let settings = || AgentOptions { wanted: port_selector("mlx5_1"), ..settings() };
    serving_on(&first, settings(), |from| {
        serving_on(&second, settings(), |to| {
            let ends = |n: usize| RailEnds {
                wanted: port_selector(&format!("mlx5_{n}")),
                peer_wanted: port_selector(&format!("mlx5_{n}")),
            };
            let run = |rails: Vec<RailEnds>| RemoteTest {
                against: to,
                test: bandwidth(),
                rails,
                limit: Default::default(),
            };
            let mut outcomes: Vec<_> = (0..4).map(|_| None).collect();
            let mut client = Client::connect(&controller, from, None).unwrap();
            client.run_between_agents(run((0..4).map(ends).collect()), &mut outcomes).unwrap();
            for (rail, outcome) in outcomes.into_iter().enumerate() {
                let record = outcome.unwrap().unwrap();
                let device = format!("mlx5_{rail}");
                assert_eq!(
                    (record.client.device.as_str(), record.server.device.as_str()),
                    (&*device, &*device)
                );
            }
            // Without a device, each agent uses that of its own options.
            let mut outcomes = vec![None];
            client.run_between_agents(run(vec![RailEnds::default()]), &mut outcomes).unwrap();
            let record = outcomes.remove(0).unwrap().unwrap();
            assert_eq!((record.client.device.as_str(), record.server.device.as_str()), ("mlx5_1", "mlx5_1"));
            // A rail that does not exist fails alone.
            let mut outcomes: Vec<_> = (0..2).map(|_| None).collect();
            client.run_between_agents(run(vec![ends(0), ends(9)]), &mut outcomes).unwrap();
            assert!(outcomes[0].as_ref().unwrap().is_ok(), "{outcomes:?}");
            let missing = outcomes[1].as_ref().unwrap().as_ref().unwrap_err().to_string();
            assert!(missing.contains("no RDMA device mlx5_9"), "{missing}");
            for rails in [0, MAX_RAILS + 1] {
                let mut client = Client::connect(&controller, from, None).unwrap();
                let error =
                    client.run_between_agents(run((0..rails).map(ends).collect()), &mut []).unwrap_err();
                assert!(error.to_string().contains("expected 1 to 16 rails"), "{error}");
            }
            let ipv6 = RemoteTest { against: "[::1]:18514".parse().unwrap(), ..run(vec![ends(0)]) };
            let mut client = Client::connect(&controller, from, None).unwrap();
            let error = client.run_between_agents(ipv6, &mut [None]).unwrap_err().to_string();
            assert!(error.contains("expected the IPv4 address of an agent"), "{error}");
        });
    });
}

/// Returns the command lines with which a program was started at both ends.
pub(super) fn command_lines(simulated: &SimulatedNode, program: &str) -> Vec<String> {
    let log = std::fs::read_to_string(simulated.path(&format!("bin/{program}.log"))).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

#[test]
fn the_percentiles_of_the_latency_are_of_as_many_messages_as_fit_the_duration() {
    let simulated = simulated(1);
    let (served, client) = (simulated.context(), simulated.context());
    serving_on(&served, settings(), |address| {
        let test = crate::TestSpec { kind: crate::TestKind::Latency, ..bandwidth() };
        let limit = crate::verdict::Threshold { max_p99_us: Some(4.0), ..Default::default() };
        // The client has another port than the agent, of the same name.
        let wanted = port_selector("mlx5_0");
        let request = TestRequest { test, wanted: wanted.clone(), peer_wanted: wanted, limit };
        let record = Client::connect(&client, address, None).unwrap().measure(&request).unwrap();
        let latency = record.measurement.latency.unwrap();
        assert_eq!((latency.average_us, latency.p99_us, latency.p999_us), (2.6, Some(4.2), Some(9.8)));
        assert_eq!((record.verdict.passed, record.verdict.expected_p99), (Some(false), Some(4.0)));
        assert!(record.verdict.why.as_str().contains("p99 4.2 us; expected at most 4 us"), "{record:?}");
    });
    // One second, of which each message and its reply take 5 microseconds.
    let lines = command_lines(&simulated, "ib_write_lat");
    let with = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert_eq!((with("--duration=1"), with("--iters=200000"), lines.len()), (2, 2, 4), "{lines:?}");
}

#[test]
fn a_short_test_without_a_usable_result_is_repeated_twice() {
    let simulated = simulated(1);
    let (served, client) = (simulated.context(), simulated.context());
    let wanted = port_selector("mlx5_0");
    serving_on(&served, settings(), |address| {
        let mut client = Client::connect(&client, address, None).unwrap();
        let mut measure = |zeros: usize, seconds: u64| {
            std::fs::write(simulated.path("bin/ib_write_bw.zeros"), zeros.to_string()).unwrap();
            let before = command_lines(&simulated, "ib_write_bw").len();
            let test = crate::TestSpec { duration: seconds.try_into().unwrap(), ..bandwidth() };
            let (wanted, peer_wanted) = (wanted.clone(), wanted.clone());
            let result =
                client.measure(&TestRequest { test, wanted, peer_wanted, limit: Default::default() });
            assert!(matches!(result, Ok(_) | Err(Error::Unusable { .. })), "{result:?}");
            (result.is_ok(), (command_lines(&simulated, "ib_write_bw").len() - before) / 2)
        };
        assert_eq!([measure(2, 1), measure(3, 60)], [(true, 3), (false, 3)]);
        assert_eq!(measure(1, 61), (false, 1), "a long one is not");
    });
}

#[test]
fn the_device_of_the_agents_options_is_used_unless_the_client_requests_one() {
    let simulated = simulated(2);
    let (served, client) = (simulated.context(), simulated.context());
    let default = AgentOptions { wanted: port_selector("mlx5_1"), ..settings() };
    serving_on(&served, default, |address| {
        let server = |wanted: &str, peer_wanted: PortSelector| {
            let (test, wanted) = (bandwidth(), port_selector(wanted));
            let request = TestRequest { test, wanted, peer_wanted, limit: Default::default() };
            let record = Client::connect(&client, address, None).unwrap().measure(&request).unwrap();
            record.server.device.to_string()
        };
        assert_eq!(server("mlx5_1", PortSelector::default()), "mlx5_1");
        assert_eq!(server("mlx5_0", port_selector("mlx5_0")), "mlx5_0");
    });
}

#[test]
fn the_ends_that_failed_are_named() {
    let (first, second) = (simulated(1), simulated(1));
    let (served, client) = (first.context(), second.context());
    serving_on(&served, settings(), |address| {
        let fail =
            |simulated: &SimulatedNode| std::fs::write(simulated.path("bin/ib_write_bw.fail"), "").unwrap();
        let error = || measure(&client, address, "mlx5_0").unwrap_err();
        fail(&second);
        assert!(matches!(error(), Error::Failed { output, .. } if output.contains("no message arrived")));
        fail(&first);
        let both = error();
        assert!(matches!(both, Error::Refused { .. }), "{both:?}");
        let both = both.to_string();
        assert!(
            both.contains("the server saw nothing") && both.contains("; the client: ib_write_bw failed"),
            "{both}"
        );
    });
}

#[test]
fn options_of_the_traffic_apply_to_both_ends() {
    let simulated = simulated(1);
    let (served, client) = (simulated.context(), simulated.context());
    std::fs::write(simulated.path("bin/ib_write_bw.cuda"), "").unwrap();
    serving_on(&served, settings(), |address| {
        let mut test = bandwidth();
        test.options =
            serde_json::from_str(r#"{"trafficClass":104,"serviceLevel":3,"bidirectional":true,"gpu":2}"#)
                .unwrap();
        let wanted = port_selector("mlx5_0");
        let request =
            TestRequest { test, wanted: wanted.clone(), peer_wanted: wanted, limit: Default::default() };
        let record = Client::connect(&client, address, None).unwrap().measure(&request).unwrap();
        assert_eq!(record.test.options, test.options);
    });
    let lines = command_lines(&simulated, "ib_write_bw");
    assert_eq!(lines.len(), 2);
    for word in ["--tclass=104", "--sl=3", "--bidirectional", "--use_cuda=2"] {
        assert!(lines.iter().all(|line| line.split(' ').any(|other| other == word)), "{word}: {lines:?}");
    }
}

#[test]
fn a_perftest_without_gpu_memory_is_refused_and_its_end_is_named() {
    // The client's perftest has it, the agent's has not.
    let (without, with) = (simulated(1), simulated(1));
    std::fs::write(with.path("bin/ib_write_bw.cuda"), "").unwrap();
    let mut test = bandwidth();
    test.options.gpu = "0".parse().ok();
    let wanted = port_selector("mlx5_0");
    let request =
        TestRequest { test, wanted: wanted.clone(), peer_wanted: wanted, limit: Default::default() };
    let error = |served: &SimulatedNode, client: &SimulatedNode| {
        let (served, client) = (served.context(), client.context());
        let mut error = String::new();
        serving_on(&served, settings(), |address| {
            error =
                Client::connect(&client, address, None).unwrap().measure(&request).unwrap_err().to_string();
        });
        error
    };
    let at_the_agent = error(&without, &with);
    let why =
        "ib_write_bw 6.06 cannot use the memory of a GPU: its --help lists neither --use_cuda nor --use_rocm";
    assert!(at_the_agent.starts_with(&format!("127.0.0.1: {why}")), "{at_the_agent}");
    let at_the_client = error(&with, &without);
    assert!(at_the_client.starts_with(why), "{at_the_client}");
    assert!(command_lines(&without, "ib_write_bw").is_empty(), "nothing is started");
}

#[test]
fn tests_with_other_agents_are_refused_while_those_of_other_clients_use_all_rails() {
    let (node, controller, to) = (node(), node(), "127.0.0.1:1".parse().unwrap());
    let agent = Agent::listen("127.0.0.1:0".parse().unwrap(), settings(), &node).unwrap();
    let address = agent.address().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| agent.serve(&|_| ()).unwrap());
        let _guard = AgentGuard(&node.interrupt);
        let rails = vec![RailEnds::default()];
        let run = RemoteTest { against: to, test: bandwidth(), rails, limit: Default::default() };
        let request = || {
            let mut outcomes = [None];
            let client = Client::connect(&controller, address, None);
            let ended = client.and_then(|mut client| client.run_between_agents(run.clone(), &mut outcomes));
            (ended, outcomes)
        };
        let running = agent.service.rails.reserve(64).unwrap();
        let (refused, _) = request();
        let is_busy = |error: &Error| matches!(error, Error::Refused { refusal, .. } if refusal.reason == RefusalReason::Busy);
        assert!(refused.as_ref().is_err_and(is_busy), "{refused:?}");
        drop(running);
        let (ended, outcomes) = request();
        assert!(ended.is_ok() && matches!(outcomes[0], Some(Err(_))), "{outcomes:?}");
    });
}
