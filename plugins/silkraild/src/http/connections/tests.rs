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
async fn a_source_that_has_many_gives_up_its_own() {
    let table = Connections::with_limits(LIMITS);
    let (_other, mut other) = table.register(source(1));
    let mut ends = Vec::new();
    let mut open = Vec::new();
    for _ in 0..5 {
        let (connection, end) = table.register(source(2));
        open.push(connection);
        ends.push(end);
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert_eq!(ends.iter_mut().map(has_ended).collect::<Vec<_>>(), [true, true, false, false, false]);
    assert!(!has_ended(&mut other));
}

#[tokio::test(start_paused = true)]
async fn in_a_full_house_the_idlest_of_the_source_with_most_gives_way() {
    let table = Connections::with_limits(LIMITS);
    let (_alone, mut alone) = table.register(source(1));
    tokio::time::advance(Duration::from_millis(1)).await;
    let (asking, mut asks) = table.register(source(2));
    asking.on_request();
    tokio::time::advance(Duration::from_millis(1)).await;
    let (_first, mut first) = table.register(source(2));
    tokio::time::advance(Duration::from_millis(1)).await;
    let (_second, mut second) = table.register(source(2));
    let (_newcomer, mut newcomer) = table.register(source(3));
    assert!(has_ended(&mut first));
    assert!(![&mut alone, &mut asks, &mut second, &mut newcomer].into_iter().any(has_ended));
}

/// As many as silkraild has.
const HOUSE: ConnectionLimits = ConnectionLimits { all: 128, of_source: 16, ..LIMITS };

/// Of the network of 48 bits with this number, the network of 64 bits with that one.
fn site(number: u16, network: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, number, network, 0, 0, 0, 0).into()
}

/// Clients that connect, a millisecond after the other, and say nothing.
async fn crowd(
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
async fn ten_thousand_sources_of_one_network_push_nobody_out_of_another() {
    let table = Connections::with_limits(HOUSE);
    let (_slow, mut slow) = table.register(site(1, 1));
    let (asking, mut asks) = table.register(site(1, 2));
    asking.on_request();
    let mut open = crowd(&table, (0..10_000).map(|n| site(2, n))).await;
    assert!(!has_ended(&mut slow) && !has_ended(&mut asks));
    let stay = open.iter_mut().map(|(_, end)| has_ended(end)).filter(|ended| !ended).count();
    assert_eq!(stay, HOUSE.all - 2);
    assert!(!has_ended(&mut open.last_mut().unwrap().1), "a newcomer has a place");
}

/// Of 128 that chance chooses from as often, 47 are left; the longest waiting would all be gone.
#[tokio::test(start_paused = true)]
async fn of_as_many_networks_as_sources_one_goes_by_chance_and_nobody_who_is_being_answered() {
    let table = Connections::with_limits(HOUSE);
    let (asking, mut asks) = table.register(site(0, 0));
    asking.on_request();
    let mut open = crowd(&table, (1..256).map(|n| site(n, 0))).await;
    let left = open[..HOUSE.all].iter_mut().map(|(_, end)| has_ended(end)).filter(|ended| !ended).count();
    assert!((16..=96).contains(&left) && !has_ended(&mut asks), "{left}");
}

#[test]
fn a_connection_that_ended_makes_room() {
    let table = Connections::with_limits(LIMITS);
    let (first, _end) = table.register(source(1));
    drop(first);
    assert!(table.lock().open.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_read_gets_no_more_and_one_answer_may_be_of_any_length() {
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
async fn who_reads_the_oldest_texts_has_to_go_when_they_are_too_many() {
    let table = Connections::with_limits(LIMITS);
    let shared = text(30);
    let mut open = Vec::new();
    for (from, collection, text) in
        [(1, 1, shared.clone()), (2, 1, shared), (3, 2, text(30)), (4, 3, text(30))]
    {
        let (connection, end) = table.register(source(from));
        let taken = connection.track_snapshot(collection, text).unwrap();
        open.push((connection, end, taken));
    }
    // The first two share one text; the last is the latest, and does not count.
    let ended: Vec<_> = open.iter_mut().map(|(_, end, _)| has_ended(end)).collect();
    assert_eq!(ended, [true, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn each_has_the_time_that_it_needs_and_no_more() {
    let table = Connections::with_limits(LIMITS);
    let (_silent, mut silent) = table.register(source(1));
    let (idle, mut idles) = table.register(source(2));
    drop(idle.track_static(text(1)));
    let (reader, mut reads) = table.register(source(3));
    let _taken = reader.track_static(text(1));
    let (waiting, mut waits) = table.register(source(4));
    waiting.on_request();
    tokio::time::advance(REQUEST_TIMEOUT - Duration::from_millis(1)).await;
    reader.on_sent();
    table.end_overdue();
    assert!(![&mut silent, &mut idles, &mut reads, &mut waits].into_iter().any(has_ended));
    tokio::time::advance(Duration::from_millis(2)).await;
    table.end_overdue();
    assert!(has_ended(&mut silent));
    assert!(![&mut idles, &mut reads, &mut waits].into_iter().any(has_ended));
    // Some bytes of a request: the rest has to come.
    idle.on_received();
    tokio::time::advance(REQUEST_TIMEOUT).await;
    idle.on_received();
    table.end_overdue();
    assert!(has_ended(&mut idles) && has_ended(&mut reads) && !has_ended(&mut waits));
}
