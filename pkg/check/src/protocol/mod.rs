//! The protocol between the two ends of a test. perftest's two ends have a protocol of their own.
//!
//! It runs over TCP, and every wait has a timeout. The handshake consists of three lines of JSON:
//!
//! ```text
//! agent   {"silkrailCheck":3,"nonce":"…","token":true}
//! client  {"silkrailCheck":3,"key":"…"}          Noise NNpsk0 with the sealed payload {"to":"10.0.0.2"}: see [`handshake`]
//! agent   {"key":"…"}                            with the sealed payload {} or {"refusal":{…}}
//! ```
//!
//! Messages follow: a length of two bytes (big-endian), and a JSON object, which is sealed if there is a token. A host
//! between the ends can neither read a sealed message nor change, repeat or drop one undetected. Without a token the agent
//! listens on a loopback address only, the lines contain no key, and nothing is sealed.
//!
//! ```text
//! client  {"type":"test","test":{…},"wanted":{…},"gid":"10.0.0.1"}
//! agent   {"type":"ready","tcpPort":18515,"end":{…}}           perftest's server listens
//! client  {"type":"finished"}                                  or it closes the connection, which ends the test too
//! agent   {"type":"done","end":{…}}                            with the growth of its counters
//! ```
//!
//! The agent can send `{"type":"refused","reason":"busy","message":"…"}` instead of any of its messages, and also instead of
//! its last handshake line, which is not sealed if the two ends have different tokens. `{"type":"ports"}` asks for the list of
//! the agent's ports. `{"type":"run",…}` makes an agent the client of another agent, on one or several rails at the same time;
//! it sends `{"type":"working"}` every few seconds, `{"type":"result","rail":0,"record":{…}}` or `{"type":"railFailed",…}` for
//! each rail, and then `{"type":"runDone"}`.
//!
//! Each end refuses every protocol version other than its own, and names both. There is no version negotiation: every new
//! option of a test has a new version, so that an agent that does not know an option never ignores it.

pub mod channel;
pub mod handshake;
mod message;
pub mod message_buffer;
mod message_stream;
mod refusal;
#[cfg(test)]
pub(crate) mod relay;
mod token;

pub use message::{AgentReply, AgentRequest, MAX_RAILS, RailEnds, RemoteTest};
pub use message_stream::MessageStream;
pub use refusal::{AgentRefusal, RefusalReason};
pub use token::CheckToken;

/// The version of the protocol. Ends of different versions refuse each other.
pub const VERSION: u32 = 3;
