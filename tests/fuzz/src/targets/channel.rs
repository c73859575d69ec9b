//! What comes over the channel of `silkrail check`, before and after it is opened: a peer may be anybody.

use check::protocol::{
    CheckToken,
    channel::{ChannelHandshake, MAX_NOISE_MESSAGE, SecureChannel, TAG},
    message_buffer::{MAX_LINE_BYTES, MessageBuffer},
};

const NONCE: [u8; 32] = [7; 32];

/// The first byte says in pieces of how many bytes the rest comes.
pub(super) fn run(input: &[u8]) {
    let (cut, said) = input.split_first().map_or((1, input), |(first, rest)| (usize::from(*first) + 1, rest));
    for next in [line, message] {
        let whole = taken(said, said.len().max(1), next);
        assert_eq!(taken(said, cut, next), whole, "however it is cut");
    }
    is_nobodys(said);
    is_read_as_it_was_sealed(said);
}

fn line(inbox: &mut MessageBuffer) -> Option<Vec<u8>> {
    let line = inbox.line().ok().flatten();
    assert!(line.as_ref().is_none_or(|line| line.len() <= MAX_LINE_BYTES && line.ends_with(b"\n")));
    line
}

fn message(inbox: &mut MessageBuffer) -> Option<Vec<u8>> {
    let message = inbox.message();
    assert!(message.as_ref().is_none_or(|message| message.len() <= MAX_NOISE_MESSAGE));
    message
}

/// What is taken out of an inbox into which this comes.
fn taken(said: &[u8], cut: usize, next: fn(&mut MessageBuffer) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
    let (mut inbox, mut taken) = (MessageBuffer::default(), Vec::new());
    for piece in said.chunks(cut) {
        inbox.push(piece);
        while let Some(next) = next(&mut inbox) {
            taken.push(next);
        }
    }
    let all: usize = taken.iter().map(Vec::len).sum();
    assert!(all + inbox.len() <= said.len());
    taken
}

/// Nobody who has not the token says what could be read.
fn is_nobodys(said: &[u8]) {
    let token = CheckToken::new(b"a token of the cluster").unwrap();
    assert!(ChannelHandshake::of_agent(&token, &NONCE).unwrap().read(said).is_err());
    let mut client = ChannelHandshake::of_client(&token, &NONCE).unwrap();
    client.write(b"").unwrap();
    assert!(client.read(said).is_err());
    let (mut client, mut agent) = channels(&token);
    assert!(client.open(said).is_err() && agent.open(said).is_err());
}

/// Also after something else came in between, of which the connection would end.
fn is_read_as_it_was_sealed(said: &[u8]) {
    let (mut client, mut agent) = channels(&CheckToken::new(b"a token of the cluster").unwrap());
    let said = &said[..said.len().min(MAX_NOISE_MESSAGE - TAG)];
    let mut sealed = client.seal(said).unwrap();
    let at = said.first().map_or(0, |byte| usize::from(*byte) % sealed.len());
    sealed[at] ^= 1;
    assert!(agent.open(&sealed).is_err());
    sealed[at] ^= 1;
    assert_eq!(agent.open(&sealed).unwrap(), said);
    assert!(agent.open(&sealed).is_err(), "once");
}

fn channels(token: &CheckToken) -> (SecureChannel, SecureChannel) {
    let mut client = ChannelHandshake::of_client(token, &NONCE).unwrap();
    let mut agent = ChannelHandshake::of_agent(token, &NONCE).unwrap();
    agent.read(&client.write(b"").unwrap()).unwrap();
    client.read(&agent.write(b"").unwrap()).unwrap();
    (client.finish().unwrap(), agent.finish().unwrap())
}
