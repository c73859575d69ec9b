use std::{
    io::Read,
    net::TcpListener,
    sync::mpsc::{self, TryRecvError},
};

use super::*;

/// Connections, with the other end of each.
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
fn a_source_that_has_its_share_gives_its_own_oldest_up() {
    let admission = ConnectionLimiter::default();
    let (stream, mut other) = connection();
    let stranger = admission.acquire_slot(&stream, address(1)).unwrap();
    let mut connections: Vec<_> = (0..2 * MAX_UNAUTHENTICATED_PER_PREFIX).map(|_| connection()).collect();
    let places: Vec<_> =
        connections.iter().map(|(stream, _)| admission.acquire_slot(stream, address(2)).unwrap()).collect();
    let closed: Vec<bool> = places.iter().map(ConnectionSlot::is_closed).collect();
    assert_eq!(
        closed,
        [[true; MAX_UNAUTHENTICATED_PER_PREFIX], [false; MAX_UNAUTHENTICATED_PER_PREFIX]].concat()
    );
    assert!(connections.iter_mut().zip(closed).all(|((_, other), closed)| is_open(other) != closed));
    assert!(!stranger.is_closed() && is_open(&mut other));
}

/// Strangers from these sources, one after the other, of which those are gone that were closed: as their threads end when
/// their streams do. Whether one that was there before still is, and how many of those that were there when there was no
/// more place; no client has to go.
fn crowd(sources: impl Iterator<Item = usize>) -> (bool, usize) {
    let admission = ConnectionLimiter::default();
    let (stream, _other) = connection();
    let admit = |n| admission.acquire_slot(&stream, address(n)).unwrap();
    let client = admit(0);
    assert!(client.promote_to_client());
    let is_there = |number: &u64| {
        admission.lock().places.get(number).is_some_and(|taken| taken.phase == ConnectionPhase::Stranger)
    };
    std::thread::scope(|scope| {
        let (to_threads, begun) = mpsc::channel::<ConnectionSlot<'_>>();
        scope.spawn(move || {
            let mut places = Vec::new();
            loop {
                match begun.try_recv() {
                    Ok(place) => places.push(place),
                    Err(TryRecvError::Empty) => std::thread::yield_now(),
                    Err(TryRecvError::Disconnected) => return,
                }
                places.retain(|place: &ConnectionSlot<'_>| !place.is_closed());
            }
        });
        let mut numbers = Vec::new();
        for source in std::iter::once(0).chain(sources) {
            let place = admit(source);
            assert!(!place.is_closed(), "a newcomer has a place");
            numbers.push(place.number);
            to_threads.send(place).unwrap();
            assert!(admission.lock().places.len() <= MAX_UNAUTHENTICATED + 1, "each has a thread");
        }
        assert!(!client.is_closed());
        (
            is_there(&numbers[0]),
            numbers[..MAX_UNAUTHENTICATED].iter().filter(|number| is_there(number)).count(),
        )
    })
}

/// Networks of 64 bits, of which a site has 65536: in the 20 ms that a handshake over a long way takes, or in any time.
#[test]
fn ten_thousand_sources_of_one_network_close_no_stranger_of_another_and_no_client() {
    let (is_there, _) = crowd((1 << 16) + 1..(1 << 16) + 10_001);
    assert!(is_there);
}

/// Of 128 that chance chooses from as often, 47 are left; the oldest would all be gone, and before the newest none.
#[test]
fn of_as_many_networks_as_sources_one_goes_by_chance() {
    let (_, left) = crowd((1..2 * MAX_UNAUTHENTICATED).map(|n| n << 16));
    assert!((16..=96).contains(&left), "{left}");
}

#[test]
fn a_client_without_a_test_gives_way_to_another_and_one_with_a_test_does_not() {
    let admission = ConnectionLimiter::default();
    let (stream, _other) = connection();
    let become_client = |n| {
        let place = admission.acquire_slot(&stream, address(n)).unwrap();
        place.promote_to_client().then_some(place)
    };
    let of_one: Vec<_> = (0..MAX_CLIENTS_PER_PREFIX).map(|_| become_client(1).unwrap()).collect();
    of_one[0].has_test(true);
    let another = become_client(1).unwrap();
    let closed = |places: &[ConnectionSlot<'_>]| places.iter().filter(|place| place.is_closed()).count();
    assert_eq!((of_one[0].is_closed(), of_one[1].is_closed(), closed(&of_one)), (false, true, 1));
    another.has_test(true);
    let others: Vec<_> = (2..MAX_CLIENTS).map(|n| become_client(n).unwrap()).collect();
    assert_eq!(admission.lock().count(|taken| taken.phase.is_client()), MAX_CLIENTS);
    others.iter().chain(&of_one).for_each(|place| place.has_test(true));
    assert!(become_client(0).is_none(), "all have tests");
    another.has_test(false);
    assert!(become_client(0).is_some() && another.is_closed());
}

#[test]
fn who_comes_too_often_has_no_place_and_is_forgotten_in_time() {
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
fn who_comes_too_often_is_not_forgotten_for_others_however_many_come() {
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
fn a_source_is_an_address_of_ipv4_or_a_network_of_ipv6() {
    let source = |text: &str| ClientPrefix::from(text.parse::<IpAddr>().unwrap());
    assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
    assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
    assert_ne!(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
    let network = |text| source(text).network().to_string();
    assert_eq!([network("192.0.2.200"), network("::ffff:192.0.2.1")], ["192.0.2.0", "192.0.2.0"]);
    assert_eq!([network("2001:db8:1:2::1"), network("2001:db8:1:ffff::")], ["2001:db8:1::", "2001:db8:1::"]);
}
