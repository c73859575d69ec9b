//! Connections of kubelets before Kubernetes 1.26, which send the path of the socket as authority.
//!
//! That is no authority of a URI, and the HTTP/2 library refuses the request. So the header blocks of requests are decoded here,
//! and encoded again with `localhost`, as later kubelets send it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use loona_hpack::Decoder;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
};
use tonic::transport::server::Connected;

/// A connection whose requests have the authority `localhost`.
pub(crate) struct LocalAuthority {
    stream: UnixStream,
    rewriter: Rewriter,
    /// What was rewritten and is not read yet, from `position`.
    ready: Vec<u8>,
    position: usize,
}

impl LocalAuthority {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, rewriter: Rewriter::default(), ready: Vec::new(), position: 0 }
    }
}

impl AsyncRead for LocalAuthority {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.position == this.ready.len() {
            let mut page = [0; 4096];
            let mut input = ReadBuf::new(&mut page);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut input))?;
            if input.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.ready.clear();
            this.position = 0;
            this.rewriter.rewrite(input.filled(), &mut this.ready)?;
        }
        let rest = &this.ready[this.position..];
        let length = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..length]);
        this.position += length;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LocalAuthority {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Connected for LocalAuthority {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}

/// Frame types and flags of RFC 9113, section 6.
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The length of what a client sends before its first frame: `PRI * HTTP/2.0…`.
const PREFACE: usize = 24;
/// The length of the head of a frame.
const HEAD: usize = 9;
/// The longest frame and header block that are accepted: the default of HTTP/2, which servers do not change.
const MAX_LENGTH: usize = 16_384;

/// Rewrites the bytes that a client sends.
#[derive(Default)]
struct Rewriter {
    decoder: Decoder<'static>,
    has_preface: bool,
    /// What has arrived of the next frame.
    pending: Vec<u8>,
    block: Option<HeaderBlock>,
}

/// A header block whose end has not arrived.
struct HeaderBlock {
    stream: [u8; 4],
    flags: u8,
    bytes: Vec<u8>,
}

impl Rewriter {
    /// Appends to `out` what can be passed on after `input` has arrived.
    fn rewrite(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.pending.extend_from_slice(input);
        if !self.has_preface {
            if self.pending.len() < PREFACE {
                return Ok(());
            }
            out.extend(self.pending.drain(..PREFACE));
            self.has_preface = true;
        }
        while let Some(length) = frame_length(&self.pending)? {
            let frame: Vec<_> = self.pending.drain(..length).collect();
            self.pass_on(&frame, out)?;
        }
        Ok(())
    }

    fn pass_on(&mut self, frame: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let (head, payload) = frame.split_at(HEAD);
        let (kind, flags) = (head[3], head[4]);
        match (kind, &mut self.block) {
            (HEADERS, None) => {
                let stream = [head[5], head[6], head[7], head[8]];
                self.block = Some(HeaderBlock { stream, flags, bytes: fragment(payload, flags)?.to_vec() });
            }
            (CONTINUATION, Some(block)) => block.bytes.extend_from_slice(payload),
            (HEADERS | CONTINUATION, _) => return Err(invalid("a header block without its end")),
            _ => {
                out.extend_from_slice(frame);
                return Ok(());
            }
        }
        if self.block.as_ref().is_some_and(|block| block.bytes.len() > MAX_LENGTH) {
            return Err(invalid("a header block of more than 16 KiB"));
        }
        if flags & END_HEADERS != 0
            && let Some(block) = self.block.take()
        {
            self.encode(&block, out)?;
        }
        Ok(())
    }

    /// Writes a block as one frame, without Huffman codes and without entries of the dynamic table.
    fn encode(&mut self, block: &HeaderBlock, out: &mut Vec<u8>) -> io::Result<()> {
        let fields = self.decoder.decode(&block.bytes).map_err(|_| invalid("an invalid header block"))?;
        let mut payload = Vec::new();
        for (name, value) in fields {
            let value = if name == b":authority" { b"localhost".to_vec() } else { value };
            payload.push(0);
            text(&name, &mut payload);
            text(&value, &mut payload);
        }
        let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= MAX_LENGTH);
        let length = length.ok_or_else(|| invalid("headers of more than 16 KiB"))?;
        out.extend_from_slice(&length.to_be_bytes()[1..]);
        out.extend_from_slice(&[HEADERS, END_HEADERS | block.flags & END_STREAM]);
        out.extend_from_slice(&block.stream);
        out.append(&mut payload);
        Ok(())
    }
}

/// Returns the length of the first frame with its head; `None` if it has not arrived.
fn frame_length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let [high, middle, low, ..] = bytes else { return Ok(None) };
    let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
    if length > MAX_LENGTH {
        return Err(invalid("a frame of more than 16 KiB"));
    }
    Ok(Some(HEAD + length).filter(|length| bytes.len() >= *length))
}

/// Returns the part of the payload that is a header block.
fn fragment(mut payload: &[u8], flags: u8) -> io::Result<&[u8]> {
    let mut padding = 0;
    if flags & PADDED != 0 {
        let (length, rest) = payload.split_first().ok_or_else(|| invalid("an empty padded frame"))?;
        (padding, payload) = (usize::from(*length), rest);
    }
    let priority = if flags & PRIORITY != 0 { 5 } else { 0 };
    let end = payload.len().checked_sub(padding);
    end.and_then(|end| payload.get(priority..end)).ok_or_else(|| invalid("a frame that is too short"))
}

/// Appends a string literal (RFC 7541, section 5.2).
fn text(bytes: &[u8], out: &mut Vec<u8>) {
    const LARGEST: usize = 0x7f;
    let mut length = bytes.len();
    if length < LARGEST {
        out.push(length.to_le_bytes()[0]);
    } else {
        out.push(LARGEST.to_le_bytes()[0]);
        length -= LARGEST;
        while length >= 0x80 {
            out.push(length.to_le_bytes()[0] | 0x80);
            length >>= 7;
        }
        out.push(length.to_le_bytes()[0]);
    }
    out.extend_from_slice(bytes);
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("HTTP/2: {what}"))
}

#[cfg(test)]
mod tests {
    use loona_hpack::Encoder;

    use super::*;

    const FRAME_OF_DATA: &[u8] = &[0, 0, 2, 0, END_STREAM, 0, 0, 0, 1, b'h', b'i'];

    type Fields = Vec<(Vec<u8>, Vec<u8>)>;

    /// The flags and the stream of a header block, with its fields.
    type Block = (u8, u8, Fields);

    fn fields(authority: &str) -> Fields {
        let long = "x".repeat(500);
        [
            (":method", "POST"),
            (":path", "/v1beta1.DevicePlugin/Allocate"),
            (":authority", authority),
            ("user-agent", &long),
        ]
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .into()
    }

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Encodes as clients do, with the dynamic table.
    fn block(encoder: &mut Encoder<'_>, authority: &str) -> Vec<u8> {
        let fields = fields(authority);
        encoder.encode(fields.iter().map(|(name, value)| (&name[..], &value[..])))
    }

    /// Returns the header blocks and the other frames that a server sees.
    fn seen(out: &[u8]) -> (Vec<Block>, Vec<Vec<u8>>) {
        let (mut rest, mut decoder) = (&out[PREFACE..], Decoder::new());
        let (mut blocks, mut others) = (Vec::new(), Vec::new());
        while let Some(length) = frame_length(rest).unwrap() {
            let (frame, next) = rest.split_at(length);
            match frame[3] {
                HEADERS => blocks.push((frame[4], frame[8], decoder.decode(&frame[HEAD..]).unwrap())),
                _ => others.push(frame.to_vec()),
            }
            rest = next;
        }
        assert!(rest.is_empty());
        (blocks, others)
    }

    fn client() -> Vec<u8> {
        let mut encoder = Encoder::new();
        let path = "/var/lib/kubelet/device-plugins/silkrail.sock";
        let first = block(&mut encoder, path);
        let second = block(&mut encoder, path);
        let padded = [&[3, 0, 0, 0, 0, 7][..], &second[..10], &[0, 0, 0]].concat();
        [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(HEADERS, END_HEADERS, &first),
            FRAME_OF_DATA.to_vec(),
            frame(HEADERS, PADDED | PRIORITY | END_STREAM, &padded),
            frame(CONTINUATION, END_HEADERS, &second[10..]),
        ]
        .concat()
    }

    #[test]
    fn the_authority_is_replaced_however_the_bytes_arrive() {
        let client = client();
        for size in [1, 7, 100, client.len()] {
            let (mut rewriter, mut out) = (Rewriter::default(), Vec::new());
            client.chunks(size).for_each(|chunk| rewriter.rewrite(chunk, &mut out).unwrap());
            let blocks = [(END_HEADERS, 1), (END_HEADERS | END_STREAM, 1)];
            let blocks = blocks.map(|(flags, stream)| (flags, stream, fields("localhost"))).to_vec();
            let expected = (blocks, vec![FRAME_OF_DATA.to_vec()]);
            assert_eq!(seen(&out), expected, "in pieces of {size} bytes");
        }
    }

    #[test]
    fn texts_of_every_length_are_encoded() {
        for length in [0, 1, 126, 127, 128, 254, 255, 256, 16_000] {
            let (name, value) = (b"x".to_vec(), vec![b'v'; length]);
            let mut payload = vec![0];
            [&name, &value].into_iter().for_each(|bytes| text(bytes, &mut payload));
            assert_eq!(Decoder::new().decode(&payload).unwrap(), [(name, value)], "{length}");
        }
    }

    #[test]
    fn what_is_not_http_2_is_an_error() {
        let preface = &client()[..PREFACE];
        for (bytes, expected) in [
            (frame(HEADERS, PADDED, &[9, 0]), "too short"),
            (frame(HEADERS, PADDED, &[]), "an empty padded frame"),
            (frame(CONTINUATION, 0, &[]), "without its end"),
            ([frame(HEADERS, 0, &[]), frame(HEADERS, 0, &[])].concat(), "without its end"),
            (frame(HEADERS, END_HEADERS, &[0xff; 8]), "an invalid header block"),
            (
                [frame(HEADERS, 0, &[0; 16_000]), frame(CONTINUATION, 0, &[0; 16_000])].concat(),
                "more than 16 KiB",
            ),
            (vec![1, 0, 0], "a frame of more than 16 KiB"),
        ] {
            let mut rewriter = Rewriter::default();
            let error = rewriter.rewrite(&[preface, &bytes].concat(), &mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
