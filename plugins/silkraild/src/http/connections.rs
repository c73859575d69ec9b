//! Who is connected, and who has to go: so many connections in all and from one address, and so many bytes of answers.
//!
//! Nobody waits for a connection to become free. Where there is no room for a newcomer, whoever has most gives way: of
//! the source with the most connections, the one that has waited longest without asking for anything. Who has many sources
//! has them in one network, or in a few: if one network has more connections than a source may have, it is one of that
//! network's. Among sources that have as many chance decides: the one that has waited longest would always be who is slower
//! than a crowd that connects quickly, with TLS for example.

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

/// How long a client may take to ask, once it is connected or has begun to.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may ask for nothing more. Prometheus scrapes once a minute, or more often.
pub(super) const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(65);

/// How long a client may take no byte of an answer.
pub(super) const SEND_STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How much is served at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Connections.
    pub(crate) all: usize,
    /// Connections from one address.
    pub(crate) of_source: usize,
    /// Bytes of answers that clients at one address have not taken yet. A single answer may be longer.
    pub(crate) unread: usize,
    /// Bytes of answers that are not the latest ones any more, and not taken yet: each text is in memory once, however many
    /// read it.
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
    /// Nobody else can tell who goes.
    chance: RandomState,
}

#[derive(Debug)]
struct OpenConnection {
    source: IpAddr,
    doing: ConnectionActivity,
    /// When it began to, or last made progress.
    since: Instant,
    /// Dropped with this entry: the connection ends then.
    _stay: oneshot::Sender<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionActivity {
    /// It has not asked for anything yet.
    Arriving,
    /// It has been answered.
    Idle,
    /// A part of its next request is there.
    Asking,
    /// It waits for us.
    Waiting,
    /// It takes an answer.
    Reading(Option<PendingBody>),
}

/// A text that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PendingBody {
    /// Of which collection.
    collection: u64,
    /// Where it is in memory: so texts are told apart.
    at: usize,
    length: usize,
}

/// One connection; dropped, it has ended.
#[derive(Debug)]
pub(super) struct Connection {
    table: Connections,
    id: u64,
    source: IpAddr,
}

/// Tells a connection that it has to end.
pub(super) type CloseSignal = oneshot::Receiver<()>;

/// Clients at this address have not taken what they were given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlowReader;

impl Connections {
    pub(super) fn with_limits(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Mutex::new(ConnectionTable {
            limits,
            next: 0,
            open: BTreeMap::new(),
            chance: RandomState::new(),
        })))
    }

    /// A connection from an address, for which another may have to go.
    pub(super) fn register(&self, source: IpAddr) -> (Arc<Connection>, CloseSignal) {
        let (stay, end) = oneshot::channel();
        let mut table = self.lock();
        table.evict_one(source);
        let id = table.next;
        table.next += 1;
        let open = OpenConnection {
            source,
            doing: ConnectionActivity::Arriving,
            since: Instant::now(),
            _stay: stay,
        };
        table.open.insert(id, open);
        (Arc::new(Connection { table: self.clone(), id, source }), end)
    }

    /// Ends the connections whose clients take too long.
    pub(super) fn end_overdue(&self) {
        self.lock().open.retain(|_, open| open.since.elapsed() < open.doing.at_most());
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Where the client is.
    pub(super) fn source(&self) -> IpAddr {
        self.source
    }

    /// Bytes came in.
    pub(super) fn on_received(&self) {
        self.change(|open| {
            if open.doing == ConnectionActivity::Idle {
                open.set(ConnectionActivity::Asking);
            }
        });
    }

    /// Bytes went out.
    pub(super) fn on_sent(&self) {
        self.change(|open| {
            if matches!(open.doing, ConnectionActivity::Reading(_)) {
                open.since = Instant::now();
            }
        });
    }

    /// A request is there.
    pub(super) fn on_request(&self) {
        self.change(|open| open.set(ConnectionActivity::Waiting));
    }

    /// Bytes to answer with that are always there.
    pub(super) fn track_static(self: &Arc<Self>, text: Bytes) -> Bytes {
        self.change(|open| open.set(ConnectionActivity::Reading(None)));
        Bytes::from_owner(TrackedBody { text, by: self.clone() })
    }

    /// A text of a collection to answer with. Those who read older ones may have to go.
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

/// A text until the last byte of it was sent.
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
        let gives_way = if of_source >= self.limits.of_source {
            self.least_busy(|open| open.source == source)
        } else if self.open.len() >= self.limits.all {
            self.one_of_a_crowd()
        } else {
            None
        };
        if let Some(id) = gives_way {
            self.open.remove(&id);
        }
    }

    /// One of the source that has most: of all, or of the network that has most, if that is more than a source may have.
    fn one_of_a_crowd(&self) -> Option<u64> {
        let networks = self.count(|open| Some(site_prefix(open.source)));
        let crowd = networks.into_iter().filter(|(_, count)| *count > self.limits.of_source);
        let crowd = crowd.max_by_key(|(_, count)| *count).map(|(network, _)| network);
        let is_one = |open: &OpenConnection| crowd.is_none_or(|crowd| site_prefix(open.source) == crowd);
        let sources = self.count(|open| is_one(open).then_some(open.source));
        let most = sources.values().max();
        self.least_busy(|open| is_one(open) && sources.get(&open.source) == most)
    }

    /// How many connections there are of each kind.
    fn count(&self, kind: impl Fn(&OpenConnection) -> Option<IpAddr>) -> HashMap<IpAddr, usize> {
        let mut counts = HashMap::new();
        for kind in self.open.values().filter_map(kind) {
            *counts.entry(kind).or_default() += 1;
        }
        counts
    }

    /// Whose end costs least; if several sources have such, of one of them.
    fn least_busy(&self, of: impl Fn(&OpenConnection) -> bool) -> Option<u64> {
        let open = self.open.iter().filter(|(_, open)| of(open));
        let chance = |open: &OpenConnection| self.chance.hash_one((self.next, open.source));
        open.min_by_key(|(_, open)| (open.doing.is_busy(), chance(open), open.since)).map(|(id, _)| *id)
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

    /// Ends the connections that keep the oldest texts in memory, until no more is kept than may be.
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
    fn set(&mut self, doing: ConnectionActivity) {
        self.doing = doing;
        self.since = Instant::now();
    }

    fn sent(&self) -> Option<PendingBody> {
        match self.doing {
            ConnectionActivity::Reading(sent) => sent,
            _ => None,
        }
    }
}

impl ConnectionActivity {
    fn is_busy(self) -> bool {
        matches!(self, Self::Waiting | Self::Reading(_))
    }

    /// How long it may take.
    fn at_most(self) -> Duration {
        match self {
            Self::Arriving | Self::Asking => REQUEST_TIMEOUT,
            Self::Idle => KEEPALIVE_TIMEOUT,
            Self::Waiting => Duration::MAX, // it is our turn
            Self::Reading(_) => SEND_STALL_TIMEOUT,
        }
    }
}

#[cfg(test)]
mod tests;
