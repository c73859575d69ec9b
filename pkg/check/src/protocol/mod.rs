//! What the two ends of a test say to each other, beside what perftest's two ends say.
//!
//! Over TCP, every wait with a deadline. First three lines of JSON, of which the agent says the first:
//!
//! ```text
//! agent   {"silkrailCheck":2,"nonce":"…","token":true}
//! client  {"silkrailCheck":2,"key":"…"}          Noise NNpsk0, in which {"to":"10.0.0.2"} is sealed: see [`handshake`]
//! agent   {"key":"…"}                            in which {} is sealed, or {"refusal":{…}}
//! ```
//!
//! Then messages: two bytes with the length of the rest (big-endian), and a JSON object, sealed if there is a token. Nobody
//! on the way can read it, or change, repeat or leave one out without being noticed. Without a token the agent listens on
//! the loopback address only, there is no key in the lines, and nothing is sealed.
//!
//! ```text
//! client  {"type":"test","test":{…},"wanted":{…},"gid":"10.0.0.1"}
//! agent   {"type":"ready","tcpPort":18515,"end":{…}}           perftest's server listens
//! client  {"type":"finished"}                                  or it closes the connection, which ends the test too
//! agent   {"type":"done","end":{…}}                            with what its counters counted
//! ```
//!
//! Instead of any of the agent's messages `{"type":"refused","reason":"busy","message":"…"}` may come, and in place of its
//! last line, for an agent and a client that do not agree of a token have nothing to seal it with. With
//! `{"type":"run",…}` an agent is told to be the client of another; it sends `{"type":"working"}` every few seconds
//! and then `{"type":"result","record":{…}}`.
//!
//! A number that is not the other's own version is refused, whichever it is: there is no older version that could be asked
//! for.

pub mod channel;
pub mod handshake;
pub mod inbox;
mod message;
#[cfg(test)]
pub(crate) mod relay;
mod token;
mod wire;

pub use message::{AgentRefusal, AgentReply, AgentRequest, RefusalReason, RemoteTest};
pub use token::CheckToken;
pub use wire::MessageStream;

/// The version of the protocol. Ends of different versions refuse each other.
pub const VERSION: u32 = 2;
