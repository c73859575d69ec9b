//! Who may have a connection, and whose is closed for whom.
//!
//! Anybody can connect, so connections that have not shaken hands are counted apart from those that have. A newcomer always
//! has a place, if its source does not come too often; one of those that have not shaken hands goes for it: the oldest of its
//! own source if that has its share, else one of the network that has most, for who has many addresses has them in one
//! network, or in a few. Among those chance decides. The oldest would always be who is slower than a crowd, however short
//! its way; so who needs 20 ms has a chance even against ten thousand networks, and a second one when it tries again.
//! Whether somebody has said something tells nothing: a byte is said quickly.
//!
//! So it is with clients, of which the oldest go that have no test under way. Each connection has a thread, and keeps its
//! place until that ends, so threads are bounded too.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ratelimit::{RateLimit, TokenBucket};

/// So many connections at once that have not shaken hands.
const MAX_UNAUTHENTICATED: usize = 128;

/// So many of them from one source.
const MAX_UNAUTHENTICATED_PER_PREFIX: usize = 8;

/// So many that have.
const MAX_CLIENTS: usize = 32;

/// So many of them from one source.
const MAX_CLIENTS_PER_PREFIX: usize = 16;

/// How often one source may connect.
const CONNECTION_RATE: RateLimit = RateLimit { burst: 20, each: Duration::from_millis(100) };

/// So many sources are remembered at once, beside those that connect too often.
const MAX_PREFIXES: usize = 4096;

/// How long the thread of a connection that was closed may take to end.
const THREAD_EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Where connections come from: an IPv4 address, or an IPv6 network of 64 bits, for one host may have all its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ClientPrefix(IpAddr);

impl From<IpAddr> for ClientPrefix {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            v4 => v4,
        })
    }
}

impl ClientPrefix {
    /// Where whoever has it may have others: 24 bits of IPv4, or 48 of IPv6, which is what a site has.
    fn network(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() >> 8 << 8).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 80 << 80).into(),
        }
    }
}

/// Whose connections there are.
#[derive(Debug, Default)]
pub(super) struct ConnectionLimiter {
    state: Mutex<LimiterState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct LimiterState {
    next: u64,
    /// By number: the oldest is the first.
    places: BTreeMap<u64, SlotEntry>,
    rates: HashMap<ClientPrefix, TokenBucket>,
    /// Nobody else can tell who goes.
    chance: RandomState,
}

#[derive(Debug)]
struct SlotEntry {
    source: ClientPrefix,
    stream: Arc<TcpStream>,
    phase: ConnectionPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPhase {
    Stranger,
    /// Closed for another; its thread is about to end.
    Closed,
    Client {
        has_test: bool,
    },
}

impl ConnectionPhase {
    fn is_client(self) -> bool {
        matches!(self, Self::Client { .. })
    }
}

/// A connection's place, for as long as this value lives.
#[derive(Debug)]
pub(super) struct ConnectionSlot<'a> {
    admission: &'a ConnectionLimiter,
    number: u64,
}

impl ConnectionLimiter {
    /// A place for a new connection. `None` if its source comes too often.
    pub(super) fn acquire_slot(&self, stream: &Arc<TcpStream>, from: IpAddr) -> Option<ConnectionSlot<'_>> {
        let source = from.into();
        let mut state = self.lock();
        if !state.is_within_rate(source, Instant::now()) {
            return None;
        }
        if state.count(|taken| taken.source == source && taken.phase == ConnectionPhase::Stranger)
            >= MAX_UNAUTHENTICATED_PER_PREFIX
        {
            state.close_oldest(ConnectionPhase::Stranger, |taken| taken.source == source);
        }
        if state.count(|taken| !taken.phase.is_client()) >= MAX_UNAUTHENTICATED {
            state = self.wait_for_slot(state)?;
        }
        let number = state.next;
        state.next += 1;
        state.places.insert(
            number,
            SlotEntry { source, stream: Arc::clone(stream), phase: ConnectionPhase::Stranger },
        );
        Some(ConnectionSlot { admission: self, number })
    }

    fn wait_for_slot<'a>(
        &'a self,
        mut state: MutexGuard<'a, LimiterState>,
    ) -> Option<MutexGuard<'a, LimiterState>> {
        if state.count(|taken| taken.phase == ConnectionPhase::Closed) == 0 {
            state.close_one_of_a_crowd();
        }
        let is_full =
            |state: &mut LimiterState| state.count(|taken| !taken.phase.is_client()) >= MAX_UNAUTHENTICATED;
        let waited = self.freed.wait_timeout_while(state, THREAD_EXIT_TIMEOUT, is_full);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then_some(state)
    }

    fn lock(&self) -> MutexGuard<'_, LimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimiterState {
    fn count(&self, which: impl Fn(&SlotEntry) -> bool) -> usize {
        self.places.values().filter(|taken| which(taken)).count()
    }

    fn close_oldest(&mut self, phase: ConnectionPhase, which: impl Fn(&SlotEntry) -> bool) {
        let is_one = |taken: &&mut SlotEntry| taken.phase == phase && which(taken);
        if let Some(oldest) = self.places.values_mut().find(is_one) {
            oldest.close();
        }
    }

    /// Closes a stranger by chance: of the network that has most, if it has more than one source may have, else of all.
    fn close_one_of_a_crowd(&mut self) {
        let strangers = || self.places.iter().filter(|(_, taken)| taken.phase == ConnectionPhase::Stranger);
        let mut networks: HashMap<IpAddr, usize> = HashMap::new();
        for (_, taken) in strangers() {
            *networks.entry(taken.source.network()).or_default() += 1;
        }
        let crowd = networks.into_iter().max_by_key(|(_, count)| *count);
        let crowd =
            crowd.filter(|(_, count)| *count > MAX_UNAUTHENTICATED_PER_PREFIX).map(|(network, _)| network);
        let is_one = |taken: &SlotEntry| crowd.is_none_or(|crowd| taken.source.network() == crowd);
        let numbers = strangers().filter(|(_, taken)| is_one(taken)).map(|(number, _)| *number);
        let chosen = numbers.min_by_key(|number| self.chance.hash_one((self.next, number)));
        if let Some(taken) = chosen.and_then(|number| self.places.get_mut(&number)) {
            taken.close();
        }
    }

    fn is_within_rate(&mut self, source: ClientPrefix, now: Instant) -> bool {
        if self.rates.len() >= MAX_PREFIXES && !self.rates.contains_key(&source) {
            self.forget(now);
        }
        self.rates.entry(source).or_insert_with(|| TokenBucket::full(CONNECTION_RATE, now)).take(now)
    }

    /// Forgets the sources that have come least of late: half of them, so that not every newcomer makes all be looked at.
    fn forget(&mut self, now: Instant) {
        self.rates.retain(|_, bucket| !bucket.is_full(now));
        if self.rates.len() < MAX_PREFIXES {
            return;
        }
        let mut times: Vec<Instant> = self.rates.values().map(TokenBucket::full_at).collect();
        let (_, middle, _) = times.select_nth_unstable(MAX_PREFIXES / 2);
        let middle = *middle;
        self.rates.retain(|_, bucket| bucket.full_at() > middle);
    }
}

impl SlotEntry {
    fn close(&mut self) {
        self.phase = ConnectionPhase::Closed;
        // Its thread sees the end of the stream. If the peer was faster, it does so too.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl ConnectionSlot<'_> {
    /// The connection has shaken hands. `false` if all others that have are at tests, or if it was closed meanwhile.
    pub(super) fn promote_to_client(&self) -> bool {
        let mut state = self.admission.lock();
        let Some(source) = state.places.get(&self.number).map(|taken| taken.source) else { return false };
        let is_of_source = |taken: &SlotEntry| taken.source == source;
        let idle = ConnectionPhase::Client { has_test: false };
        if state.count(|taken| taken.phase.is_client() && is_of_source(taken)) >= MAX_CLIENTS_PER_PREFIX {
            state.close_oldest(idle, is_of_source);
        }
        if state.count(|taken| taken.phase.is_client()) >= MAX_CLIENTS {
            state.close_oldest(idle, |_| true);
        }
        let is_full = state.count(|taken| taken.phase.is_client()) >= MAX_CLIENTS;
        match state.places.get_mut(&self.number) {
            Some(taken) if !is_full && taken.phase == ConnectionPhase::Stranger => {
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
            taken.phase = ConnectionPhase::Client { has_test };
        }
    }

    /// Whether it was closed for another.
    pub(super) fn is_closed(&self) -> bool {
        let state = self.admission.lock();
        state.places.get(&self.number).is_none_or(|taken| taken.phase == ConnectionPhase::Closed)
    }
}

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        self.admission.lock().places.remove(&self.number);
        self.admission.freed.notify_all();
    }
}

#[cfg(test)]
mod tests;
