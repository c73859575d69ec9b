use std::{
    io::Read,
    net::{Ipv6Addr, TcpListener},
    sync::mpsc::{self, TryRecvError},
};

use super::*;

/// Returns both ends of a new connection on the loopback interface.
fn connection() -> (Arc<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Arc::new(listener.accept().unwrap().0), other)
}

fn address(n: usize) -> IpAddr {
    Ipv6Addr::from_bits((0x2001_0db8 << 96) | (n as u128) << 64 | 1).into()
}

fn is_open(other: &mut TcpStream) -> bool {
    other.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    other.read(&mut [0]).is_err()
}

#[test]
fn a_source_over_its_share_loses_its_own_oldest_connections() {
    let admission = ConnectionLimiter::default();
    let (stream, mut other) = connection();
    let first = admission.acquire_slot(&stream, address(1)).unwrap();
    let mut connections: Vec<_> = (0..2 * MAX_UNAUTHENTICATED_PER_PREFIX).map(|_| connection()).collect();
    let slots: Vec<_> =
        connections.iter().map(|(stream, _)| admission.acquire_slot(stream, address(2)).unwrap()).collect();
    let closed: Vec<bool> = slots.iter().map(ConnectionSlot::is_closed).collect();
    assert_eq!(
        closed,
        [[true; MAX_UNAUTHENTICATED_PER_PREFIX], [false; MAX_UNAUTHENTICATED_PER_PREFIX]].concat()
    );
    assert!(connections.iter_mut().zip(closed).all(|((_, other), closed)| is_open(other) != closed));
    assert!(!first.is_closed() && is_open(&mut other));
    assert!(!slots[0].promote_to_client() && slots[0].is_closed(), "it was closed during its handshake");
    assert!(slots[MAX_UNAUTHENTICATED_PER_PREFIX].promote_to_client());
}

/// Opens an unauthenticated connection from each of these sources in turn. A thread drops the slots that were closed, as the
/// threads of connections do. Returns whether the very first connection is still open, and how many of the first
/// `MAX_UNAUTHENTICATED` are. Asserts that no client is closed.
fn open_from(sources: impl Iterator<Item = usize>) -> (bool, usize) {
    let admission = ConnectionLimiter::default();
    let (stream, _other) = connection();
    let admit = |n| admission.acquire_slot(&stream, address(n)).unwrap();
    let client = admit(0);
    assert!(client.promote_to_client());
    let is_open = |number: &u64| {
        admission.lock().slots.get(number).is_some_and(|slot| slot.phase == ConnectionPhase::Unauthenticated)
    };
    std::thread::scope(|scope| {
        let (to_threads, begun) = mpsc::channel::<ConnectionSlot<'_>>();
        scope.spawn(move || {
            let mut slots = Vec::new();
            loop {
                match begun.try_recv() {
                    Ok(slot) => slots.push(slot),
                    Err(TryRecvError::Empty) => std::thread::yield_now(),
                    Err(TryRecvError::Disconnected) => return,
                }
                slots.retain(|slot: &ConnectionSlot<'_>| !slot.is_closed());
            }
        });
        let mut numbers = Vec::new();
        for source in std::iter::once(0).chain(sources) {
            let slot = admit(source);
            assert!(!slot.is_closed(), "a new connection gets a slot");
            numbers.push(slot.number);
            to_threads.send(slot).unwrap();
            assert!(admission.lock().slots.len() <= MAX_UNAUTHENTICATED + 1, "each has a thread");
        }
        assert!(!client.is_closed());
        (is_open(&numbers[0]), numbers[..MAX_UNAUTHENTICATED].iter().filter(|number| is_open(number)).count())
    })
}

/// /64 networks, of which a /48 site has 65536, whether or not they connect within the 20 ms of a handshake.
#[test]
fn ten_thousand_sources_of_one_network_close_no_connection_of_another_network_and_no_client() {
    let (is_open, _) = open_from((1 << 16) + 1..(1 << 16) + 10_001);
    assert!(is_open);
}

/// After 128 random choices among 128, 47 are left on average. If the oldest were closed it would be 0; the newest, 127.
#[test]
fn if_each_source_has_its_own_network_a_random_connection_is_closed() {
    let (_, left) = open_from((1..2 * MAX_UNAUTHENTICATED).map(|n| n << 16));
    assert!((16..=96).contains(&left), "{left}");
}

#[test]
fn a_client_without_a_test_is_closed_for_another_and_a_client_with_a_test_is_not() {
    let admission = ConnectionLimiter::default();
    let (stream, _other) = connection();
    let become_client = |n| {
        let slot = admission.acquire_slot(&stream, address(n)).unwrap();
        slot.promote_to_client().then_some(slot)
    };
    let of_one: Vec<_> = (0..MAX_CLIENTS_PER_PREFIX).map(|_| become_client(1).unwrap()).collect();
    of_one[0].has_test(true);
    let another = become_client(1).unwrap();
    let closed = |slots: &[ConnectionSlot<'_>]| slots.iter().filter(|slot| slot.is_closed()).count();
    assert_eq!((of_one[0].is_closed(), of_one[1].is_closed(), closed(&of_one)), (false, true, 1));
    another.has_test(true);
    let others: Vec<_> = (2..MAX_CLIENTS).map(|n| become_client(n).unwrap()).collect();
    assert_eq!(admission.lock().count(|slot| slot.phase.is_client()), MAX_CLIENTS);
    others.iter().chain(&of_one).for_each(|slot| slot.has_test(true));
    assert!(become_client(0).is_none(), "all have tests");
    another.has_test(false);
    assert!(become_client(0).is_some() && another.is_closed());
}

#[test]
fn a_source_over_its_rate_gets_no_slot_and_is_forgotten_after_a_while() {
    let mut state = LimiterState::default();
    let now = Instant::now();
    let own = ClientPrefix::from(address(0));
    assert_eq!((0..1000).filter(|_| state.is_within_rate(own, now)).count(), CONNECTION_RATE.burst as usize);
    for n in 1..3 * MAX_PREFIXES {
        assert!(state.is_within_rate(address(n).into(), now + Duration::from_millis(n as u64)));
        assert!(state.rates.len() <= MAX_PREFIXES);
    }
    assert!(state.is_within_rate(own, now + Duration::from_secs(60)));
}

#[test]
fn a_source_over_its_rate_is_not_forgotten_when_any_number_of_others_connect() {
    let mut state = LimiterState::default();
    let now = Instant::now();
    let own = ClientPrefix::from(address(0));
    while state.is_within_rate(own, now) {}
    for n in 1..10_000 {
        assert!(state.is_within_rate(address(n).into(), now));
        assert!(!state.is_within_rate(own, now), "after {n} others");
    }
}

#[test]
fn a_source_is_an_ipv4_address_or_an_ipv6_network() {
    let source = |text: &str| ClientPrefix::from(text.parse::<IpAddr>().unwrap());
    assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
    assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
    assert_ne!(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
    let network = |text| source(text).network().to_string();
    assert_eq!([network("192.0.2.200"), network("::ffff:192.0.2.1")], ["192.0.2.0", "192.0.2.0"]);
    assert_eq!([network("2001:db8:1:2::1"), network("2001:db8:1:ffff::")], ["2001:db8:1::", "2001:db8:1::"]);
}
