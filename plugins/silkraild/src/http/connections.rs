//! The open connections of a listener. Their number is limited, in total and per source, and so are the bytes of responses.
//!
//! A new connection never waits: at a limit, another one is evicted. It belongs to the source with the most connections, and is
//! the one that has been idle for the longest time. An attacker may have many sources, but in one network or a few: if one
//! network has more connections than a source may have, the evicted connection belongs to that network. Among sources with
//! equally many connections the choice is random. Evicting the longest idle connection of all would always hit clients that are
//! slower than an attacker that connects quickly, for example because they use TLS.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::body::Bytes;
use ratelimit::site_prefix;
use tokio::{sync::oneshot, time::Instant};

/// Timeout for a complete request, from the connection or from the first byte of the request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of an idle connection. Prometheus scrapes at least once a minute.
pub(super) const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(65);

/// Timeout of a connection whose client reads no byte of its response.
pub(super) const SEND_STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a response, however steadily its client reads it.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);

/// Limits of the connections of one listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Maximum number of connections.
    pub(crate) all: usize,
    /// Maximum number of connections from one source.
    pub(crate) of_source: usize,
    /// Maximum bytes of responses that clients of one source have not read yet. A single response may be longer.
    pub(crate) unread: usize,
    /// Maximum bytes of responses from former snapshots that are not read yet. Each text counts once, because it is in memory
    /// once for any number of readers.
    pub(crate) former: usize,
}

/// The connections of one listener.
#[derive(Debug, Clone)]
pub(super) struct Connections(Arc<Mutex<ConnectionTable>>);

#[derive(Debug)]
struct ConnectionTable {
    limits: ConnectionLimits,
    next: u64,
    open: BTreeMap<u64, OpenConnection>,
    /// A random hash key: clients cannot predict which source is chosen.
    random: RandomState,
}

#[derive(Debug)]
struct OpenConnection {
    source: IpAddr,
    activity: ConnectionActivity,
    /// When the activity began.
    began: Instant,
    /// When the activity began, or last made progress.
    since: Instant,
    /// Dropped with this entry, which closes the connection.
    _close: oneshot::Sender<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionActivity {
    /// No request was received yet.
    Arriving,
    /// All responses were sent.
    Idle,
    /// A part of the next request was received.
    Asking,
    /// The client waits for its response.
    Waiting,
    /// A response is being sent.
    Reading(Option<PendingBody>),
}

/// A snapshot that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PendingBody {
    /// The number of the collection.
    collection: u64,
    /// The address of the text, which identifies it.
    at: usize,
    length: usize,
}

/// An open connection; dropping it removes it from the table.
#[derive(Debug)]
pub(super) struct Connection {
    table: Connections,
    id: u64,
    source: IpAddr,
}

/// Completes when the connection must be closed.
pub(super) type CloseSignal = oneshot::Receiver<()>;

/// Clients of this source have not read former responses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlowReader;

impl Connections {
    pub(super) fn with_limits(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Mutex::new(ConnectionTable {
            limits,
            next: 0,
            open: BTreeMap::new(),
            random: RandomState::new(),
        })))
    }

    /// Adds a connection from a source. Evicts another one if a limit is reached.
    pub(super) fn register(&self, source: IpAddr) -> (Arc<Connection>, CloseSignal) {
        let (close, end) = oneshot::channel();
        let mut table = self.lock();
        table.evict_one(source);
        let id = table.next;
        table.next += 1;
        let open = OpenConnection {
            source,
            activity: ConnectionActivity::Arriving,
            began: Instant::now(),
            since: Instant::now(),
            _close: close,
        };
        table.open.insert(id, open);
        (Arc::new(Connection { table: self.clone(), id, source }), end)
    }

    /// Closes the connections that have exceeded their timeouts.
    pub(super) fn end_overdue(&self) {
        self.lock().open.retain(|_, open| !open.is_overdue());
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Returns the source of the connection: an IPv4 address or an IPv6 /64.
    pub(super) fn source(&self) -> IpAddr {
        self.source
    }

    /// Records that bytes were received.
    pub(super) fn on_received(&self) {
        self.change(|open| {
            if open.activity == ConnectionActivity::Idle {
                open.set(ConnectionActivity::Asking);
            }
        });
    }

    /// Records that bytes were sent.
    pub(super) fn on_sent(&self) {
        self.change(|open| {
            if matches!(open.activity, ConnectionActivity::Reading(_)) {
                open.since = Instant::now();
            }
        });
    }

    /// Records that a request was received.
    pub(super) fn on_request(&self) {
        self.change(|open| open.set(ConnectionActivity::Waiting));
    }

    /// Tracks a response body that is always in memory, such as a file of the page.
    pub(super) fn track_static(self: &Arc<Self>, text: Bytes) -> Bytes {
        self.change(|open| open.set(ConnectionActivity::Reading(None)));
        Bytes::from_owner(TrackedBody { text, by: self.clone() })
    }

    /// Tracks a response body from a snapshot. May close connections that read older snapshots.
    ///
    /// # Errors
    /// [`SlowReader`] if the source has too many unread bytes.
    pub(super) fn track_snapshot(
        self: &Arc<Self>,
        collection: u64,
        text: Bytes,
    ) -> Result<Bytes, SlowReader> {
        let sent = PendingBody { collection, at: text.as_ptr().addr(), length: text.len() };
        self.table.lock().send(self.id, sent)?;
        Ok(Bytes::from_owner(TrackedBody { text, by: self.clone() }))
    }

    fn change(&self, change: impl FnOnce(&mut OpenConnection)) {
        if let Some(open) = self.table.lock().open.get_mut(&self.id) {
            change(open);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.table.lock().open.remove(&self.id);
    }
}

/// A response body. It is dropped when its last byte was sent.
struct TrackedBody {
    text: Bytes,
    by: Arc<Connection>,
}

impl AsRef<[u8]> for TrackedBody {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.by.change(|open| open.set(ConnectionActivity::Idle));
    }
}

impl ConnectionTable {
    fn evict_one(&mut self, source: IpAddr) {
        let of_source = self.open.values().filter(|open| open.source == source).count();
        let evicted = if of_source >= self.limits.of_source {
            self.least_busy(|open| open.source == source)
        } else if self.open.len() >= self.limits.all {
            self.of_largest_source()
        } else {
            None
        };
        if let Some(id) = evicted {
            self.open.remove(&id);
        }
    }

    /// Returns a connection of the largest source: of all sources, or of the largest network if that exceeds the source limit.
    fn of_largest_source(&self) -> Option<u64> {
        let networks = self.count(|open| Some(site_prefix(open.source)));
        let largest = networks.into_iter().filter(|(_, count)| *count > self.limits.of_source);
        let largest = largest.max_by_key(|(_, count)| *count).map(|(network, _)| network);
        let is_candidate =
            |open: &OpenConnection| largest.is_none_or(|largest| site_prefix(open.source) == largest);
        let sources = self.count(|open| is_candidate(open).then_some(open.source));
        let maximum = sources.values().max();
        self.least_busy(|open| is_candidate(open) && sources.get(&open.source) == maximum)
    }

    /// Counts connections by the address that `key` returns.
    fn count(&self, key: impl Fn(&OpenConnection) -> Option<IpAddr>) -> HashMap<IpAddr, usize> {
        let mut counts = HashMap::new();
        for address in self.open.values().filter_map(key) {
            *counts.entry(address).or_default() += 1;
        }
        counts
    }

    /// Returns the longest idle connection of those that match; of a random source if several have idle ones.
    fn least_busy(&self, of: impl Fn(&OpenConnection) -> bool) -> Option<u64> {
        let open = self.open.iter().filter(|(_, open)| of(open));
        let random = |open: &OpenConnection| self.random.hash_one((self.next, open.source));
        open.min_by_key(|(_, open)| (open.activity.is_busy(), random(open), open.since)).map(|(id, _)| *id)
    }

    fn send(&mut self, id: u64, sent: PendingBody) -> Result<(), SlowReader> {
        let Some(source) = self.open.get(&id).map(|open| open.source) else { return Ok(()) };
        let of_source = self.open.values().filter(|open| open.source == source);
        let unread: usize = of_source.filter_map(OpenConnection::sent).map(|sent| sent.length).sum();
        if unread > 0 && unread + sent.length > self.limits.unread {
            return Err(SlowReader);
        }
        if let Some(open) = self.open.get_mut(&id) {
            open.set(ConnectionActivity::Reading(Some(sent)));
        }
        self.close_slow_readers();
        Ok(())
    }

    /// Closes the connections that read the oldest snapshots, until the limit of former snapshots is met.
    fn close_slow_readers(&mut self) {
        loop {
            let sent = || self.open.values().filter_map(OpenConnection::sent);
            let newest = sent().map(|sent| sent.collection).max();
            let former = sent().filter(|sent| Some(sent.collection) != newest);
            let texts: HashMap<usize, usize> = former.map(|sent| (sent.at, sent.length)).collect();
            if texts.values().sum::<usize>() <= self.limits.former {
                return;
            }
            let oldest = sent().map(|sent| sent.collection).min();
            self.open.retain(|_, open| open.sent().is_none_or(|sent| Some(sent.collection) != oldest));
        }
    }
}

impl OpenConnection {
    fn set(&mut self, activity: ConnectionActivity) {
        let now = Instant::now();
        (self.activity, self.began, self.since) = (activity, now, now);
    }

    fn is_overdue(&self) -> bool {
        let is_reading = matches!(self.activity, ConnectionActivity::Reading(_));
        self.since.elapsed() >= self.activity.timeout()
            || is_reading && self.began.elapsed() >= RESPONSE_TIMEOUT
    }

    fn sent(&self) -> Option<PendingBody> {
        match self.activity {
            ConnectionActivity::Reading(sent) => sent,
            _ => None,
        }
    }
}

impl ConnectionActivity {
    fn is_busy(self) -> bool {
        matches!(self, Self::Waiting | Self::Reading(_))
    }

    /// Returns the timeout of the activity.
    fn timeout(self) -> Duration {
        match self {
            Self::Arriving | Self::Asking => REQUEST_TIMEOUT,
            Self::Idle => KEEPALIVE_TIMEOUT,
            Self::Waiting => Duration::MAX, // for the server, which has its own timeouts
            Self::Reading(_) => SEND_STALL_TIMEOUT,
        }
    }
}

#[cfg(test)]
mod tests;
