//! The channel of two ends that have the same token: Noise `NNpsk0`, with a key that is derived from the token.
//!
//! Each message is encrypted and numbered, so one that was changed, repeated, left out or taken from another connection is
//! known. Keys are made anew for each connection: who learns the token later cannot read what was said before.

use std::fmt;

use snow::{Builder, HandshakeState, TransportState};

use super::CheckToken;

/// What the two ends do, with which algorithms. Another one is another version of the protocol.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// What both ends know of the connection before its first key: this, and the agent's nonce.
const PROLOGUE: &[u8; 16] = b"silkrail check 2";

/// What a message grows by.
pub const TAG: usize = 16;

/// The longest message of Noise.
pub const MAX_NOISE_MESSAGE: usize = 65_535;

/// It could not be read: whoever wrote it has not the keys, or it is not what was written. Or there are no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ChannelError(String);

impl From<snow::Error> for ChannelError {
    fn from(error: snow::Error) -> Self {
        Self(error.to_string())
    }
}

/// A channel that is being made: the client writes and reads, the agent reads and writes.
pub struct ChannelHandshake(HandshakeState);

impl ChannelHandshake {
    /// The client's part.
    ///
    /// # Errors
    /// [`ChannelError`], if there are no random numbers.
    pub fn of_client(token: &CheckToken, nonce: &[u8; 32]) -> Result<Self, ChannelError> {
        with(token, nonce, |builder| builder.build_initiator())
    }

    /// The agent's part.
    ///
    /// # Errors
    /// [`ChannelError`], if there are no random numbers.
    pub fn of_agent(token: &CheckToken, nonce: &[u8; 32]) -> Result<Self, ChannelError> {
        with(token, nonce, |builder| builder.build_responder())
    }

    /// The next message to the other end, which has the token if it can read it.
    ///
    /// # Errors
    /// [`ChannelError`], if it is not our turn.
    pub fn write(&mut self, payload: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut message = vec![0; payload.len() + 64];
        let written = self.0.write_message(payload, &mut message)?;
        message.truncate(written);
        Ok(message)
    }

    /// What the other end says, which has the token if this can be read.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn read(&mut self, message: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut payload = vec![0; message.len()];
        let read = self.0.read_message(message, &mut payload)?;
        payload.truncate(read);
        Ok(payload)
    }

    /// When both have spoken.
    ///
    /// # Errors
    /// [`ChannelError`], if they have not.
    pub fn finish(self) -> Result<SecureChannel, ChannelError> {
        Ok(SecureChannel(self.0.into_transport_mode()?))
    }
}

fn with(
    token: &CheckToken,
    nonce: &[u8; 32],
    build: fn(Builder<'_>) -> Result<HandshakeState, snow::Error>,
) -> Result<ChannelHandshake, ChannelError> {
    let (key, prologue) = (token.key(), [&PROLOGUE[..], nonce].concat());
    let builder = Builder::new(PATTERN.parse()?).psk(0, &key)?.prologue(&prologue)?;
    Ok(ChannelHandshake(build(builder)?))
}

/// A channel.
pub struct SecureChannel(TransportState);

impl SecureChannel {
    /// The next message, sealed.
    ///
    /// # Errors
    /// [`ChannelError`], if it is longer than [`MAX_NOISE_MESSAGE`] without its [`TAG`].
    pub fn seal(&mut self, message: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut sealed = vec![0; message.len() + TAG];
        let written = self.0.write_message(message, &mut sealed)?;
        sealed.truncate(written);
        Ok(sealed)
    }

    /// The next message of the other end.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut message = vec![0; sealed.len()];
        let read = self.0.read_message(sealed, &mut message)?;
        message.truncate(read);
        Ok(message)
    }
}

impl fmt::Debug for ChannelHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opening(…)")
    }
}

impl fmt::Debug for SecureChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; 32] = [7; 32];

    /// What arrives of what a client has sealed.
    type Arriving = Box<dyn Fn(&mut SecureChannel) -> Vec<u8>>;

    /// The client's and the agent's end of a channel.
    fn channels() -> (SecureChannel, SecureChannel) {
        let token = CheckToken::of("a token of the cluster");
        let mut client = ChannelHandshake::of_client(&token, &NONCE).unwrap();
        let mut agent = ChannelHandshake::of_agent(&token, &NONCE).unwrap();
        assert_eq!(agent.read(&client.write(b"hello").unwrap()).unwrap(), b"hello");
        assert_eq!(client.read(&agent.write(b"welcome").unwrap()).unwrap(), b"welcome");
        (client.finish().unwrap(), agent.finish().unwrap())
    }

    #[test]
    fn messages_arrive_and_cannot_be_read_on_their_way() {
        let (mut client, mut agent) = channels();
        for message in [&b""[..], b"a message", b"a message", &[1; MAX_NOISE_MESSAGE - TAG]] {
            let sealed = client.seal(message).unwrap();
            assert!(!sealed.windows(9).any(|part| part == b"a message"));
            assert_eq!(agent.open(&sealed).unwrap(), message);
            let sealed = agent.seal(message).unwrap();
            assert_eq!(client.open(&sealed).unwrap(), message);
        }
        assert_ne!(client.seal(b"a message").unwrap(), client.seal(b"a message").unwrap());
        assert!(client.seal(&[1; MAX_NOISE_MESSAGE - TAG + 1]).is_err());
    }

    #[test]
    fn a_message_that_was_changed_repeated_left_out_or_sent_back_is_refused() {
        let length = channels().0.seal(b"a message").unwrap().len();
        let mut bad: Vec<Arriving> = vec![
            Box::new(|client| client.seal(b"a message").unwrap()[..8].to_vec()),
            Box::new(|_| Vec::new()),
            // The second in place of the first.
            Box::new(|client| client.seal(b"one").and_then(|_| client.seal(b"two")).unwrap()),
        ];
        for at in 0..length {
            bad.push(Box::new(move |client| {
                let mut sealed = client.seal(b"a message").unwrap();
                sealed[at] ^= 1;
                sealed
            }));
        }
        for bad in bad {
            let (mut client, mut agent) = channels();
            assert!(agent.open(&bad(&mut client)).is_err());
        }
        let (mut client, mut agent) = channels();
        let sealed = client.seal(b"a message").unwrap();
        assert!(client.open(&sealed).is_err(), "it is its own");
        assert!(agent.open(&sealed).is_ok());
        assert!(agent.open(&sealed).is_err(), "it was there");
        let (mut other, _) = channels();
        assert!(agent.open(&other.seal(b"a message").unwrap()).is_err(), "it is of another connection");
    }

    #[test]
    fn nobody_without_the_token_and_the_nonce_opens_a_channel() {
        let [token, other] = ["a token of the cluster", "a token of another"].map(CheckToken::of);
        let hello = |token, nonce| ChannelHandshake::of_client(token, nonce).unwrap().write(b"").unwrap();
        let read = |hello: &[u8]| ChannelHandshake::of_agent(&token, &NONCE).unwrap().read(hello).is_ok();
        assert!(read(&hello(&token, &NONCE)));
        assert!(!read(&hello(&other, &NONCE)));
        assert!(!read(&hello(&token, &[8; 32])), "of another connection");
        let hello = hello(&token, &NONCE);
        for length in 0..hello.len() {
            assert!(!read(&hello[..length]));
        }
        assert!(!read(&[hello, vec![0]].concat()));
    }
}
