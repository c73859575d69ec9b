//! Handshakes between ends with the same, different or no tokens and with equal or different versions, and with a relay
//! between them.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Mutex, mpsc},
    thread,
};

use serde_json::{Value, json};

use super::{
    super::relay::{Sender, flip, relay},
    *,
};

const TOKEN: &str = "a token of the cluster";

fn token() -> Option<CheckToken> {
    Some(CheckToken::of(TOKEN))
}

fn admitted(_: Option<IpAddr>) -> Result<(), AgentRefusal> {
    Ok(())
}

/// Starts an agent for one connection. The thread returns the result of its handshake.
fn agent(token: Option<CheckToken>) -> (SocketAddr, thread::JoinHandle<Result<MessageStream, Error>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = thread::spawn(move || {
        let mut wire = MessageStream::new(listener.accept().unwrap().0).unwrap();
        accept_handshake(&mut wire, token.as_ref(), &Interrupt::never(), admitted).map(|()| wire)
    });
    (address, accepted)
}

fn client(to: SocketAddr, token: Option<CheckToken>) -> Result<MessageStream, Error> {
    let mut wire = MessageStream::new(TcpStream::connect(to).unwrap()).unwrap();
    connect_handshake(&mut wire, token.as_ref(), &Interrupt::never()).map(|()| wire)
}

/// Returns the results of the handshake at the agent and at the client.
fn connect(
    agents: Option<CheckToken>,
    clients: Option<CheckToken>,
) -> (Result<MessageStream, Error>, Result<MessageStream, Error>) {
    let (address, accepted) = agent(agents);
    let connected = client(address, clients);
    (accepted.join().unwrap(), connected)
}

/// Returns the error of a client whose agent sends these lines, and the lines that the client sent.
fn client_of(lines: &'static [&str], token: Option<CheckToken>) -> (Error, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let agent = thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        for line in lines {
            stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        }
        stream.lines().map_while(Result::ok).collect()
    });
    let error = client(address, token).unwrap_err();
    (error, agent.join().unwrap())
}

/// Returns the error of an agent whose client sends this line, and the agent's reply.
fn agent_of(line: &Value, token: Option<CheckToken>) -> (Error, Value) {
    let (address, accepted) = agent(token);
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    let mut reply = String::new();
    stream.read_line(&mut reply).unwrap();
    reply.clear();
    stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    stream.read_line(&mut reply).unwrap();
    (accepted.join().unwrap().unwrap_err(), serde_json::from_str(&reply).unwrap())
}

#[test]
fn ends_with_the_same_token_or_none_connect() {
    for token in [token, || None] {
        let (agent, client) = connect(token(), token());
        let (mut agent, mut client) = (agent.unwrap(), client.unwrap());
        for n in 0..3u32 {
            client.send(&n).unwrap();
            assert_eq!(agent.receive::<u32>(HANDSHAKE_TIMEOUT, &Interrupt::never()).unwrap(), n);
            agent.send(&n).unwrap();
            assert_eq!(client.receive::<u32>(HANDSHAKE_TIMEOUT, &Interrupt::never()).unwrap(), n);
        }
    }
}

#[test]
fn a_client_with_another_token_is_refused_with_the_reason() {
    let (agent, client) = connect(token(), Some(CheckToken::of("a token of another")));
    assert!(matches!(agent, Err(Error::NotTrusted { .. })), "{agent:?}");
    let error = client.unwrap_err().to_string();
    assert!(error.contains("the token is wrong or missing: use the same --token-file"), "{error}");
    let (agent, client) = connect(token(), None);
    assert!(matches!(agent, Err(Error::ClosedDuringHandshake { .. })), "{agent:?}");
    assert!(client.unwrap_err().to_string().contains("requires a token: use --token-file"));
}

#[test]
fn an_agent_without_the_token_is_not_trusted() {
    let (_, client) = connect(None, token());
    assert!(client.unwrap_err().to_string().contains("has no token, but --token-file requires one"));
}

#[test]
fn a_client_with_a_token_sends_nothing_to_an_agent_of_another_version_or_without_a_token() {
    let nonce = "00".repeat(32);
    let older: &'static str = json!({"silkrailCheck": 1, "nonce": nonce, "token": true}).to_string().leak();
    for (greeting, why) in [
        (older, "protocol version 1, expected 3: use the same version of silkrail at both ends"),
        (r#"{"silkrailCheck":2}"#, "protocol version 2, expected 3"),
        (r#"{"silkrailCheck":3,"nonce":"","token":false}"#, "has no token, but --token-file requires one"),
        (r#"{"silkrailCheck":3,"nonce":"00","token":true}"#, "expected a nonce of 32 bytes"),
        ("SSH-2.0-OpenSSH_9.2p1", "protocol error"),
    ] {
        let (error, said) = client_of([greeting].to_vec().leak(), token());
        assert!(error.to_string().contains(why), "{greeting}: {error}");
        assert_eq!(said, [""; 0], "{greeting}");
    }
}

#[test]
fn an_agent_with_a_token_accepts_neither_plain_text_nor_an_older_version() {
    let [nonce, proof] = ["00".repeat(32), "11".repeat(32)];
    for (line, reason) in [
        (json!({"silkrailCheck": 1, "nonce": nonce, "proof": proof}), "version"),
        (json!({"silkrailCheck": 3, "nonce": nonce, "proof": proof}), "token"),
        (json!({"silkrailCheck": 3}), "token"),
        (json!({"silkrailCheck": 3, "key": null}), "token"),
        (json!({"silkrailCheck": 3, "key": ""}), "token"),
        (json!({"silkrailCheck": 3, "key": nonce}), "token"),
        (json!({"silkrailCheck": 3, "key": "00".repeat(1000)}), "token"),
    ] {
        let (error, reply) = agent_of(&line, token());
        assert_eq!((&reply["type"], &reply["reason"]), (&"refused".into(), &reason.into()), "{line}");
        assert!(matches!(error, Error::NotTrusted { .. } | Error::Protocol { .. }), "{error}");
    }
}

#[test]
fn a_client_of_the_previous_version_can_read_the_version() {
    // The greeting that it expects.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Older {
        silkrail_check: u32,
        nonce: String,
        token: bool,
    }
    for token in [token(), None] {
        let has_token = token.is_some();
        let (address, accepted) = agent(token);
        let mut greeting = String::new();
        BufReader::new(TcpStream::connect(address).unwrap()).read_line(&mut greeting).unwrap();
        let older: Older = serde_json::from_str(&greeting).unwrap();
        assert_eq!((older.silkrail_check, older.nonce.len(), older.token), (3, 64, has_token));
        let error = accepted.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("a client of another version"), "{error}");
    }
}

#[test]
fn an_agent_that_reflects_the_clients_key_is_not_trusted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::spawn(move || client(address, token()));
    let mut wire = MessageStream::new(listener.accept().unwrap().0).unwrap();
    let nonce = hex(&nonce().unwrap());
    wire.send_line(&AgentGreeting { silkrail_check: VERSION, nonce, token: true }).unwrap();
    let theirs: ClientGreeting = wire.receive_line(HANDSHAKE_TIMEOUT, &Interrupt::never()).unwrap();
    wire.send_line(&HandshakeAccepted { key: theirs.key }).unwrap();
    assert!(matches!(client.join().unwrap(), Err(Error::NotTrusted { .. })));
}

#[test]
fn without_a_token_a_client_connects_to_loopback_only() {
    let (address, _accepted) = agent(None);
    let mut wire = MessageStream::new(TcpStream::connect(address).unwrap()).unwrap();
    wire.fake_peer("192.0.2.1:18514".parse().unwrap());
    let error = connect_handshake(&mut wire, None, &Interrupt::never()).unwrap_err().to_string();
    assert!(
        error.contains("has no token and is another host: use the same --token-file at both ends"),
        "{error}"
    );
}

#[test]
fn an_agent_receives_the_address_that_the_client_connected_to_and_can_refuse_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::spawn(move || client(address, token()));
    let mut wire = MessageStream::new(listener.accept().unwrap().0).unwrap();
    let received = Mutex::new(None);
    let accepted = accept_handshake(&mut wire, token().as_ref(), &Interrupt::never(), |to| {
        *received.lock().unwrap() = to;
        Err(AgentRefusal { reason: RefusalReason::Busy, message: "not now".into() })
    });
    assert_eq!(accepted.unwrap_err().to_string(), "127.0.0.1: connection refused: not now");
    assert_eq!(received.into_inner().unwrap(), Some(Ipv4Addr::LOCALHOST.into()));
    assert_eq!(client.join().unwrap().unwrap_err().to_string(), "127.0.0.1: not now");
}

#[test]
fn a_change_of_any_byte_of_the_handshake_prevents_the_channel() {
    // Measure the length of the lines.
    let (lengths, measured) = mpsc::channel();
    let (address, accepted) = agent(token());
    let relayed = relay(Ipv4Addr::LOCALHOST, address, move |sender, before, piece| {
        lengths.send((sender, before + piece.len())).unwrap();
    });
    assert!(client(relayed, token()).is_ok() && accepted.join().unwrap().is_ok());
    let lengths: Vec<_> = measured.try_iter().collect();
    let longest =
        |wanted| lengths.iter().filter(|(from, _)| *from == wanted).map(|(_, length)| *length).max();
    for sender in [Sender::Client, Sender::Agent] {
        let length = longest(sender).unwrap();
        // Each byte before the keys, and some bytes of the keys.
        for at in (0..length - 1).filter(|at| *at < 24 || at % 13 == 0 || *at > length - 24) {
            let (address, accepted) = agent(token());
            let connected = client(relay(Ipv4Addr::LOCALHOST, address, flip(sender, at)), token());
            let error = connected.map(|_| format!("{sender:?} {at}")).unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::NotTrusted { .. }
                        | Error::Protocol { .. }
                        | Error::Refused { .. }
                        | Error::Closed { .. }
                ),
                "{error}"
            );
            if sender == Sender::Client {
                accepted.join().unwrap().unwrap_err();
            }
        }
    }
}

#[test]
fn the_line_of_a_client_cannot_be_replayed_in_another_connection() {
    let (sent, received) = mpsc::channel();
    let (address, accepted) = agent(token());
    let relayed = relay(Ipv4Addr::LOCALHOST, address, move |sender, _, piece| {
        if sender == Sender::Client {
            sent.send(piece.clone()).unwrap();
        }
    });
    assert!(client(relayed, token()).is_ok() && accepted.join().unwrap().is_ok());
    let line = serde_json::from_slice(&received.recv().unwrap()).unwrap();
    let (error, reply) = agent_of(&line, token());
    assert!(matches!(error, Error::NotTrusted { .. }), "{error}");
    assert_eq!(reply["reason"], "token");
}

#[test]
fn bytes_are_encoded_as_two_digits_each() {
    let nonce = nonce().unwrap();
    assert_eq!(unhex(&hex(&nonce)).unwrap(), nonce);
    assert!(unhex("").unwrap().is_empty());
    for bad in ["0", "é", "+1", "0g", "00 "] {
        assert_eq!(unhex(bad), None, "{bad}");
    }
}
