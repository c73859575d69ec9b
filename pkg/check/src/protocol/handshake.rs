//! The first lines: versions, and the proof of each end that it has the token.
//!
//! Each end sends a nonce of 32 random bytes. A proof is the HMAC-SHA256, keyed with the token, of the end's role and of
//! both nonces, so it is worth nothing in another connection, nor from the other role. The client proves first. What
//! follows is neither encrypted nor signed: who can change packets between two nodes can disturb a test, but not start
//! one. The nodes' network has to be trusted as far.

use std::{fs::File, io::Read, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Reason, Refusal, Reply, Token, VERSION, Wire};
use crate::{Error, Interrupt, error::io};

/// How long an agent waits for a client to introduce itself. It says one line, so no byte of it gives it more time.
pub(crate) const WITHIN: Duration = Duration::from_secs(5);

/// How long an agent may take for a line: it may be busy with others.
const ANSWERING: Duration = Duration::from_secs(10);

const CLIENT: &[u8] = b"silkrail check 1 client";
const AGENT: &[u8] = b"silkrail check 1 agent";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Greeting {
    silkrail_check: u32,
    nonce: String,
    token: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Introduction {
    silkrail_check: u32,
    nonce: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Welcome {
    Refused(Reply),
    Proven { proof: Option<String> },
}

/// The agent's part.
///
/// # Errors
/// [`Error::NotTrusted`] if the client has not the token; and those of [`Wire::receive`].
pub fn accept(wire: &mut Wire, token: Option<&Token>, interrupt: &Interrupt) -> Result<(), Error> {
    let ours = nonce()?;
    wire.send(&Greeting { silkrail_check: VERSION, nonce: hex(&ours), token: token.is_some() })?;
    let theirs: Introduction = wire.receive(WITHIN, interrupt)?;
    if theirs.silkrail_check != VERSION {
        let why =
            format!("this agent speaks version {VERSION} of the protocol, not {}", theirs.silkrail_check);
        refuse(wire, Reason::Version, why.clone());
        return Err(wire.protocol(&why));
    }
    let nonce = unhex(&theirs.nonce).ok_or_else(|| wire.protocol("a nonce has 32 bytes"))?;
    let proof = match token {
        None => None,
        Some(token) => {
            let proof = theirs.proof.as_deref().and_then(unhex).unwrap_or_default();
            if !token.is_proof([CLIENT, &ours, &nonce], &proof) {
                refuse(
                    wire,
                    Reason::Token,
                    "the token is wrong or missing: the same --token-file is needed at both ends".into(),
                );
                return Err(Error::NotTrusted { peer: wire.peer().to_string(), why: "has not our token" });
            }
            token.proof([AGENT, &ours, &nonce])
        }
    };
    wire.send(&Welcome::Proven { proof: proof.map(|proof| hex(&proof)) })
}

/// The client's part.
///
/// # Errors
/// [`Error::NotTrusted`] if the agent has not the token; and those of [`Wire::receive`].
pub fn introduce(wire: &mut Wire, token: Option<&Token>, interrupt: &Interrupt) -> Result<(), Error> {
    let greeting: Greeting = match wire.receive(ANSWERING, interrupt) {
        Err(Error::Closed { peer }) => return Err(Error::TurnedAway { peer }),
        greeting => greeting?,
    };
    if greeting.silkrail_check != VERSION {
        let why = format!("it speaks version {} of the protocol, this is {VERSION}", greeting.silkrail_check);
        return Err(wire.protocol(&why));
    }
    let not_trusted = |wire: &Wire, why| Error::NotTrusted { peer: wire.peer().to_string(), why };
    let theirs = unhex(&greeting.nonce).ok_or_else(|| wire.protocol("a nonce has 32 bytes"))?;
    match (greeting.token, token) {
        (true, None) => return Err(not_trusted(wire, "wants a token: give --token-file")),
        // It might be anybody who listens there.
        (false, Some(_)) => return Err(not_trusted(wire, "has no token, and --token-file asks for one")),
        _ => {}
    }
    let ours = nonce()?;
    let proof = token.and_then(|token| token.proof([CLIENT, &theirs, &ours])).map(|proof| hex(&proof));
    wire.send(&Introduction { silkrail_check: VERSION, nonce: hex(&ours), proof })?;
    match (wire.receive(ANSWERING, interrupt)?, token) {
        (Welcome::Refused(Reply::Refused(refusal)), _) => {
            Err(Error::Refused { peer: wire.peer().to_string(), refusal })
        }
        (Welcome::Refused(_), _) => Err(wire.protocol("it did not finish the handshake")),
        (Welcome::Proven { .. }, None) => Ok(()),
        (Welcome::Proven { proof }, Some(token)) => {
            let proof = proof.as_deref().and_then(unhex).unwrap_or_default();
            if token.is_proof([AGENT, &theirs, &ours], &proof) {
                Ok(())
            } else {
                Err(not_trusted(wire, "has not our token"))
            }
        }
    }
}

fn refuse(wire: &mut Wire, reason: Reason, message: String) {
    // It may be gone already.
    let _ = wire.send(&Reply::Refused(Refusal { reason, message: message.into() }));
}

fn nonce() -> Result<[u8; 32], Error> {
    let mut nonce = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut nonce));
    read.map_err(io("read /dev/urandom"))?;
    Ok(nonce)
}

/// Two digits per byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32 bytes of 64 digits.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        net::{TcpListener, TcpStream},
        os::unix::fs::PermissionsExt,
        thread,
    };

    use super::*;

    fn token(text: &str) -> Token {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
        Token::read(file.path()).unwrap()
    }

    /// What the agent and the client make of each other.
    fn meet(agent: Option<Token>, client: Option<Token>) -> (Result<(), Error>, Result<(), Error>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = thread::spawn(move || {
            let mut wire = Wire::new(TcpStream::connect(address).unwrap()).unwrap();
            introduce(&mut wire, client.as_ref(), &Interrupt::never())
        });
        let mut wire = Wire::new(listener.accept().unwrap().0).unwrap();
        let accepted = accept(&mut wire, agent.as_ref(), &Interrupt::never());
        drop(wire);
        (accepted, client.join().unwrap())
    }

    #[test]
    fn who_has_the_same_token_or_none_is_let_in() {
        let same = || Some(token("a token of the cluster"));
        let (agent, client) = meet(same(), same());
        assert!(agent.is_ok() && client.is_ok(), "{agent:?} {client:?}");
        let (agent, client) = meet(None, None);
        assert!(agent.is_ok() && client.is_ok(), "{agent:?} {client:?}");
    }

    #[test]
    fn who_has_another_token_is_refused_and_told() {
        let (agent, client) = meet(Some(token("a token of the cluster")), Some(token("a token of another")));
        assert!(matches!(agent, Err(Error::NotTrusted { .. })), "{agent:?}");
        assert!(matches!(client, Err(Error::Refused { .. })), "{client:?}");
        let (agent, client) = meet(Some(token("a token of the cluster")), None);
        assert!(agent.is_err() && matches!(client, Err(Error::NotTrusted { .. })), "{client:?}");
    }

    #[test]
    fn an_agent_without_the_token_is_not_trusted() {
        let (_, client) = meet(None, Some(token("a token of the cluster")));
        // Before it is sent any proof.
        assert!(matches!(client, Err(Error::NotTrusted { why, .. }) if why.starts_with("has no token")));
    }

    #[test]
    fn an_agent_that_sends_the_clients_proof_back_is_not_trusted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = thread::spawn(move || {
            let mut wire = Wire::new(TcpStream::connect(address).unwrap()).unwrap();
            introduce(&mut wire, Some(&token("a token of the cluster")), &Interrupt::never())
        });
        let mut wire = Wire::new(listener.accept().unwrap().0).unwrap();
        let nonce = hex(&nonce().unwrap());
        wire.send(&Greeting { silkrail_check: VERSION, nonce, token: true }).unwrap();
        let theirs: Introduction = wire.receive(WITHIN, &Interrupt::never()).unwrap();
        wire.send(&Welcome::Proven { proof: theirs.proof }).unwrap();
        assert!(matches!(client.join().unwrap(), Err(Error::NotTrusted { .. })));
    }

    #[test]
    fn hex_is_64_digits_or_nothing() {
        let nonce = nonce().unwrap();
        assert_eq!(unhex(&hex(&nonce)), Some(nonce));
        for bad in ["", "00", &"é".repeat(32), &"g".repeat(64), &"+1".repeat(32)] {
            assert_eq!(unhex(bad).filter(|_| !bad.starts_with('+')), None, "{bad}");
        }
    }
}
