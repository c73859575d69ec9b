//! Connections that never complete the handshake: silent ones, slow ones, many of them, or as fast as they can be opened.
//!
//! They stay open for 3 seconds and reconnect when they are closed. SILKRAIL_CROWD_SECONDS=120 sets another duration.

use std::{
    collections::VecDeque,
    env,
    io::ErrorKind,
    net::Ipv4Addr,
    os::fd::AsRawFd,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect as connect_socket, socket,
};

use super::*;
use crate::{client::Client, protocol::handshake::HANDSHAKE_TIMEOUT};

/// Timeout of a client that behaves: shorter than the time that a silent connection is kept.
const CLIENT_TIMEOUT: Duration = HANDSHAKE_TIMEOUT.saturating_sub(Duration::from_secs(1));

/// Returns a connection from a given loopback address of this machine.
fn connect_from(source: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let SocketAddr::V4(to) = to else { return Err(std::io::ErrorKind::Unsupported.into()) };
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(std::net::SocketAddrV4::new(source, 0)))?;
    connect_socket(socket.as_raw_fd(), &SockaddrIn::from(to))?;
    Ok(socket.into())
}

/// Requests a test and asserts that the agent handles the request.
fn assert_served(address: SocketAddr) {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    stream.get_ref().set_read_timeout(Some(CLIENT_TIMEOUT)).unwrap();
    complete_handshake(&mut stream);
    send(&mut stream, &test(|_| ()));
    let reply = reply(&mut stream);
    assert!(reply["message"].as_str().unwrap().contains("install the package perftest"), "{reply}");
}

/// Asserts repeatedly that a client is served, while the other connections stay open.
fn assert_served_all_the_time(address: SocketAddr) {
    let seconds = env::var("SILKRAIL_CROWD_SECONDS").map_or(3, |seconds| seconds.parse().unwrap());
    let (began, mut slowest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < Duration::from_secs(seconds) {
        let sent = Instant::now();
        assert_served(address);
        slowest = slowest.max(sent.elapsed());
        thread::sleep(Duration::from_millis(200));
    }
    eprintln!("{seconds} s, the slowest reply after {slowest:?}");
}

/// A client without credentials: it connects, sends some bytes on each call, and reconnects when it was closed.
struct UnauthenticatedClient {
    source: Ipv4Addr,
    stream: Option<TcpStream>,
}

impl UnauthenticatedClient {
    fn send(&mut self, address: SocketAddr, bytes: &[u8]) {
        if self.stream.is_none() {
            self.stream = connect_from(self.source, address).ok();
            self.stream.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
        }
        let Some(stream) = &mut self.stream else { return };
        let mut few = [0; 16];
        let result = stream.write(bytes).and_then(|_| stream.read(&mut few));
        let is_waiting = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        if !is_waiting && result.unwrap_or(0) == 0 {
            self.stream = None;
        }
    }
}

/// Asserts that a client is served while each of `sources` sends `bytes` ten times a second, unauthenticated.
fn served_besides(sources: impl Iterator<Item = Ipv4Addr>, bytes: &[u8]) {
    let mut others: Vec<_> = sources.map(|source| UnauthenticatedClient { source, stream: None }).collect();
    serving(|address| {
        let over = Interrupt::never();
        thread::scope(|scope| {
            let _over = AgentGuard(&over);
            others.iter_mut().for_each(|other| other.send(address, bytes));
            scope.spawn(|| {
                while !over.is_requested() {
                    others.iter_mut().for_each(|other| other.send(address, bytes));
                    thread::sleep(Duration::from_millis(100));
                }
            });
            assert_served_all_the_time(address);
        });
    });
}

#[test]
fn silent_connections_from_one_source_block_no_client() {
    served_besides(std::iter::repeat_n(Ipv4Addr::new(127, 0, 0, 2), 128), b"");
}

#[test]
fn silent_connections_from_many_sources_block_no_client() {
    served_besides((1..=255).map(|n| Ipv4Addr::new(127, 0, 1, n)), b"");
}

#[test]
fn sending_single_bytes_does_not_extend_the_handshake_timeout() {
    serving(|address| {
        let mut slow = connect_from(Ipv4Addr::new(127, 0, 0, 3), address).unwrap();
        slow.set_nodelay(true).unwrap();
        let began = Instant::now();
        let ended = loop {
            if slow.write_all(b" ").is_err() || began.elapsed() > 4 * HANDSHAKE_TIMEOUT {
                break began.elapsed();
            }
            thread::sleep(Duration::from_millis(100));
        };
        assert!(ended < 3 * HANDSHAKE_TIMEOUT, "it ended after {ended:?}");
    });
}

#[test]
fn slow_senders_block_no_client() {
    served_besides((1..=128).map(|n| Ipv4Addr::new(127, 0, 2, n)), b"{");
}

#[test]
fn a_source_that_connects_as_fast_as_it_can_blocks_no_client() {
    serving(|address| {
        let over = Interrupt::never();
        thread::scope(|scope| {
            let _over = AgentGuard(&over);
            scope.spawn(|| {
                let mut held = VecDeque::new();
                while !over.is_requested() {
                    held.extend(connect_from(Ipv4Addr::new(127, 0, 0, 4), address));
                    // The number of file descriptors of this process is limited.
                    held.drain(..held.len().saturating_sub(200));
                }
            });
            assert_served_all_the_time(address);
        });
    });
}

#[test]
fn a_network_that_connects_as_fast_as_it_can_does_not_block_a_slow_client() {
    serving(|address| {
        let over = Interrupt::never();
        let connected = AtomicUsize::new(0);
        thread::scope(|scope| {
            let _over = AgentGuard(&over);
            scope.spawn(|| {
                let mut held = VecDeque::new();
                for n in (1..=250).cycle().take_while(|_| !over.is_requested()) {
                    let Ok(mut stream) = connect_from(Ipv4Addr::new(127, 0, 5, n), address) else { continue };
                    // The agent sent its first byte, so the connection has a slot.
                    if stream.read_exact(&mut [0]).is_ok() {
                        connected.fetch_add(1, Ordering::Relaxed);
                        held.push_back(stream);
                        held.drain(..held.len().saturating_sub(200));
                    }
                }
            });
            let wait_for_many = || {
                let before = connected.load(Ordering::Relaxed);
                while connected.load(Ordering::Relaxed) < before + 300 {
                    thread::sleep(Duration::from_millis(1));
                }
            };
            wait_for_many();
            let mut slow = BufReader::new(TcpStream::connect(address).unwrap());
            slow.get_ref().set_read_timeout(Some(CLIENT_TIMEOUT)).unwrap();
            line(&mut slow);
            wait_for_many();
            introduce(&mut slow);
        });
    });
}

#[test]
fn unauthenticated_connections_are_logged_in_a_few_lines_that_count_them() {
    const CONNECTIONS: usize = 250;
    let log = serving(|address| {
        for n in 1..=250u8 {
            let mut stream = connect_from(Ipv4Addr::new(127, 0, 3, n), address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let lines: Vec<&str> = log.lines().collect();
    assert!((1..=30).contains(&lines.len()), "{} lines", lines.len());
    let more = |line: &&str| line.strip_suffix(log::UNAUTHENTICATED_DROPPED)?.parse::<usize>().ok();
    let (counts, lines): (Vec<_>, Vec<_>) = lines.iter().map(more).partition(Option::is_some);
    assert_eq!(counts.into_iter().flatten().sum::<usize>() + lines.len(), CONNECTIONS, "{log}");
}

#[test]
fn idle_clients_block_no_client() {
    serving(|address| {
        let of = |n: u8| {
            let mut stream = BufReader::new(connect_from(Ipv4Addr::new(127, 0, 4, n), address).unwrap());
            stream.get_ref().set_read_timeout(Some(CLIENT_TIMEOUT)).unwrap();
            complete_handshake(&mut stream);
            stream
        };
        let _idle: Vec<_> = (1..=64).map(of).collect();
        assert_served(address);
    });
}

#[test]
fn a_client_over_its_rate_gets_a_clear_error() {
    serving(|address| {
        let node = node();
        let connect = |_| Client::connect(&node, address, None).err();
        let errors: Vec<Error> = (0..500).filter_map(connect).collect();
        assert!(errors.iter().all(|error| matches!(error, Error::ClosedBeforeGreeting { .. })), "{errors:?}");
        let error = errors.first().unwrap().to_string();
        assert!(
            error.contains("too many connections from this address") && error.contains("try again"),
            "{error}"
        );
    });
}
