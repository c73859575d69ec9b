//! The protocols between the reader and the HTTP frontend, and between the reader and the writer, each over one socket.
//!
//! The frontend sends requests; the reader sends replies in the order in which they are ready. The reader sends the content of files
//! to the writer, which sends reports. A message is its length, as four
//! bytes in network byte order, and JSON. A body may follow its message.

use std::{io, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{snapshot_encoding::SnapshotEncoding, web_config::WebConfigStatus};

/// The maximum length of a message, in bytes. All messages are shorter than half of it.
const MAX_FRAME_BYTES: u32 = 1024;

/// The maximum length of a body, in bytes: several times the metrics of 256 devices.
const MAX_BODY_BYTES: usize = 64 << 20;

/// A request of the frontend.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotRequest {
    /// Repeated in the reply.
    pub(crate) id: u64,
    /// The encoding; `None` if only the number of the latest snapshot is requested.
    pub(crate) kind: Option<SnapshotEncoding>,
    /// Timeout for a new snapshot, after which the latest one is sent.
    pub(crate) within: Duration,
    /// The number of the snapshot that the frontend has in this encoding; its body is not sent again.
    pub(crate) held: Option<u64>,
    /// The status of the web configuration, which the reader adds to the metrics.
    pub(crate) web: Option<WebConfigStatus>,
}

/// The reader's reply to a [`SnapshotRequest`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotReply {
    /// The `id` of the request.
    pub(crate) id: u64,
    /// The number of the snapshot; `None` before the first.
    pub(crate) number: Option<u64>,
    /// The length of the body in bytes, if one follows.
    pub(crate) length: Option<usize>,
}

/// A file that the writer writes for the reader.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum WrittenFile {
    /// That of node_exporter's textfile collector.
    Textfile,
    /// The offsets of 32-bit counters.
    Counters,
}

/// The content of a file, which follows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileText {
    pub(crate) file: WrittenFile,
    /// The length of the content in bytes.
    pub(crate) length: usize,
}

/// The health of the devices that the kubelet is offered, which follows as JSON. The writer sends the first report once it is ready.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HealthReport {
    /// The length of the JSON in bytes.
    pub(crate) length: usize,
}

/// Writes a message and its body.
///
/// # Errors
/// If the peer has closed the socket.
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
/// [`io::ErrorKind::UnexpectedEof`] if the peer has closed the socket; [`io::ErrorKind::InvalidData`] if the message is
/// invalid.
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

/// Reads the body of a message.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] if the peer has closed the socket; [`io::ErrorKind::InvalidData`] if the body is too long.
pub(crate) async fn read_body(stream: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Vec<u8>> {
    if length > MAX_BODY_BYTES {
        let msg = format!("a body of {length} bytes; expected at most {MAX_BODY_BYTES}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, msg));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> SnapshotRequest {
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

    async fn parsed<M: DeserializeOwned>(mut bytes: &[u8]) -> io::Result<M> {
        read_message(&mut bytes).await
    }

    #[tokio::test]
    async fn the_longest_message_is_shorter_than_half_of_the_limit() {
        let mut sent = Vec::new();
        write_message(&mut sent, &request(), b"text").await.unwrap();
        assert!(sent.len() < MAX_FRAME_BYTES as usize / 2, "{}", sent.len());
        let same: SnapshotRequest = parsed(&sent).await.unwrap();
        assert_eq!(format!("{same:?}"), format!("{:?}", request()));
        assert!(sent.ends_with(b"}text"));
    }

    #[tokio::test]
    async fn an_invalid_message_is_refused() {
        for (bytes, kind) in [
            (&b""[..], io::ErrorKind::UnexpectedEof),
            (b"\0\0\0", io::ErrorKind::UnexpectedEof),
            (b"\0\0\0\x02{", io::ErrorKind::UnexpectedEof),
            (b"\xff\xff\xff\xff{}", io::ErrorKind::InvalidData),
            (b"\0\0\0\x02{}", io::ErrorKind::InvalidData),
            (b"\0\0\0\x1a{\"id\":1,\"kind\":\"Password\"}", io::ErrorKind::InvalidData),
            (b"GET / HTTP/1.1\r\n\r\n", io::ErrorKind::InvalidData),
        ] {
            assert_eq!(parsed::<SnapshotRequest>(bytes).await.unwrap_err().kind(), kind, "{bytes:?}");
        }
    }
}
