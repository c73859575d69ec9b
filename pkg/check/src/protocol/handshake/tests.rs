//! What ends make of each other that have the same token, another or none, the same version or another; and of whoever is
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

/// An agent for one connection, and what becomes of it.
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

/// What the agent and the client make of each other.
fn meet(
    agents: Option<CheckToken>,
    clients: Option<CheckToken>,
) -> (Result<MessageStream, Error>, Result<MessageStream, Error>) {
    let (address, accepted) = agent(agents);
    let introduced = client(address, clients);
    (accepted.join().unwrap(), introduced)
}

/// What a client makes of an agent that says these lines, and what it said itself.
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

/// What an agent makes of a client that says this line, and what it said to it after its greeting.
fn agent_of(line: &Value, token: Option<CheckToken>) -> (Error, Value) {
    let (address, accepted) = agent(token);
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    let mut answer = String::new();
    stream.read_line(&mut answer).unwrap();
    answer.clear();
    stream.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    stream.read_line(&mut answer).unwrap();
    (accepted.join().unwrap().unwrap_err(), serde_json::from_str(&answer).unwrap())
}

#[test]
fn who_has_the_same_token_or_none_is_let_in() {
    for token in [token, || None] {
        let (agent, client) = meet(token(), token());
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
fn who_has_another_token_is_refused_and_told() {
    let (agent, client) = meet(token(), Some(CheckToken::of("a token of another")));
    assert!(matches!(agent, Err(Error::NotTrusted { .. })), "{agent:?}");
    let told = client.unwrap_err().to_string();
    assert!(told.contains("the token is wrong or missing: the same --token-file"), "{told}");
    let (agent, client) = meet(token(), None);
    assert!(matches!(agent, Err(Error::Left { .. })), "{agent:?}");
    assert!(client.unwrap_err().to_string().contains("wants a token: give --token-file"));
}

#[test]
fn an_agent_without_the_token_is_not_trusted() {
    let (_, client) = meet(None, token());
    assert!(client.unwrap_err().to_string().contains("has no token, and --token-file asks for one"));
}

#[test]
fn a_client_with_a_token_says_nothing_to_an_agent_of_another_version_or_without_one() {
    let nonce = "00".repeat(32);
    let older: &'static str = json!({"silkrailCheck": 1, "nonce": nonce, "token": true}).to_string().leak();
    for (greeting, why) in [
        (older, "it speaks version 1 of the protocol, this is 2: both ends need the same silkrail"),
        (r#"{"silkrailCheck":3}"#, "it speaks version 3"),
        (r#"{"silkrailCheck":2,"nonce":"","token":false}"#, "has no token, and --token-file asks for one"),
        (r#"{"silkrailCheck":2,"nonce":"00","token":true}"#, "a nonce has 32 bytes"),
        ("SSH-2.0-OpenSSH_9.2p1", "does not speak this protocol"),
    ] {
        let (error, said) = client_of([greeting].to_vec().leak(), token());
        assert!(error.to_string().contains(why), "{greeting}: {error}");
        assert_eq!(said, [""; 0], "{greeting}");
    }
}

#[test]
fn an_agent_with_a_token_lets_in_nobody_by_plain_text_or_an_older_version() {
    let [nonce, proof] = ["00".repeat(32), "11".repeat(32)];
    for (line, reason) in [
        (json!({"silkrailCheck": 1, "nonce": nonce, "proof": proof}), "version"),
        (json!({"silkrailCheck": 2, "nonce": nonce, "proof": proof}), "token"),
        (json!({"silkrailCheck": 2}), "token"),
        (json!({"silkrailCheck": 2, "key": null}), "token"),
        (json!({"silkrailCheck": 2, "key": ""}), "token"),
        (json!({"silkrailCheck": 2, "key": nonce}), "token"),
        (json!({"silkrailCheck": 2, "key": "00".repeat(1000)}), "token"),
    ] {
        let (error, answer) = agent_of(&line, token());
        assert_eq!((&answer["type"], &answer["reason"]), (&"refused".into(), &reason.into()), "{line}");
        assert!(matches!(error, Error::NotTrusted { .. } | Error::Protocol { .. }), "{error}");
    }
}

#[test]
fn a_client_of_the_version_before_reads_that_the_versions_differ() {
    // What it takes for a greeting.
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
        assert_eq!((older.silkrail_check, older.nonce.len(), older.token), (2, 64, has_token));
        let told = accepted.join().unwrap().unwrap_err().to_string();
        assert!(told.contains("a client of another version"), "{told}");
    }
}

#[test]
fn an_agent_that_sends_the_clients_key_back_is_not_trusted() {
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
fn without_a_token_only_this_node_is_talked_to() {
    let (address, _accepted) = agent(None);
    let mut wire = MessageStream::new(TcpStream::connect(address).unwrap()).unwrap();
    wire.fake_peer("192.0.2.1:18514".parse().unwrap());
    let error = connect_handshake(&mut wire, None, &Interrupt::never()).unwrap_err().to_string();
    assert!(
        error.contains("has no token, and is not this node: give both ends the same --token-file"),
        "{error}"
    );
}

#[test]
fn an_agent_hears_which_address_its_client_has_connected_to_and_may_refuse_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::spawn(move || client(address, token()));
    let mut wire = MessageStream::new(listener.accept().unwrap().0).unwrap();
    let asked = Mutex::new(None);
    let accepted = accept_handshake(&mut wire, token().as_ref(), &Interrupt::never(), |to| {
        *asked.lock().unwrap() = to;
        Err(AgentRefusal { reason: RefusalReason::Busy, message: "not now".into() })
    });
    assert_eq!(accepted.unwrap_err().to_string(), "127.0.0.1 was not let in: not now");
    assert_eq!(asked.into_inner().unwrap(), Some(Ipv4Addr::LOCALHOST.into()));
    assert_eq!(client.join().unwrap().unwrap_err().to_string(), "127.0.0.1: not now");
}

#[test]
fn whichever_byte_of_the_handshake_is_changed_nobody_gets_a_channel_with_somebody_else() {
    // As long as the lines are, and a byte more, which is never sent.
    let (lengths, measured) = mpsc::channel();
    let (address, accepted) = agent(token());
    let way = relay(Ipv4Addr::LOCALHOST, address, move |sender, before, piece| {
        lengths.send((sender, before + piece.len())).unwrap();
    });
    assert!(client(way, token()).is_ok() && accepted.join().unwrap().is_ok());
    let lengths: Vec<_> = measured.try_iter().collect();
    let longest =
        |wanted| lengths.iter().filter(|(from, _)| *from == wanted).map(|(_, length)| *length).max();
    for sender in [Sender::Client, Sender::Agent] {
        let length = longest(sender).unwrap();
        // Each place of what stands before the keys, and some of these.
        for at in (0..length - 1).filter(|at| *at < 24 || at % 13 == 0 || *at > length - 24) {
            let (address, accepted) = agent(token());
            let introduced = client(relay(Ipv4Addr::LOCALHOST, address, flip(sender, at)), token());
            let error = introduced.map(|_| format!("{sender:?} {at}")).unwrap_err();
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
fn what_a_client_said_in_one_connection_is_worth_nothing_in_another() {
    let (said, heard) = mpsc::channel();
    let (address, accepted) = agent(token());
    let way = relay(Ipv4Addr::LOCALHOST, address, move |sender, _, piece| {
        if sender == Sender::Client {
            said.send(piece.clone()).unwrap();
        }
    });
    assert!(client(way, token()).is_ok() && accepted.join().unwrap().is_ok());
    let introduction = serde_json::from_slice(&heard.recv().unwrap()).unwrap();
    let (error, answer) = agent_of(&introduction, token());
    assert!(matches!(error, Error::NotTrusted { .. }), "{error}");
    assert_eq!(answer["reason"], "token");
}

#[test]
fn bytes_are_two_digits_each() {
    let nonce = nonce().unwrap();
    assert_eq!(unhex(&hex(&nonce)).unwrap(), nonce);
    assert!(unhex("").unwrap().is_empty());
    for bad in ["0", "é", "+1", "0g", "00 "] {
        assert_eq!(unhex(bad), None, "{bad}");
    }
}
