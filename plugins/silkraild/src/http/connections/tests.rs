use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const LIMITS: ConnectionLimits = ConnectionLimits { all: 4, of_source: 3, unread: 100, former: 50 };

fn source(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn has_ended(end: &mut CloseSignal) -> bool {
    !matches!(end.try_recv(), Err(oneshot::error::TryRecvError::Empty))
}

fn text(length: usize) -> Bytes {
    vec![b'.'; length].into()
}

#[tokio::test(start_paused = true)]
async fn a_source_at_its_limit_loses_its_own_connections() {
    let table = Connections::with_limits(LIMITS);
    let (_other, mut other_end) = table.register(source(1));
    let mut ends = Vec::new();
    let mut open = Vec::new();
    for _ in 0..5 {
        let (connection, end) = table.register(source(2));
        open.push(connection);
        ends.push(end);
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert_eq!(ends.iter_mut().map(has_ended).collect::<Vec<_>>(), [true, true, false, false, false]);
    assert!(!has_ended(&mut other_end));
}

#[tokio::test(start_paused = true)]
async fn a_source_at_its_limit_loses_the_connection_that_has_not_been_used_for_the_longest_time() {
    let table = Connections::with_limits(ConnectionLimits { all: 100, ..LIMITS });
    let mut open = connect_all(&table, [source(2); 3].into_iter()).await;
    // The oldest one has just got a response.
    open[0].0.on_request();
    drop(open[0].0.track_static(text(1)));
    tokio::time::advance(Duration::from_millis(1)).await;
    open.extend(connect_all(&table, [source(2)].into_iter()).await);
    let ended: Vec<_> = open.iter_mut().map(|(_, end)| has_ended(end)).collect();
    assert_eq!(ended, [false, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn at_the_limit_the_longest_idle_connection_of_the_largest_source_is_closed() {
    let table = Connections::with_limits(LIMITS);
    let (_only, mut only_end) = table.register(source(1));
    tokio::time::advance(Duration::from_millis(1)).await;
    let (active, mut active_end) = table.register(source(2));
    active.on_request();
    tokio::time::advance(Duration::from_millis(1)).await;
    let (_first, mut first) = table.register(source(2));
    tokio::time::advance(Duration::from_millis(1)).await;
    let (_second, mut second) = table.register(source(2));
    let (_latest, mut latest_end) = table.register(source(3));
    assert!(has_ended(&mut first));
    assert!(![&mut only_end, &mut active_end, &mut second, &mut latest_end].into_iter().any(has_ended));
}

/// The limits of the number of connections of silkraild.
const DAEMON_LIMITS: ConnectionLimits = ConnectionLimits { all: 128, of_source: 16, ..LIMITS };

/// Returns a /64 network of a /48 network, both by their numbers.
fn subnet(number: u16, network: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, number, network, 0, 0, 0, 0).into()
}

/// Opens connections at intervals of a millisecond, without requests.
async fn connect_all(
    table: &Connections,
    sources: impl Iterator<Item = IpAddr>,
) -> Vec<(Arc<Connection>, CloseSignal)> {
    let mut open = Vec::new();
    for source in sources {
        open.push(table.register(source));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    open
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_sources_of_one_network_do_not_evict_another_network() {
    let table = Connections::with_limits(DAEMON_LIMITS);
    let (_slow, mut slow_end) = table.register(subnet(1, 1));
    let (active, mut active_end) = table.register(subnet(1, 2));
    active.on_request();
    let mut open = connect_all(&table, (0..10_000).map(|n| subnet(2, n))).await;
    assert!(!has_ended(&mut slow_end) && !has_ended(&mut active_end));
    let left = open.iter_mut().map(|(_, end)| has_ended(end)).filter(|ended| !ended).count();
    assert_eq!(left, DAEMON_LIMITS.all - 2);
    assert!(!has_ended(&mut open.last_mut().unwrap().1), "the latest connection stays open");
}

/// With a random choice about 47 of 128 connections stay open; with the longest idle one, none would.
#[tokio::test(start_paused = true)]
async fn among_equal_sources_eviction_is_random_and_spares_requests_in_progress() {
    let table = Connections::with_limits(DAEMON_LIMITS);
    let (active, mut active_end) = table.register(subnet(0, 0));
    active.on_request();
    let mut open = connect_all(&table, (1..256).map(|n| subnet(n, 0))).await;
    let left =
        open[..DAEMON_LIMITS.all].iter_mut().map(|(_, end)| has_ended(end)).filter(|ended| !ended).count();
    assert!((16..=96).contains(&left) && !has_ended(&mut active_end), "{left}");
}

#[test]
fn a_dropped_connection_is_removed() {
    let table = Connections::with_limits(LIMITS);
    let (first, _end) = table.register(source(1));
    drop(first);
    assert!(table.lock().open.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_source_with_unread_responses_is_refused_but_one_response_can_have_any_length() {
    let table = Connections::with_limits(LIMITS);
    let (first, _first) = table.register(source(1));
    let (second, _second) = table.register(source(1));
    let (other, _other) = table.register(source(2));
    let unread = first.track_snapshot(1, text(1000)).unwrap();
    assert_eq!(second.track_snapshot(1, text(1)).unwrap_err(), SlowReader);
    assert!(other.track_snapshot(1, text(60)).is_ok());
    drop(unread);
    assert!(second.track_snapshot(1, text(1)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn readers_of_the_oldest_snapshots_are_closed_above_the_limit() {
    let table = Connections::with_limits(LIMITS);
    let shared = text(30);
    let mut open = Vec::new();
    for (from, collection, text) in
        [(1, 1, shared.clone()), (2, 1, shared), (3, 2, text(30)), (4, 3, text(30))]
    {
        let (connection, end) = table.register(source(from));
        let body = connection.track_snapshot(collection, text).unwrap();
        open.push((connection, end, body));
    }
    // The first two share one text; the last is the latest, and does not count.
    let ended: Vec<_> = open.iter_mut().map(|(_, end, _)| has_ended(end)).collect();
    assert_eq!(ended, [true, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn each_activity_has_its_timeout() {
    let table = Connections::with_limits(ConnectionLimits { all: 5, ..LIMITS });
    let (_silent, mut silent_end) = table.register(source(1));
    let (idle, mut idle_end) = table.register(source(2));
    drop(idle.track_static(text(1)));
    let (reader, mut reader_end) = table.register(source(3));
    let _taken = reader.track_static(text(1));
    let (waiting, mut waiting_end) = table.register(source(4));
    waiting.on_request();
    let (slow, mut slow_end) = table.register(source(5));
    tokio::time::advance(REQUEST_TIMEOUT - Duration::from_millis(1)).await;
    reader.on_sent();
    slow.on_received(); // a byte of its first request
    table.end_overdue();
    assert!(![&mut silent_end, &mut idle_end, &mut reader_end, &mut waiting_end].into_iter().any(has_ended));
    tokio::time::advance(Duration::from_millis(2)).await;
    table.end_overdue();
    assert!(has_ended(&mut silent_end) && has_ended(&mut slow_end));
    assert!(![&mut idle_end, &mut reader_end, &mut waiting_end].into_iter().any(has_ended));
    // Some bytes of a request: the rest must follow in time.
    idle.on_received();
    tokio::time::advance(REQUEST_TIMEOUT).await;
    idle.on_received();
    table.end_overdue();
    assert!(has_ended(&mut idle_end) && has_ended(&mut reader_end) && !has_ended(&mut waiting_end));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_read_too_slowly_ends_its_connection() {
    let table = Connections::with_limits(LIMITS);
    let (connection, mut end) = table.register(source(1));
    connection.on_request();
    let _text = connection.track_snapshot(1, text(10)).unwrap();
    for second in 1..=RESPONSE_TIMEOUT.as_secs() {
        assert!(!has_ended(&mut end), "after {second} s");
        connection.on_sent(); // it reads a byte each second
        tokio::time::advance(Duration::from_secs(1)).await;
        table.end_overdue();
    }
    assert!(has_ended(&mut end));
}
