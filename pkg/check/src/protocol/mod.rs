//! What the two ends of a test say to each other, beside what perftest's two ends say.
//!
//! Over TCP, one JSON object per line, at most 64 KiB each, every wait with a deadline. The agent speaks first:
//!
//! ```text
//! agent   {"silkrailCheck":1,"nonce":"…","token":true}
//! client  {"silkrailCheck":1,"nonce":"…","proof":"…"}          proof: HMAC-SHA256 over both nonces, see [`handshake`]
//! agent   {"proof":"…"}
//! client  {"type":"test","test":{…},"wanted":{…},"gid":"10.0.0.1"}
//! agent   {"type":"ready","tcpPort":18515,"end":{…}}           perftest's server listens
//! client  {"type":"finished"}                                  or it closes the connection, which ends the test too
//! agent   {"type":"done","end":{…}}                            with what its counters counted
//! ```
//!
//! Instead of any of the agent's lines `{"type":"refused","reason":"busy","message":"…"}` may come. With
//! `{"type":"run",…}` an agent is told to be the client of another; it sends `{"type":"working"}` every few seconds
//! and then `{"type":"result","record":{…}}`.

pub mod handshake;
mod message;
mod token;
mod wire;

pub use message::{Reason, Refusal, Reply, Request, Run};
pub use token::Token;
pub use wire::Wire;

/// The version of the protocol. Ends of different versions refuse each other.
pub const VERSION: u32 = 1;
