use super::*;

fn replies(messages: &[u8], done: bool) -> Replies<u8> {
    Replies { messages: messages.to_vec(), done, interrupted: false }
}

#[test]
fn a_list_that_never_ends_is_given_up() {
    for datagram in [&[][..], &[1]] {
        let (mut received, mut seen) = (0, 0);
        let endless = || {
            received += 1;
            Ok(Some(replies(datagram, false)))
        };
        let stop = receive_all(100, endless, |_| seen += 1);
        assert!(matches!(stop, Err(ReceiveEnd::Endless(100))));
        assert_eq!((received, seen), (100, 100 * datagram.len()));
    }
}

#[test]
fn a_list_that_ends_with_the_last_datagram_allowed_is_whole() {
    let mut left = 3;
    let list = || {
        left -= 1;
        Ok(Some(replies(&[left], left == 0)))
    };
    let mut seen = Vec::new();
    assert!(receive_all(3, list, |message| seen.push(message)).is_ok());
    assert_eq!(seen, [2, 1, 0]);
}

#[test]
fn a_change_during_any_datagram_interrupts_the_list() {
    let mut left = 3;
    let list = || {
        left -= 1;
        Ok(Some(Replies { interrupted: left == 2, ..replies(&[left], left == 0) }))
    };
    assert!(matches!(receive_all(9, list, |_| {}), Err(ReceiveEnd::Interrupted(1))));
}

#[test]
fn datagrams_of_other_processes_count_for_the_limit() {
    assert!(matches!(receive_all::<u8>(9, || Ok(None), |_| {}), Err(ReceiveEnd::Endless(9))));
}

/// Reads a list that changes during the first `changes` tries, and counts the tries.
fn tries(changes: u32, timeout: Duration) -> (u32, Result<(), ReceiveEnd>) {
    let mut tries = 0;
    let read = retry_until_stable(timeout, || {
        tries += 1;
        if tries <= changes { Err(ReceiveEnd::Interrupted(1)) } else { Ok(()) }
    });
    (tries, read)
}

#[test]
fn a_list_that_changes_all_the_time_is_given_time() {
    let began = Instant::now();
    assert!(matches!(tries(12, REPLY_TIMEOUT), (13, Ok(()))));
    assert!(began.elapsed() > Duration::from_millis(500), "there was no backoff: {:?}", began.elapsed());
    let short = Duration::from_millis(30);
    assert!(matches!(tries(u32::MAX, short), (1..20, Err(ReceiveEnd::Interrupted(1..20)))));
    assert_eq!(backoff(DUMP_TRIES - 1), Duration::ZERO);
    assert_eq!(backoff(u32::MAX), MAX_BACKOFF);
}

/// A message as its type and its bytes.
#[derive(Debug, Clone)]
struct Raw(u16, Vec<u8>);

impl NetlinkSerializable for Raw {
    fn message_type(&self) -> u16 {
        self.0
    }

    fn buffer_len(&self) -> usize {
        self.1.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.1);
    }
}

impl NetlinkDeserializable for Raw {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self(header.message_type, payload.to_vec()))
    }
}

struct Rtnetlink;

impl NetlinkFamily for Rtnetlink {
    const PROTOCOL: isize = 0;
    type RtnlMessage = Raw;
}

#[test]
fn a_reply_that_is_longer_than_the_buffer_is_requested_again() {
    const NEWLINK: u16 = 16;
    const GETLINK: u16 = 18;
    let mut socket = Socket::<Rtnetlink>::open().unwrap();
    let mut loopback = vec![0; 16];
    loopback[4] = 1; // its index
    let request = Raw(GETLINK, loopback);
    for at_once in [false, true] {
        socket.buffer = Vec::with_capacity(16);
        let Raw(kind, link) = if at_once {
            socket.get_at_once("find", &"lo", request.clone()).unwrap()
        } else {
            socket.get("find", &"lo", request.clone()).unwrap()
        };
        assert!(kind == NEWLINK && link.len() > 16, "a message of type {kind} with {} bytes", link.len());
    }
}
