//! Input of the channel of `silkrail check`, before and after the handshake: a peer may be unauthenticated.

use check::protocol::{
    CheckToken,
    channel::{ChannelHandshake, MAX_NOISE_MESSAGE, SecureChannel, TAG},
    message_buffer::{MAX_LINE_BYTES, MessageBuffer},
};

const NONCE: [u8; 32] = [7; 32];

/// The first byte is the length of the chunks that the rest is split into.
pub(super) fn run(input: &[u8]) {
    let (chunk, input) =
        input.split_first().map_or((1, input), |(first, rest)| (usize::from(*first) + 1, rest));
    for next in [line, message] {
        let whole = received(input, input.len().max(1), next);
        assert_eq!(received(input, chunk, next), whole, "it depends on the chunks");
    }
    assert_rejected(input);
    assert_round_trip(input);
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

/// Everything that `next` reads from a buffer that receives these bytes in chunks.
fn received(input: &[u8], chunk: usize, next: fn(&mut MessageBuffer) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
    let (mut inbox, mut received) = (MessageBuffer::default(), Vec::new());
    for piece in input.chunks(chunk) {
        inbox.push(piece);
        while let Some(next) = next(&mut inbox) {
            received.push(next);
        }
    }
    let all: usize = received.iter().map(Vec::len).sum();
    assert!(all + inbox.len() <= input.len());
    received
}

/// A peer without the token cannot send a message that is accepted.
fn assert_rejected(input: &[u8]) {
    let token = CheckToken::new(b"a token of the cluster").unwrap();
    assert!(ChannelHandshake::of_agent(&token, &NONCE).unwrap().read(input).is_err());
    let mut client = ChannelHandshake::of_client(&token, &NONCE).unwrap();
    client.write(b"").unwrap();
    assert!(client.read(input).is_err());
    let (mut client, mut agent) = channels(&token);
    assert!(client.open(input).is_err() && agent.open(input).is_err());
}

/// A sealed message is opened unchanged, also after a modified message, which would end the connection.
fn assert_round_trip(input: &[u8]) {
    let (mut client, mut agent) = channels(&CheckToken::new(b"a token of the cluster").unwrap());
    let input = &input[..input.len().min(MAX_NOISE_MESSAGE - TAG)];
    let mut sealed = client.seal(input).unwrap();
    let at = input.first().map_or(0, |byte| usize::from(*byte) % sealed.len());
    sealed[at] ^= 1;
    assert!(agent.open(&sealed).is_err());
    sealed[at] ^= 1;
    assert_eq!(agent.open(&sealed).unwrap(), input);
    assert!(agent.open(&sealed).is_err(), "once");
}

fn channels(token: &CheckToken) -> (SecureChannel, SecureChannel) {
    let mut client = ChannelHandshake::of_client(token, &NONCE).unwrap();
    let mut agent = ChannelHandshake::of_agent(token, &NONCE).unwrap();
    agent.read(&client.write(b"").unwrap()).unwrap();
    client.read(&agent.write(b"").unwrap()).unwrap();
    (client.finish().unwrap(), agent.finish().unwrap())
}
