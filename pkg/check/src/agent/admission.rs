//! Admission control: limits the number of connections, and selects the connection to close when a limit is reached.
//!
//! Every host can connect, so unauthenticated connections and clients are counted separately. A new connection always gets
//! a slot unless its source exceeds [`CONNECTION_RATE`]. If the slots are full, an unauthenticated connection is closed: the
//! oldest of the same source if that source has used its share, otherwise a random one of the network that has the most. A
//! host with many addresses usually has them in one or a few networks. If always the oldest were closed, a slow client would
//! lose against many fast sources; with a random choice, a handshake of 20 ms can succeed even against ten thousand
//! networks, and the client can retry. Bytes received so far do not count, because any host can send a byte quickly.
//!
//! Among clients, the oldest without a running test is closed. Each connection has a thread and keeps its slot until that
//! thread ends, so the number of threads is bounded too.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ratelimit::{RateLimit, TokenBucket, host_prefix, site_prefix};

/// Maximum number of unauthenticated connections.
const MAX_UNAUTHENTICATED: usize = 128;

/// Maximum number of unauthenticated connections from one source.
const MAX_UNAUTHENTICATED_PER_PREFIX: usize = 8;

/// Maximum number of clients.
const MAX_CLIENTS: usize = 32;

/// Maximum number of clients from one source.
const MAX_CLIENTS_PER_PREFIX: usize = 16;

/// Connection rate of one source: 10 per second, with bursts of 20.
const CONNECTION_RATE: RateLimit = RateLimit { burst: 20, each: Duration::from_millis(100) };

/// Maximum number of sources whose connection rate is tracked.
const MAX_PREFIXES: usize = 4096;

/// How long the thread of a closed connection may take to end.
const THREAD_EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The source of a connection: an IPv4 address, or an IPv6 /64 network, because one host can use all of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ClientPrefix(IpAddr);

impl From<IpAddr> for ClientPrefix {
    fn from(address: IpAddr) -> Self {
        Self(host_prefix(address))
    }
}

impl ClientPrefix {
    /// Returns the network that probably belongs to the same owner: an IPv4 /24, or an IPv6 /48, the usual size for a site.
    fn network(self) -> IpAddr {
        site_prefix(self.0)
    }
}

/// The slots of all connections. They are released when their [`ConnectionSlot`] is dropped.
#[derive(Debug, Default)]
pub(super) struct ConnectionLimiter {
    state: Mutex<LimiterState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct LimiterState {
    next: u64,
    /// Slots by number; the first is the oldest.
    slots: BTreeMap<u64, SlotEntry>,
    rates: HashMap<ClientPrefix, TokenBucket>,
    /// Randomly keyed hash, so that clients cannot predict which connection is closed.
    random: RandomState,
}

#[derive(Debug)]
struct SlotEntry {
    source: ClientPrefix,
    stream: Arc<TcpStream>,
    phase: ConnectionPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPhase {
    Unauthenticated,
    /// Closed in favour of another connection; its thread is about to end.
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

/// The slot of one connection. Dropping it releases the slot.
#[derive(Debug)]
pub(super) struct ConnectionSlot<'a> {
    admission: &'a ConnectionLimiter,
    number: u64,
}

impl ConnectionLimiter {
    /// Returns a slot for a new connection, or `None` if its source exceeds [`CONNECTION_RATE`].
    pub(super) fn acquire_slot(&self, stream: &Arc<TcpStream>, from: IpAddr) -> Option<ConnectionSlot<'_>> {
        let source = from.into();
        let mut state = self.lock();
        if !state.is_within_rate(source, Instant::now()) {
            return None;
        }
        if state.count(|slot| slot.source == source && slot.phase == ConnectionPhase::Unauthenticated)
            >= MAX_UNAUTHENTICATED_PER_PREFIX
        {
            state.close_oldest(ConnectionPhase::Unauthenticated, |slot| slot.source == source);
        }
        if state.count(|slot| !slot.phase.is_client()) >= MAX_UNAUTHENTICATED {
            state = self.wait_for_slot(state)?;
        }
        let number = state.next;
        state.next += 1;
        state.slots.insert(
            number,
            SlotEntry { source, stream: Arc::clone(stream), phase: ConnectionPhase::Unauthenticated },
        );
        Some(ConnectionSlot { admission: self, number })
    }

    fn wait_for_slot<'a>(
        &'a self,
        mut state: MutexGuard<'a, LimiterState>,
    ) -> Option<MutexGuard<'a, LimiterState>> {
        if state.count(|slot| slot.phase == ConnectionPhase::Closed) == 0 {
            state.close_random_unauthenticated();
        }
        let is_full =
            |state: &mut LimiterState| state.count(|slot| !slot.phase.is_client()) >= MAX_UNAUTHENTICATED;
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
        self.slots.values().filter(|slot| which(slot)).count()
    }

    fn close_oldest(&mut self, phase: ConnectionPhase, which: impl Fn(&SlotEntry) -> bool) {
        let matches = |slot: &&mut SlotEntry| slot.phase == phase && which(slot);
        if let Some(oldest) = self.slots.values_mut().find(matches) {
            oldest.close();
        }
    }

    /// Closes a random unauthenticated connection: of the network that has the most, if it has more than one source may
    /// have, otherwise of all networks.
    fn close_random_unauthenticated(&mut self) {
        let unauthenticated =
            || self.slots.iter().filter(|(_, slot)| slot.phase == ConnectionPhase::Unauthenticated);
        let mut networks: HashMap<IpAddr, usize> = HashMap::new();
        for (_, slot) in unauthenticated() {
            *networks.entry(slot.source.network()).or_default() += 1;
        }
        let largest = networks.into_iter().max_by_key(|(_, count)| *count);
        let largest =
            largest.filter(|(_, count)| *count > MAX_UNAUTHENTICATED_PER_PREFIX).map(|(network, _)| network);
        let matches = |slot: &SlotEntry| largest.is_none_or(|largest| slot.source.network() == largest);
        let numbers = unauthenticated().filter(|(_, slot)| matches(slot)).map(|(number, _)| *number);
        let chosen = numbers.min_by_key(|number| self.random.hash_one((self.next, number)));
        if let Some(slot) = chosen.and_then(|number| self.slots.get_mut(&number)) {
            slot.close();
        }
    }

    fn is_within_rate(&mut self, source: ClientPrefix, now: Instant) -> bool {
        if self.rates.len() >= MAX_PREFIXES && !self.rates.contains_key(&source) {
            self.forget(now);
        }
        self.rates.entry(source).or_insert_with(|| TokenBucket::full(CONNECTION_RATE, now)).take(now)
    }

    /// Forgets the half of the sources that connected least recently, so that not every new source scans the whole table.
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
        // The thread sees the end of the stream. An error is ignored: the peer has already closed the connection.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl ConnectionSlot<'_> {
    /// Makes the connection a client after its handshake. Returns `false` if all clients have running tests, or if the
    /// connection was closed in the meantime.
    pub(super) fn promote_to_client(&self) -> bool {
        let mut state = self.admission.lock();
        let Some(source) = state.slots.get(&self.number).map(|slot| slot.source) else { return false };
        let is_of_source = |slot: &SlotEntry| slot.source == source;
        let idle = ConnectionPhase::Client { has_test: false };
        if state.count(|slot| slot.phase.is_client() && is_of_source(slot)) >= MAX_CLIENTS_PER_PREFIX {
            state.close_oldest(idle, is_of_source);
        }
        if state.count(|slot| slot.phase.is_client()) >= MAX_CLIENTS {
            state.close_oldest(idle, |_| true);
        }
        let is_full = state.count(|slot| slot.phase.is_client()) >= MAX_CLIENTS;
        match state.slots.get_mut(&self.number) {
            Some(slot) if !is_full && slot.phase == ConnectionPhase::Unauthenticated => {
                slot.phase = idle;
                true
            }
            _ => false,
        }
    }

    /// Records whether the client has a running test.
    pub(super) fn has_test(&self, has_test: bool) {
        let mut state = self.admission.lock();
        let slot = state.slots.get_mut(&self.number).filter(|slot| slot.phase.is_client());
        if let Some(slot) = slot {
            slot.phase = ConnectionPhase::Client { has_test };
        }
    }

    /// Whether the connection was closed in favour of another one.
    pub(super) fn is_closed(&self) -> bool {
        let state = self.admission.lock();
        state.slots.get(&self.number).is_none_or(|slot| slot.phase == ConnectionPhase::Closed)
    }
}

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        self.admission.lock().slots.remove(&self.number);
        self.admission.freed.notify_all();
    }
}

#[cfg(test)]
mod tests;
