//! The encrypted channel between a client and an agent with a token.

use std::net::Ipv4Addr;

use super::*;
use crate::{
    client::{Client, TestRequest},
    protocol::{
        AgentRequest, RailEnds, RemoteTest,
        relay::{Sender, flip, relay},
    },
};

fn token() -> CheckToken {
    CheckToken::of("a token of the cluster")
}

fn with_token() -> AgentOptions<'static> {
    AgentOptions { token: Some(token()), ..settings() }
}

/// A test with a second agent, which nothing listens for: the first agent refuses with the reason.
fn run() -> RemoteTest {
    let test = serde_json::from_str(&test(|_| ())).unwrap();
    let AgentRequest::Test { test, .. } = test else { panic!("{test:?}") };
    RemoteTest {
        against: "127.0.0.1:1".parse().unwrap(),
        test,
        rails: vec![RailEnds::default()],
        limit: Default::default(),
    }
}

/// Has the agent behind a client test with a second one, and returns the error.
fn error_of_run(client: &mut Client<'_>) -> String {
    let mut outcomes = vec![None];
    match client.run_between_agents(run(), &mut outcomes) {
        Ok(()) => outcomes.remove(0).unwrap().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_relay_cannot_read_the_messages() {
    let seen: &'static Mutex<Vec<u8>> = Box::leak(Box::default());
    serving_by(with_token(), |address| {
        let relayed = relay(Ipv4Addr::LOCALHOST, address, |_, _, piece| {
            seen.lock().unwrap().extend_from_slice(piece);
        });
        let node = node();
        let mut client = Client::connect(&node, relayed, Some(&token())).unwrap();
        let error = error_of_run(&mut client);
        assert!(error.contains("connect to 127.0.0.1:1"), "{error}");
    });
    let seen = seen.lock().unwrap();
    let has = |text: &str| seen.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("silkrailCheck") && has("key"));
    for secret in ["a token of the cluster", "run", "bandwidth", "127.0.0.1", "refused", "type"] {
        assert!(!has(secret), "{secret}");
    }
}

#[test]
fn a_message_that_was_changed_in_transit_is_refused_at_either_end() {
    for (sender, by) in [(Sender::Client, "agent"), (Sender::Agent, "client")] {
        // Offsets after the lines of the handshake; the first two bytes are the length of the message.
        for offset in [2, 9] {
            let log = serving_by(with_token(), |address| {
                let ends = Mutex::new(0);
                let lines = if sender == Sender::Client { 1 } else { 2 };
                let relayed = relay(Ipv4Addr::LOCALHOST, address, move |from, before, piece| {
                    let mut seen = ends.lock().unwrap();
                    if from != sender {
                        return;
                    }
                    if *seen == lines {
                        flip(sender, before + offset)(from, before, piece);
                    }
                    *seen += piece.iter().filter(|byte| **byte == b'\n').count().min(lines - *seen);
                });
                let node = node();
                let mut client = Client::connect(&node, relayed, Some(&token())).unwrap();
                let error = error_of_run(&mut client);
                assert!(error.contains("a message was changed, repeated or dropped"), "{by}: {error}");
            });
            assert_eq!(log.contains("a message was changed"), by == "agent", "{log}");
        }
    }
}

#[test]
fn a_relaying_host_is_refused_unless_the_agent_is_known_by_its_address() {
    let between = Ipv4Addr::new(127, 0, 0, 2);
    let log = serving_by(with_token(), |address| {
        let node = node();
        let relayed = relay(between, address, |_, _, _| ());
        let error = Client::connect(&node, relayed, Some(&token())).unwrap_err().to_string();
        assert!(error.contains("connected to 127.0.0.2, but this agent's address is 127.0.0.1"), "{error}");
        assert!(error.contains("--known-as 127.0.0.2"), "{error}");
        assert!(Client::connect(&node, address, Some(&token())).is_ok());
    });
    assert!(log.contains("127.0.0.1: connection refused: the client connected to 127.0.0.2"), "{log}");
    let known =
        AgentOptions { known_as: vec![Ipv4Addr::new(192, 0, 2, 1).into(), between.into()], ..with_token() };
    serving_by(known, |address| {
        let node = node();
        let relayed = relay(between, address, |_, _, _| ());
        let mut client = Client::connect(&node, relayed, Some(&token())).unwrap();
        assert!(error_of_run(&mut client).contains("connect to"));
    });
}

#[test]
fn a_client_with_the_token_learns_that_perftest_is_missing() {
    serving_by(with_token(), |address| {
        let node = node();
        let mut client = Client::connect(&node, address, Some(&token())).unwrap();
        let request = TestRequest {
            test: run().test,
            wanted: PortSelector::default(),
            peer_wanted: PortSelector::default(),
            limit: Default::default(),
        };
        let error = client.measure(&request).unwrap_err().to_string();
        assert!(error.contains("install the package perftest"), "{error}");
    });
}
