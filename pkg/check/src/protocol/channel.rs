//! The encrypted channel of two ends with the same token: Noise `NNpsk0`, with a pre-shared key derived from the token.
//!
//! Each message is encrypted and numbered, so that a changed, repeated or dropped message, or one of another connection, is
//! detected. The keys are ephemeral: a token that is disclosed later does not decrypt earlier connections.

use std::fmt;

use snow::{Builder, HandshakeState, TransportState};

use super::CheckToken;

/// The Noise protocol name. Changing it requires a new protocol version.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// The Noise prologue is this, followed by the agent's nonce. It must be equal at both ends.
const PROLOGUE: &[u8; 16] = b"silkrail check 3";

/// Bytes that sealing adds to a message: the authentication tag.
pub const TAG: usize = 16;

/// Maximum length of a Noise message, in bytes.
pub const MAX_NOISE_MESSAGE: usize = 65_535;

/// A message could not be authenticated, is too long or out of turn; or no random numbers are available.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ChannelError(String);

impl From<snow::Error> for ChannelError {
    fn from(error: snow::Error) -> Self {
        Self(error.to_string())
    }
}

/// The handshake of a channel: the client writes and then reads, the agent reads and then writes.
pub struct ChannelHandshake(HandshakeState);

impl ChannelHandshake {
    /// Returns the client's (initiator's) handshake.
    ///
    /// # Errors
    /// [`ChannelError`] if no random numbers are available.
    pub fn of_client(token: &CheckToken, nonce: &[u8; 32]) -> Result<Self, ChannelError> {
        with(token, nonce, |builder| builder.build_initiator())
    }

    /// Returns the agent's (responder's) handshake.
    ///
    /// # Errors
    /// [`ChannelError`] if no random numbers are available.
    pub fn of_agent(token: &CheckToken, nonce: &[u8; 32]) -> Result<Self, ChannelError> {
        with(token, nonce, |builder| builder.build_responder())
    }

    /// Returns the next handshake message, which only an end with the token can read.
    ///
    /// # Errors
    /// [`ChannelError`] if it is the other end's turn.
    pub fn write(&mut self, payload: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut message = vec![0; payload.len() + 64];
        let written = self.0.write_message(payload, &mut message)?;
        message.truncate(written);
        Ok(message)
    }

    /// Returns the payload of the other end's handshake message. Success proves that the other end has the token.
    ///
    /// # Errors
    /// [`ChannelError`] if the message cannot be authenticated.
    pub fn read(&mut self, message: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut payload = vec![0; message.len()];
        let read = self.0.read_message(message, &mut payload)?;
        payload.truncate(read);
        Ok(payload)
    }

    /// Returns the channel after both messages.
    ///
    /// # Errors
    /// [`ChannelError`] if the handshake is not complete.
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

/// An established channel.
pub struct SecureChannel(TransportState);

impl SecureChannel {
    /// Encrypts the next message.
    ///
    /// # Errors
    /// [`ChannelError`] if the message is longer than [`MAX_NOISE_MESSAGE`] without its [`TAG`].
    pub fn seal(&mut self, message: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut sealed = vec![0; message.len() + TAG];
        let written = self.0.write_message(message, &mut sealed)?;
        sealed.truncate(written);
        Ok(sealed)
    }

    /// Decrypts the next message of the other end.
    ///
    /// # Errors
    /// [`ChannelError`] if it is not the next message of the other end, unchanged.
    pub fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, ChannelError> {
        let mut message = vec![0; sealed.len()];
        let read = self.0.read_message(sealed, &mut message)?;
        message.truncate(read);
        Ok(message)
    }
}

impl fmt::Debug for ChannelHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelHandshake(…)")
    }
}

impl fmt::Debug for SecureChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecureChannel(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; 32] = [7; 32];

    /// Returns the bytes that arrive at the agent, in place of what the client has sealed.
    type Tampering = Box<dyn Fn(&mut SecureChannel) -> Vec<u8>>;

    /// Returns the client's and the agent's end of a channel.
    fn channels() -> (SecureChannel, SecureChannel) {
        let token = CheckToken::of("a token of the cluster");
        let mut client = ChannelHandshake::of_client(&token, &NONCE).unwrap();
        let mut agent = ChannelHandshake::of_agent(&token, &NONCE).unwrap();
        assert_eq!(agent.read(&client.write(b"hello").unwrap()).unwrap(), b"hello");
        assert_eq!(client.read(&agent.write(b"welcome").unwrap()).unwrap(), b"welcome");
        (client.finish().unwrap(), agent.finish().unwrap())
    }

    #[test]
    fn messages_arrive_and_cannot_be_read_in_transit() {
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
    fn a_message_that_was_changed_repeated_dropped_or_reflected_is_refused() {
        let length = channels().0.seal(b"a message").unwrap().len();
        let mut bad: Vec<Tampering> = vec![
            Box::new(|client| client.seal(b"a message").unwrap()[..8].to_vec()),
            Box::new(|_| Vec::new()),
            // The second message instead of the first.
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
        assert!(client.open(&sealed).is_err(), "its own message");
        assert!(agent.open(&sealed).is_ok());
        assert!(agent.open(&sealed).is_err(), "a repeated message");
        let (mut other, _) = channels();
        assert!(agent.open(&other.seal(b"a message").unwrap()).is_err(), "a message of another connection");
    }

    #[test]
    fn a_channel_requires_the_token_and_the_nonce() {
        let [token, other] = ["a token of the cluster", "a token of another"].map(CheckToken::of);
        let hello = |token, nonce| ChannelHandshake::of_client(token, nonce).unwrap().write(b"").unwrap();
        let read = |hello: &[u8]| ChannelHandshake::of_agent(&token, &NONCE).unwrap().read(hello).is_ok();
        assert!(read(&hello(&token, &NONCE)));
        assert!(!read(&hello(&other, &NONCE)));
        assert!(!read(&hello(&token, &[8; 32])), "the nonce of another connection");
        let hello = hello(&token, &NONCE);
        for length in 0..hello.len() {
            assert!(!read(&hello[..length]));
        }
        assert!(!read(&[hello, vec![0]].concat()));
    }
}
