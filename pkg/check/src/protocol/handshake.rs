//! The handshake: the two ends exchange their versions and prove that they have the token.
//!
//! The agent's line contains a nonce of 32 random bytes. With a token, the next two lines establish a [channel](super) that
//! depends on the nonce, so that a client's line cannot be replayed in another connection. The client proves first that it
//! has the token. It also sends, encrypted, the address that it connected to. An agent without that address refuses the
//! client, because another host may relay the connection. The agent's reply is encrypted in the same way. An end with a
//! token accepts neither another version nor plain text.

use std::{fs::File, io::Read, net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    AgentRefusal, AgentReply, CheckToken, MessageStream, RefusalReason, VERSION,
    channel::{ChannelError, ChannelHandshake},
};
use crate::{Error, Interrupt, error::io};

/// How long an agent waits for the client's line. Bytes of an incomplete line do not extend it. Longer in tests, whose clients
/// may be slow but not as slow as this.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 15 } else { 5 });

/// How long an agent may take for a line, since it can be busy with other connections.
const AGENT_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

const SAME_TOKEN: &str = "the token is wrong or missing: use the same --token-file at both ends";

/// The agent's line. Fields that another version adds or omits do not prevent reading its version number.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentGreeting {
    silkrail_check: u32,
    #[serde(default)]
    nonce: String,
    #[serde(default)]
    token: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientGreeting {
    silkrail_check: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum HandshakeReply {
    Refused(AgentReply),
    Opened(HandshakeAccepted),
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HandshakeAccepted {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// The payload that a client seals in its handshake line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SealedClientHello {
    /// The address that the client connected to.
    to: IpAddr,
}

/// The payload that an agent seals in its handshake line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SealedAgentHello {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<AgentRefusal>,
}

/// Performs the agent's handshake. Calls `admit` for a client that has the token, with the address that the client connected
/// to (`None` without a token); it can refuse the client.
///
/// # Errors
/// [`Error::NotTrusted`] if the client does not have the token, [`Error::NotAdmitted`], [`Error::ClosedDuringHandshake`]; and those of
/// [`MessageStream::receive`].
pub fn accept_handshake(
    wire: &mut MessageStream,
    token: Option<&CheckToken>,
    interrupt: &Interrupt,
    admit: impl FnOnce(Option<IpAddr>) -> Result<(), AgentRefusal>,
) -> Result<(), Error> {
    let nonce = nonce()?;
    wire.send_line(&AgentGreeting { silkrail_check: VERSION, nonce: hex(&nonce), token: token.is_some() })?;
    let theirs: ClientGreeting = match wire.receive_line(HANDSHAKE_TIMEOUT, interrupt) {
        Err(Error::Closed { peer }) => return Err(Error::ClosedDuringHandshake { peer }),
        theirs => theirs?,
    };
    if theirs.silkrail_check != VERSION {
        let theirs = theirs.silkrail_check;
        let why = format!(
            "protocol version {theirs}, expected {VERSION}: use the same version of silkrail at both ends"
        );
        refuse(wire, AgentRefusal { reason: RefusalReason::Version, message: why.as_str().into() });
        return Err(wire.protocol(&why));
    }
    match token {
        None => accept_plain(wire, admit),
        Some(token) => accept_sealed(wire, token, &nonce, theirs.key.as_deref(), admit),
    }
}

fn accept_plain(
    wire: &mut MessageStream,
    admit: impl FnOnce(Option<IpAddr>) -> Result<(), AgentRefusal>,
) -> Result<(), Error> {
    let Err(refusal) = admit(None) else { return wire.send_line(&HandshakeAccepted::default()) };
    refuse(wire, refusal.clone());
    Err(not_admitted(wire, refusal))
}

fn accept_sealed(
    wire: &mut MessageStream,
    token: &CheckToken,
    nonce: &[u8; 32],
    key: Option<&str>,
    admit: impl FnOnce(Option<IpAddr>) -> Result<(), AgentRefusal>,
) -> Result<(), Error> {
    let mut opening = ChannelHandshake::of_agent(token, nonce).map_err(no_key)?;
    let Some(hello) = key.and_then(unhex).and_then(|key| opening.read(&key).ok()) else {
        refuse(wire, AgentRefusal { reason: RefusalReason::Token, message: SAME_TOKEN.into() });
        return Err(not_trusted(wire, "does not have the token of this node"));
    };
    let SealedClientHello { to } = parse(wire, &hello)?;
    let admitted = admit(Some(to));
    let reply = SealedAgentHello { refusal: admitted.as_ref().err().cloned() };
    let key = opening.write(&text(wire, &reply)?).map_err(no_key)?;
    wire.send_line(&HandshakeAccepted { key: Some(hex(&key)) })?;
    admitted.map_err(|refusal| not_admitted(wire, refusal))?;
    wire.seal_with(opening.finish().map_err(no_key)?);
    Ok(())
}

/// Performs the client's handshake.
///
/// # Errors
/// [`Error::NotTrusted`] if the agent does not have the token, [`Error::Refused`]; and those of [`MessageStream::receive`].
pub fn connect_handshake(
    wire: &mut MessageStream,
    token: Option<&CheckToken>,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let greeting: AgentGreeting = match wire.receive_line(AGENT_REPLY_TIMEOUT, interrupt) {
        Err(Error::Closed { peer }) => return Err(Error::ClosedBeforeGreeting { peer }),
        greeting => greeting?,
    };
    if greeting.silkrail_check != VERSION {
        let theirs = greeting.silkrail_check;
        let why = format!(
            "protocol version {theirs}, expected {VERSION}: use the same version of silkrail at both ends"
        );
        return Err(wire.protocol(&why));
    }
    match (greeting.token, token) {
        (true, None) => Err(not_trusted(wire, "requires a token: use --token-file")),
        // Any process could listen there.
        (false, Some(_)) => Err(not_trusted(wire, "has no token, but --token-file requires one")),
        (false, None) if !wire.peer().is_loopback() => {
            Err(not_trusted(wire, "has no token and is another host: use the same --token-file at both ends"))
        }
        (false, None) => {
            wire.send_line(&ClientGreeting { silkrail_check: VERSION, key: None })?;
            welcome(wire, interrupt).map(drop)
        }
        (true, Some(token)) => {
            let nonce = unhex(&greeting.nonce).and_then(|nonce| nonce.try_into().ok());
            let nonce = nonce.ok_or_else(|| wire.protocol("expected a nonce of 32 bytes"))?;
            introduce_sealed(wire, token, &nonce, interrupt)
        }
    }
}

fn introduce_sealed(
    wire: &mut MessageStream,
    token: &CheckToken,
    nonce: &[u8; 32],
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let mut opening = ChannelHandshake::of_client(token, nonce).map_err(no_key)?;
    let hello = text(wire, &SealedClientHello { to: wire.peer() })?;
    let key = Some(hex(&opening.write(&hello).map_err(no_key)?));
    wire.send_line(&ClientGreeting { silkrail_check: VERSION, key })?;
    let key = welcome(wire, interrupt)?.as_deref().and_then(unhex).unwrap_or_default();
    let reply = opening.read(&key).map_err(|_| not_trusted(wire, "does not have the token of this node"))?;
    if let SealedAgentHello { refusal: Some(refusal) } = parse(wire, &reply)? {
        return Err(Error::Refused { peer: wire.peer().to_string(), refusal });
    }
    wire.seal_with(opening.finish().map_err(no_key)?);
    Ok(())
}

/// Receives the agent's last line. A refusal in it is not authenticated: an agent with another token cannot seal it.
fn welcome(wire: &mut MessageStream, interrupt: &Interrupt) -> Result<Option<String>, Error> {
    match wire.receive_line(AGENT_REPLY_TIMEOUT, interrupt)? {
        HandshakeReply::Opened(HandshakeAccepted { key }) => Ok(key),
        HandshakeReply::Refused(AgentReply::Refused(refusal)) => {
            Err(Error::Refused { peer: wire.peer().to_string(), refusal })
        }
        HandshakeReply::Refused(_) => Err(wire.protocol("expected the end of the handshake")),
    }
}

fn refuse(wire: &mut MessageStream, refusal: AgentRefusal) {
    // The client can already have closed the connection.
    let _ = wire.send_line(&AgentReply::Refused(refusal));
}

fn not_trusted(wire: &MessageStream, why: &'static str) -> Error {
    Error::NotTrusted { peer: wire.peer().to_string(), why }
}

fn not_admitted(wire: &MessageStream, refusal: AgentRefusal) -> Error {
    Error::NotAdmitted { peer: wire.peer().to_string(), refusal }
}

/// An error of the cryptographic library, for example because no random numbers are available.
fn no_key(error: ChannelError) -> Error {
    io("set up the encrypted channel")(std::io::Error::other(error))
}

fn text(wire: &MessageStream, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| wire.protocol(&error.to_string()))
}

fn parse<T: DeserializeOwned>(wire: &MessageStream, text: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(text).map_err(|error| wire.protocol(&error.to_string()))
}

fn nonce() -> Result<[u8; 32], Error> {
    let mut nonce = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut nonce));
    read.map_err(io("read /dev/urandom"))?;
    Ok(nonce)
}

/// Encodes bytes as two hexadecimal digits each.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hexadecimal digits; `None` if there is an odd number of them or another character.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests;
