//! What the HTTP frontend and the reader say to each other, over one socket.
//!
//! The frontend asks, the reader answers, in the order in which answers are ready. A message is its length, as four bytes in
//! network order, and JSON; the text of an answer follows it.

use std::{io, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{snapshot_encoding::SnapshotEncoding, web_config::WebConfigStatus};

/// The longest message, in bytes. None is half as long.
const MAX_FRAME_BYTES: u32 = 1024;

/// What the frontend wants to know.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotRequest {
    /// The answer has it too.
    pub(crate) id: u64,
    /// Which text of a reading; none, if it is to be known only that there is one.
    pub(crate) kind: Option<SnapshotEncoding>,
    /// How long a fresh reading may take. After that the latest one will do.
    pub(crate) within: Duration,
    /// The reading of which the frontend has that text.
    pub(crate) held: Option<u64>,
    /// What the metrics are to tell of the web configuration.
    pub(crate) web: Option<WebConfigStatus>,
}

/// What the reader says to that.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotReply {
    /// The question's.
    pub(crate) id: u64,
    /// The number of the reading; none before the first.
    pub(crate) number: Option<u64>,
    /// The length of the text, if one follows.
    pub(crate) length: Option<usize>,
}

/// Writes a message, and a text behind it.
///
/// # Errors
/// If the other side is gone.
pub(crate) async fn write_message<M: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &M,
    text: &[u8],
) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), &json[..]].concat()).await?;
    stream.write_all(text).await
}

/// Reads a message.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] if the other side is gone; [`io::ErrorKind::InvalidData`] if that is no message.
pub(crate) async fn read_message<M: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<M> {
    let length = stream.read_u32().await?;
    if length > MAX_FRAME_BYTES {
        let msg = format!("a message of {length} bytes; expected at most {MAX_FRAME_BYTES}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, msg));
    }
    let mut json = vec![0; length as usize];
    stream.read_exact(&mut json).await?;
    Ok(serde_json::from_slice(&json)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> SnapshotRequest {
        let web = serde_json::from_str(
            r#"{"is_well": true, "since": {"secs": 18446744073709551615, "nanos": 999999999}}"#,
        );
        SnapshotRequest {
            id: u64::MAX,
            kind: Some(SnapshotEncoding::OpenMetrics),
            within: Duration::MAX,
            held: Some(u64::MAX),
            web: Some(web.unwrap()),
        }
    }

    async fn heard<M: DeserializeOwned>(mut bytes: &[u8]) -> io::Result<M> {
        read_message(&mut bytes).await
    }

    #[tokio::test]
    async fn the_longest_message_is_half_as_long_as_it_may_be() {
        let mut said = Vec::new();
        write_message(&mut said, &question(), b"text").await.unwrap();
        assert!(said.len() < MAX_FRAME_BYTES as usize / 2, "{}", said.len());
        let same: SnapshotRequest = heard(&said).await.unwrap();
        assert_eq!(format!("{same:?}"), format!("{:?}", question()));
        assert!(said.ends_with(b"}text"));
    }

    #[tokio::test]
    async fn what_is_no_message_is_refused() {
        for (bytes, kind) in [
            (&b""[..], io::ErrorKind::UnexpectedEof),
            (b"\0\0\0", io::ErrorKind::UnexpectedEof),
            (b"\0\0\0\x02{", io::ErrorKind::UnexpectedEof),
            (b"\xff\xff\xff\xff{}", io::ErrorKind::InvalidData),
            (b"\0\0\0\x02{}", io::ErrorKind::InvalidData),
            (b"\0\0\0\x1a{\"id\":1,\"kind\":\"Password\"}", io::ErrorKind::InvalidData),
            (b"GET / HTTP/1.1\r\n\r\n", io::ErrorKind::InvalidData),
        ] {
            assert_eq!(heard::<SnapshotRequest>(bytes).await.unwrap_err().kind(), kind, "{bytes:?}");
        }
    }
}
