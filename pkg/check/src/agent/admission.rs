//! Who may have a connection, and whose is closed for whom.
//!
//! Anybody can connect, so connections that have not shaken hands are counted apart from those that have: nobody without
//! the token can keep a client out. A newcomer always has a place, if its source does not come too often; the oldest of
//! those that have not shaken hands goes for it, of its own source if that has its share, else of all. So it is with
//! clients, of which those go that have no test under way. Each connection has a thread, and keeps its place until that
//! ends, so threads are bounded too.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr, Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::bucket::{Bucket, Rate};

/// So many connections at once that have not shaken hands.
const STRANGERS: usize = 128;

/// So many of them from one source.
const STRANGERS_OF_ONE: usize = 8;

/// So many that have.
const CLIENTS: usize = 32;

/// So many of them from one source.
const CLIENTS_OF_ONE: usize = 16;

/// How often one source may connect.
const RATE: Rate = Rate { burst: 20, each: Duration::from_millis(100) };

/// So many sources are remembered at once, beside those that connect too often.
const SOURCES: usize = 4096;

/// How long the thread of a connection that was closed may take to end.
const ENDING: Duration = Duration::from_secs(1);

/// Where connections come from: an IPv4 address, or an IPv6 network of 64 bits, for one host may have all its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            v4 => v4,
        })
    }
}

/// Whose connections there are.
#[derive(Debug, Default)]
pub(super) struct Admission {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By number: the oldest is the first.
    places: BTreeMap<u64, Taken>,
    rates: HashMap<Source, Bucket>,
}

#[derive(Debug)]
struct Taken {
    source: Source,
    stream: Arc<TcpStream>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Stranger,
    /// Closed for another; its thread is about to end.
    Closed,
    Client {
        has_test: bool,
    },
}

impl Phase {
    fn is_client(self) -> bool {
        matches!(self, Self::Client { .. })
    }
}

/// A connection's place, for as long as this value lives.
#[derive(Debug)]
pub(super) struct Place<'a> {
    admission: &'a Admission,
    number: u64,
}

impl Admission {
    /// A place for a new connection. `None` if its source comes too often.
    pub(super) fn admit(&self, stream: &Arc<TcpStream>, from: IpAddr) -> Option<Place<'_>> {
        let source = from.into();
        let mut state = self.lock();
        if !state.may_come(source, Instant::now()) {
            return None;
        }
        if state.count(|taken| taken.source == source && taken.phase == Phase::Stranger) >= STRANGERS_OF_ONE {
            state.close_oldest(Phase::Stranger, |taken| taken.source == source);
        }
        if state.count(|taken| !taken.phase.is_client()) >= STRANGERS {
            state = self.wait_for_a_place(state)?;
        }
        let number = state.next;
        state.next += 1;
        state.places.insert(number, Taken { source, stream: Arc::clone(stream), phase: Phase::Stranger });
        Some(Place { admission: self, number })
    }

    fn wait_for_a_place<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Option<MutexGuard<'a, State>> {
        if state.count(|taken| taken.phase == Phase::Closed) == 0 {
            state.close_oldest(Phase::Stranger, |_| true);
        }
        let is_full = |state: &mut State| state.count(|taken| !taken.phase.is_client()) >= STRANGERS;
        let waited = self.freed.wait_timeout_while(state, ENDING, is_full);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then_some(state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&self, which: impl Fn(&Taken) -> bool) -> usize {
        self.places.values().filter(|taken| which(taken)).count()
    }

    fn close_oldest(&mut self, phase: Phase, which: impl Fn(&Taken) -> bool) {
        let is_one = |taken: &&mut Taken| taken.phase == phase && which(taken);
        if let Some(oldest) = self.places.values_mut().find(is_one) {
            oldest.phase = Phase::Closed;
            // Its thread sees the end of the stream. If the peer was faster, it does so too.
            let _ = oldest.stream.shutdown(Shutdown::Both);
        }
    }

    fn may_come(&mut self, source: Source, now: Instant) -> bool {
        if self.rates.len() >= SOURCES && !self.rates.contains_key(&source) {
            self.rates.retain(|_, bucket| !bucket.is_full(now));
            if self.rates.len() >= SOURCES {
                self.rates.clear();
            }
        }
        self.rates.entry(source).or_insert_with(|| Bucket::full(RATE, now)).take(now)
    }
}

impl Place<'_> {
    /// The connection has shaken hands. `false` if all others that have are at tests, or if it was closed meanwhile.
    pub(super) fn is_now_a_client(&self) -> bool {
        let mut state = self.admission.lock();
        let Some(source) = state.places.get(&self.number).map(|taken| taken.source) else { return false };
        let is_of_source = |taken: &Taken| taken.source == source;
        let idle = Phase::Client { has_test: false };
        if state.count(|taken| taken.phase.is_client() && is_of_source(taken)) >= CLIENTS_OF_ONE {
            state.close_oldest(idle, is_of_source);
        }
        if state.count(|taken| taken.phase.is_client()) >= CLIENTS {
            state.close_oldest(idle, |_| true);
        }
        let is_full = state.count(|taken| taken.phase.is_client()) >= CLIENTS;
        match state.places.get_mut(&self.number) {
            Some(taken) if !is_full && taken.phase == Phase::Stranger => {
                taken.phase = idle;
                true
            }
            _ => false,
        }
    }

    /// The client has a test under way, or none any more.
    pub(super) fn has_test(&self, has_test: bool) {
        let mut state = self.admission.lock();
        let taken = state.places.get_mut(&self.number).filter(|taken| taken.phase.is_client());
        if let Some(taken) = taken {
            taken.phase = Phase::Client { has_test };
        }
    }

    /// Whether it was closed for another.
    pub(super) fn is_closed(&self) -> bool {
        let state = self.admission.lock();
        state.places.get(&self.number).is_none_or(|taken| taken.phase == Phase::Closed)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.admission.lock().places.remove(&self.number);
        self.admission.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, net::TcpListener};

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
        let admission = Admission::default();
        let (stream, mut other) = connection();
        let stranger = admission.admit(&stream, address(1)).unwrap();
        let mut connections: Vec<_> = (0..2 * STRANGERS_OF_ONE).map(|_| connection()).collect();
        let places: Vec<_> =
            connections.iter().map(|(stream, _)| admission.admit(stream, address(2)).unwrap()).collect();
        let closed: Vec<bool> = places.iter().map(Place::is_closed).collect();
        assert_eq!(closed, [[true; STRANGERS_OF_ONE], [false; STRANGERS_OF_ONE]].concat());
        assert!(connections.iter_mut().zip(closed).all(|((_, other), closed)| is_open(other) != closed));
        assert!(!stranger.is_closed() && is_open(&mut other));
    }

    #[test]
    fn the_oldest_of_all_gives_way_to_a_newcomer_and_clients_stay() {
        let admission = Admission::default();
        let connections: Vec<_> = (0..STRANGERS + 2).map(|_| connection()).collect();
        let admit = |n: usize| admission.admit(&connections[n].0, address(n)).unwrap();
        let client = admit(0);
        assert!(client.is_now_a_client());
        let mut places: Vec<_> = (1..=STRANGERS).map(admit).collect();
        let oldest = places.remove(0);
        std::thread::scope(|scope| {
            // As its thread does when the stream ends.
            scope.spawn(move || {
                while !oldest.is_closed() {
                    std::thread::yield_now();
                }
                assert!(!oldest.is_now_a_client(), "it is too late");
            });
            assert!(!admit(STRANGERS + 1).is_closed());
        });
        assert!(admission.lock().places.len() <= STRANGERS + 1, "each has a thread");
        assert!(!client.is_closed() && places.iter().all(|place| !place.is_closed()));
    }

    #[test]
    fn a_client_without_a_test_gives_way_to_another_and_one_with_a_test_does_not() {
        let admission = Admission::default();
        let (stream, _other) = connection();
        let become_client = |n| {
            let place = admission.admit(&stream, address(n)).unwrap();
            place.is_now_a_client().then_some(place)
        };
        let of_one: Vec<_> = (0..CLIENTS_OF_ONE).map(|_| become_client(1).unwrap()).collect();
        of_one[0].has_test(true);
        let another = become_client(1).unwrap();
        let closed = |places: &[Place<'_>]| places.iter().filter(|place| place.is_closed()).count();
        assert_eq!((of_one[0].is_closed(), of_one[1].is_closed(), closed(&of_one)), (false, true, 1));
        another.has_test(true);
        let others: Vec<_> = (2..CLIENTS).map(|n| become_client(n).unwrap()).collect();
        assert_eq!(admission.lock().count(|taken| taken.phase.is_client()), CLIENTS);
        others.iter().chain(&of_one).for_each(|place| place.has_test(true));
        assert!(become_client(0).is_none(), "all have tests");
        another.has_test(false);
        assert!(become_client(0).is_some() && another.is_closed());
    }

    #[test]
    fn who_comes_too_often_has_no_place_and_is_forgotten_in_time() {
        let mut state = State::default();
        let now = Instant::now();
        let own = Source::from(address(0));
        assert_eq!((0..1000).filter(|_| state.may_come(own, now)).count(), RATE.burst as usize);
        for n in 1..3 * SOURCES {
            assert!(state.may_come(address(n).into(), now + Duration::from_millis(n as u64)));
            assert!(state.rates.len() <= SOURCES);
        }
        assert!(state.may_come(own, now + Duration::from_secs(60)));
    }

    #[test]
    fn a_source_is_an_address_of_ipv4_or_a_network_of_ipv6() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
    }
}
