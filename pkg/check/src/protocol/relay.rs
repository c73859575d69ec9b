//! A relay between a client and an agent, for tests.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// The end that sends a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Agent,
}

/// Relays one connection to `to`. `change` can modify each piece; its arguments are the sender, the offset and the piece.
pub(crate) fn relay(
    on: Ipv4Addr,
    to: SocketAddr,
    change: impl Fn(Sender, usize, &mut Vec<u8>) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((on, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let change = Arc::new(change);
    thread::spawn(move || {
        let client = listener.accept().unwrap().0;
        let agent = TcpStream::connect(to).unwrap();
        for (sender, from, to) in [(Sender::Client, &client, &agent), (Sender::Agent, &agent, &client)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let change = Arc::clone(&change);
            thread::spawn(move || copy(from, to, |before, piece| change(sender, before, piece)));
        }
    });
    address
}

fn copy(mut from: TcpStream, mut to: TcpStream, change: impl Fn(usize, &mut Vec<u8>)) {
    let (mut before, mut piece) = (0, [0; 4096]);
    while let Ok(read @ 1..) = from.read(&mut piece) {
        let mut passed = piece[..read].to_vec();
        change(before, &mut passed);
        before += read;
        if to.write_all(&passed).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Returns a `change` that flips one bit of the byte at offset `at`.
pub(crate) fn flip(sender: Sender, at: usize) -> impl Fn(Sender, usize, &mut Vec<u8>) + Send + Sync {
    move |from, before, piece| {
        let place = at.checked_sub(before).filter(|_| from == sender);
        if let Some(byte) = place.and_then(|place| piece.get_mut(place)) {
            *byte ^= 1;
        }
    }
}
