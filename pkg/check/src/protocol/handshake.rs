//! The first lines: versions, and the proof of each end that it has the token.
//!
//! The agent's line has a nonce of 32 random bytes. With a token, the two lines after it open a [channel](super), in which
//! the nonce has part: what a client says is worth nothing in another connection. The client proves first that it has the
//! token, and says, so that nobody else can read or change it, which address it has connected to: an agent with another
//! address does not let it in, for somebody may be between them who passes everything on. What the agent answers is as
//! safe. Nothing else is spoken by an end that has a token: neither an older version nor plain text.

use std::{fs::File, io::Read, net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    AgentRefusal, AgentReply, CheckToken, MessageStream, RefusalReason, VERSION,
    channel::{ChannelError, ChannelHandshake},
};
use crate::{Error, Interrupt, error::io};

/// How long an agent waits for a client to introduce itself. It says one line, so no byte of it gives it more time.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an agent may take for a line: it may be busy with others.
const AGENT_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

const SAME_TOKEN: &str = "the token is wrong or missing: the same --token-file is needed at both ends";

/// The agent's line. What a later version adds or leaves out does not keep its number from being read.
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

/// What a client says in the channel, before it is open.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SealedClientHello {
    /// Which address it has connected to.
    to: IpAddr,
}

/// What an agent answers there.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SealedAgentHello {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<AgentRefusal>,
}

/// The agent's part. `admit` hears, of a client that has the token, which address it has connected to, and may refuse it.
///
/// # Errors
/// [`Error::NotTrusted`] if the client has not the token, [`Error::NotAdmitted`], [`Error::Left`]; and those of
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
        Err(Error::Closed { peer }) => return Err(Error::Left { peer }),
        theirs => theirs?,
    };
    if theirs.silkrail_check != VERSION {
        let why =
            format!("this agent speaks version {VERSION} of the protocol, not {}", theirs.silkrail_check);
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
        return Err(not_trusted(wire, "has not our token"));
    };
    let SealedClientHello { to } = parse(wire, &hello)?;
    let admitted = admit(Some(to));
    let answer = SealedAgentHello { refusal: admitted.as_ref().err().cloned() };
    let key = opening.write(&text(wire, &answer)?).map_err(no_key)?;
    wire.send_line(&HandshakeAccepted { key: Some(hex(&key)) })?;
    admitted.map_err(|refusal| not_admitted(wire, refusal))?;
    wire.seal_with(opening.finish().map_err(no_key)?);
    Ok(())
}

/// The client's part.
///
/// # Errors
/// [`Error::NotTrusted`] if the agent has not the token, [`Error::Refused`]; and those of [`MessageStream::receive`].
pub fn connect_handshake(
    wire: &mut MessageStream,
    token: Option<&CheckToken>,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let greeting: AgentGreeting = match wire.receive_line(AGENT_REPLY_TIMEOUT, interrupt) {
        Err(Error::Closed { peer }) => return Err(Error::TurnedAway { peer }),
        greeting => greeting?,
    };
    if greeting.silkrail_check != VERSION {
        let theirs = greeting.silkrail_check;
        let why = format!(
            "it speaks version {theirs} of the protocol, this is {VERSION}: both ends need the same silkrail"
        );
        return Err(wire.protocol(&why));
    }
    match (greeting.token, token) {
        (true, None) => Err(not_trusted(wire, "wants a token: give --token-file")),
        // It might be anybody who listens there.
        (false, Some(_)) => Err(not_trusted(wire, "has no token, and --token-file asks for one")),
        (false, None) if !wire.peer().is_loopback() => {
            Err(not_trusted(wire, "has no token, and is not this node: give both ends the same --token-file"))
        }
        (false, None) => {
            wire.send_line(&ClientGreeting { silkrail_check: VERSION, key: None })?;
            welcome(wire, interrupt).map(drop)
        }
        (true, Some(token)) => {
            let nonce = unhex(&greeting.nonce).and_then(|nonce| nonce.try_into().ok());
            let nonce = nonce.ok_or_else(|| wire.protocol("a nonce has 32 bytes"))?;
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
    let answer = opening.read(&key).map_err(|_| not_trusted(wire, "has not our token"))?;
    if let SealedAgentHello { refusal: Some(refusal) } = parse(wire, &answer)? {
        return Err(Error::Refused { peer: wire.peer().to_string(), refusal });
    }
    wire.seal_with(opening.finish().map_err(no_key)?);
    Ok(())
}

/// The agent's last line. A refusal in it may be anybody's: who has not the token cannot say it otherwise.
fn welcome(wire: &mut MessageStream, interrupt: &Interrupt) -> Result<Option<String>, Error> {
    match wire.receive_line(AGENT_REPLY_TIMEOUT, interrupt)? {
        HandshakeReply::Opened(HandshakeAccepted { key }) => Ok(key),
        HandshakeReply::Refused(AgentReply::Refused(refusal)) => {
            Err(Error::Refused { peer: wire.peer().to_string(), refusal })
        }
        HandshakeReply::Refused(_) => Err(wire.protocol("it did not finish the handshake")),
    }
}

fn refuse(wire: &mut MessageStream, refusal: AgentRefusal) {
    // It may be gone already.
    let _ = wire.send_line(&AgentReply::Refused(refusal));
}

fn not_trusted(wire: &MessageStream, why: &'static str) -> Error {
    Error::NotTrusted { peer: wire.peer().to_string(), why }
}

fn not_admitted(wire: &MessageStream, refusal: AgentRefusal) -> Error {
    Error::NotAdmitted { peer: wire.peer().to_string(), refusal }
}

/// Without random numbers there are no keys.
fn no_key(error: ChannelError) -> Error {
    io("make the keys of a channel")(std::io::Error::other(error))
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

/// Two digits per byte.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of so many digits.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests;
