//! Connections that never prove anything: silent, slow, many, or as fast as they come.
//!
//! Those that stay do so for some seconds, and come again when they are sent away; SILKRAIL_CROWD_SECONDS=120 says how long
//! otherwise.

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

/// How long an honest client waits for its answer: less than a connection that says nothing ever had.
const HONEST: Duration = Duration::from_secs(4);

/// A connection from one of this machine's many loopback addresses.
fn connect_from(source: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let SocketAddr::V4(to) = to else { return Err(std::io::ErrorKind::Unsupported.into()) };
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(std::net::SocketAddrV4::new(source, 0)))?;
    connect_socket(socket.as_raw_fd(), &SockaddrIn::from(to))?;
    Ok(socket.into())
}

/// Asks for a test, and has the answer of an agent that has time for it.
fn is_served(address: SocketAddr) {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    stream.get_ref().set_read_timeout(Some(HONEST)).unwrap();
    shake_hands(&mut stream);
    say(&mut stream, &test(|_| ()));
    let answer = answer(&mut stream);
    assert!(answer["message"].as_str().unwrap().contains("install the package perftest"), "{answer}");
}

/// Somebody is served again and again, for as long as a crowd stays.
fn is_served_all_the_time(address: SocketAddr) {
    let seconds = env::var("SILKRAIL_CROWD_SECONDS").map_or(3, |seconds| seconds.parse().unwrap());
    let (began, mut slowest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < Duration::from_secs(seconds) {
        let asked = Instant::now();
        is_served(address);
        slowest = slowest.max(asked.elapsed());
        thread::sleep(Duration::from_millis(200));
    }
    eprintln!("{seconds} s, the slowest answer after {slowest:?}");
}

/// One of a crowd: it connects, says so much each time it is called on, and connects again when it has been sent away.
struct UnauthenticatedClient {
    source: Ipv4Addr,
    stream: Option<TcpStream>,
}

impl UnauthenticatedClient {
    fn is_called_on(&mut self, address: SocketAddr, says: &[u8]) {
        if self.stream.is_none() {
            self.stream = connect_from(self.source, address).ok();
            self.stream.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
        }
        let Some(stream) = &mut self.stream else { return };
        let mut few = [0; 16];
        let is_there = stream.write(says).and_then(|_| stream.read(&mut few));
        let is_waiting = is_there.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        if !is_waiting && is_there.unwrap_or(0) == 0 {
            self.stream = None;
        }
    }
}

/// So many strangers, each of which says so much ten times a second, while somebody else is to be served.
fn among_strangers(sources: impl Iterator<Item = Ipv4Addr>, says: &[u8]) {
    let mut strangers: Vec<_> =
        sources.map(|source| UnauthenticatedClient { source, stream: None }).collect();
    serving(|address| {
        let over = Interrupt::never();
        thread::scope(|scope| {
            let _over = AgentGuard(&over);
            strangers.iter_mut().for_each(|stranger| stranger.is_called_on(address, says));
            scope.spawn(|| {
                while !over.is_requested() {
                    strangers.iter_mut().for_each(|stranger| stranger.is_called_on(address, says));
                    thread::sleep(Duration::from_millis(100));
                }
            });
            is_served_all_the_time(address);
        });
    });
}

#[test]
fn silent_sockets_of_one_source_keep_nobody_out() {
    among_strangers(std::iter::repeat_n(Ipv4Addr::new(127, 0, 0, 2), 128), b"");
}

#[test]
fn silent_sockets_of_as_many_sources_keep_nobody_out() {
    among_strangers((1..=255).map(|n| Ipv4Addr::new(127, 0, 1, n)), b"");
}

#[test]
fn who_sends_a_byte_now_and_then_has_no_more_time_than_who_sends_none() {
    serving(|address| {
        let mut slow = connect_from(Ipv4Addr::new(127, 0, 0, 3), address).unwrap();
        slow.set_nodelay(true).unwrap();
        let began = Instant::now();
        let ended = loop {
            if slow.write_all(b" ").is_err() || began.elapsed() > 2 * HANDSHAKE_TIMEOUT {
                break began.elapsed();
            }
            thread::sleep(Duration::from_millis(100));
        };
        assert!(ended < HANDSHAKE_TIMEOUT + HANDSHAKE_TIMEOUT / 2, "it ended after {ended:?}");
    });
}

#[test]
fn slow_senders_keep_nobody_out() {
    among_strangers((1..=128).map(|n| Ipv4Addr::new(127, 0, 2, n)), b"{");
}

#[test]
fn a_source_that_connects_as_fast_as_it_can_keeps_nobody_out() {
    serving(|address| {
        let over = Interrupt::never();
        thread::scope(|scope| {
            let _over = AgentGuard(&over);
            scope.spawn(|| {
                let mut held = VecDeque::new();
                while !over.is_requested() {
                    held.extend(connect_from(Ipv4Addr::new(127, 0, 0, 4), address));
                    // This process has so many descriptors.
                    held.drain(..held.len().saturating_sub(200));
                }
            });
            is_served_all_the_time(address);
        });
    });
}

#[test]
fn a_network_that_connects_as_fast_as_it_can_keeps_nobody_out_who_takes_its_time() {
    serving(|address| {
        let over = Interrupt::never();
        let came = AtomicUsize::new(0);
        thread::scope(|scope| {
            let _over = AgentGuard(&over);
            scope.spawn(|| {
                let mut held = VecDeque::new();
                for n in (1..=250).cycle().take_while(|_| !over.is_requested()) {
                    let Ok(mut stream) = connect_from(Ipv4Addr::new(127, 0, 5, n), address) else { continue };
                    // The agent's first byte: there is a place for it.
                    if stream.read_exact(&mut [0]).is_ok() {
                        came.fetch_add(1, Ordering::Relaxed);
                        held.push_back(stream);
                        held.drain(..held.len().saturating_sub(200));
                    }
                }
            });
            let many_come = || {
                let then = came.load(Ordering::Relaxed);
                while came.load(Ordering::Relaxed) < then + 300 {
                    thread::sleep(Duration::from_millis(1));
                }
            };
            many_come();
            let mut slow = BufReader::new(TcpStream::connect(address).unwrap());
            slow.get_ref().set_read_timeout(Some(HONEST)).unwrap();
            line(&mut slow);
            many_come();
            introduce(&mut slow);
        });
    });
}

#[test]
fn what_strangers_do_is_logged_in_a_few_lines_that_count_it() {
    const STRANGERS: usize = 250;
    let log = serving(|address| {
        for n in 1..=250u8 {
            let mut stream = connect_from(Ipv4Addr::new(127, 0, 3, n), address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let lines: Vec<&str> = log.lines().collect();
    assert!((1..=30).contains(&lines.len()), "{} lines", lines.len());
    let more = |line: &&str| line.strip_suffix(log::STRANGERS_LEFT_OUT)?.parse::<usize>().ok();
    let (counts, told): (Vec<_>, Vec<_>) = lines.iter().map(more).partition(Option::is_some);
    assert_eq!(counts.into_iter().flatten().sum::<usize>() + told.len(), STRANGERS, "{log}");
}

#[test]
fn clients_that_ask_nothing_keep_nobody_out() {
    serving(|address| {
        let of = |n: u8| {
            let mut stream = BufReader::new(connect_from(Ipv4Addr::new(127, 0, 4, n), address).unwrap());
            stream.get_ref().set_read_timeout(Some(HONEST)).unwrap();
            shake_hands(&mut stream);
            stream
        };
        let _idle: Vec<_> = (1..=64).map(of).collect();
        is_served(address);
    });
}

#[test]
fn who_comes_too_often_is_told_so() {
    serving(|address| {
        let node = node();
        let connect = |_| Client::connect(&node, address, None).err();
        let errors: Vec<Error> = (0..500).filter_map(connect).collect();
        assert!(errors.iter().all(|error| matches!(error, Error::TurnedAway { .. })), "{errors:?}");
        let told = errors.first().unwrap().to_string();
        assert!(told.contains("it has too many from this address") && told.contains("try again"), "{told}");
    });
}
