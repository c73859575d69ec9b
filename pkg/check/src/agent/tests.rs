//! Requests that an agent must refuse.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::Shutdown,
    sync::{
        Mutex,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use sysfs::Sysfs;

use super::*;
use crate::{Interrupt, PortSelector, perftest::Launcher, port_reservation::TCP_PORTS, protocol::CheckToken};

mod channel;
mod ports;
mod probes;
mod strangers;

/// A context of this machine in which perftest is not installed.
fn node() -> LocalContext {
    LocalContext {
        launcher: Launcher { path: "/nonexistent".into(), wrapper: Vec::new(), versions: Default::default() },
        sysfs: Sysfs::system(),
        interrupt: Interrupt::never(),
        ports_in_use: Arc::default(),
    }
}

/// Each agent has TCP ports of its own: those of different agents do not know of each other's reservations, and tests run at
/// the same time, also in other processes.
fn settings() -> AgentOptions<'static> {
    static AGENTS: AtomicU16 = AtomicU16::new(0);
    let of_process = u16::try_from(std::process::id() % 8 * 1000).unwrap();
    let first_port = 20_000 + of_process + AGENTS.fetch_add(1, Ordering::Relaxed) % 60 * TCP_PORTS;
    AgentOptions {
        token: None,
        known_as: Vec::new(),
        wanted: PortSelector::default(),
        first_port,
        governors: None,
    }
}

/// Runs an agent without perftest on the loopback address while `with` runs. Returns what the agent logged.
fn serving(with: impl FnOnce(SocketAddr) + Send) -> String {
    serving_by(settings(), with)
}

fn serving_by(settings: AgentOptions<'_>, with: impl FnOnce(SocketAddr) + Send) -> String {
    serving_on(&node(), settings, with)
}

fn serving_on(
    node: &LocalContext,
    settings: AgentOptions<'_>,
    with: impl FnOnce(SocketAddr) + Send,
) -> String {
    let log = Mutex::new(String::new());
    let agent = Agent::listen("127.0.0.1:0".parse().unwrap(), settings, node).unwrap();
    let address = agent.address().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| agent.serve(&|line| log.lock().unwrap().push_str(&format!("{line}\n"))).unwrap());
        let _guard = AgentGuard(&node.interrupt);
        with(address);
    });
    log.into_inner().unwrap()
}

/// Ends the agent when dropped, even if a test panics; otherwise the scope would wait for its thread forever.
struct AgentGuard<'a>(&'a Interrupt);

impl Drop for AgentGuard<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

/// Returns a connection whose handshake is complete.
fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    complete_handshake(&mut stream);
    stream
}

fn complete_handshake(stream: &mut BufReader<TcpStream>) {
    line(stream);
    introduce(stream);
}

/// Completes the handshake after the agent's greeting.
fn introduce(stream: &mut BufReader<TcpStream>) {
    send_line(stream, &json!({"silkrailCheck": 3}).to_string());
    assert_eq!(line(stream), json!({}));
}

fn send_line(stream: &mut BufReader<TcpStream>, line: &str) {
    stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn line(stream: &mut BufReader<TcpStream>) -> Value {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

fn send(stream: &mut BufReader<TcpStream>, message: &str) {
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    stream.get_mut().write_all(&[&length[..], message.as_bytes()].concat()).unwrap();
}

fn reply(stream: &mut BufReader<TcpStream>) -> Value {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).unwrap();
    serde_json::from_slice(&message).unwrap()
}

fn test(change: impl FnOnce(&mut Value)) -> String {
    let test = json!({"kind": "bandwidth", "operation": "write", "size": 8, "queuePairs": 1, "duration": 1});
    let mut request = json!({"type": "test", "test": test, "wanted": {}});
    change(&mut request);
    request.to_string()
}

#[test]
fn values_out_of_their_bounds_are_refused_before_anything_is_started() {
    let bad: [fn(&mut Value); 9] = [
        |request| request["wanted"]["device"] = "--help".into(),
        |request| request["wanted"]["device"] = "mlx5_0; reboot".into(),
        |request| request["wanted"]["gidIndex"] = 70_000.into(),
        |request| request["test"]["size"] = (1u64 << 40).into(),
        |request| request["test"]["duration"] = 0.into(),
        |request| request["test"]["queuePairs"] = (-1).into(),
        |request| request["test"]["operation"] = "atomic".into(),
        |request| request["test"]["shell"] = "x".into(),
        |request| request["gid"] = "$(reboot)".into(),
    ];
    let log = serving(|address| {
        for change in bad {
            let mut stream = connect(address);
            send(&mut stream, &test(change));
            let reply = reply(&mut stream);
            assert_eq!((&reply["type"], &reply["reason"]), (&"refused".into(), &"failed".into()), "{reply}");
            assert!(reply["message"].as_str().unwrap().contains("protocol error"), "{reply}");
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the connection is closed");
        }
    });
    assert!(!log.contains("bandwidth by write"), "{log}");
}

#[test]
fn a_refusal_is_sent_and_the_connection_stays_open() {
    serving(|address| {
        let mut stream = connect(address);
        for _ in 0..2 {
            send(&mut stream, &test(|_| ()));
            let reply = reply(&mut stream);
            assert!(reply["message"].as_str().unwrap().contains("install the package perftest"), "{reply}");
        }
    });
}

#[test]
fn another_version_garbage_and_silence_do_no_harm() {
    serving(|address| {
        let mut other = BufReader::new(TcpStream::connect(address).unwrap());
        line(&mut other);
        // An agent or a client of the release before, which does not know the newer options of tests.
        send_line(&mut other, &json!({"silkrailCheck": 2, "nonce": "00".repeat(32)}).to_string());
        let refusal = line(&mut other);
        assert_eq!(refusal["reason"], "version");
        let message = refusal["message"].as_str().unwrap();
        assert!(
            message.contains("protocol version 2, expected 3: use the same version of silkrail"),
            "{message}"
        );
        for garbage in ["GET / HTTP/1.1", "{}", "[[[[[[", "\u{0}"] {
            let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
            line(&mut stream);
            send_line(&mut stream, garbage);
            stream.get_mut().shutdown(Shutdown::Write).unwrap();
            let mut rest = String::new();
            assert!(stream.read_to_string(&mut rest).is_ok_and(|_| rest.is_empty()), "{garbage}: {rest}");
        }
        let _silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut stream = connect(address);
        send(&mut stream, r#"{"type":"finished"}"#);
        assert!(reply(&mut stream)["message"].as_str().unwrap().contains("no test is running"));
    });
}

#[test]
fn without_a_token_the_agent_listens_on_loopback_only() {
    let node = node();
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        assert!(
            matches!(Agent::listen(open.parse().unwrap(), settings(), &node), Err(Error::Open { .. })),
            "{open}"
        );
    }
}
