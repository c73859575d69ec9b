//! The text of a file in any common encoding.

/// Decodes a file, without its byte order mark. UTF-16, which Windows writes, has a zero in every second byte of ASCII text.
/// All zero bytes are dropped: the result is readable, and secrets in it are found.
pub(super) fn of(content: &[u8]) -> String {
    let marks: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
    let text = marks.iter().find_map(|mark| content.strip_prefix(*mark)).unwrap_or(content);
    let letters: Vec<u8> = text.iter().copied().filter(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&letters).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_is_read_with_and_without_a_byte_order_mark() {
        let wide = |bytes: fn(u16) -> [u8; 2]| "a=1\r\n".encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        for text in [wide(u16::to_le_bytes), wide(u16::to_be_bytes)] {
            assert_eq!(of(&text), "a=1\r\n");
        }
        assert_eq!(of(&[&b"\xff\xfe"[..], &wide(u16::to_le_bytes)].concat()), "a=1\r\n");
        assert_eq!(of("\u{feff}a=ü".as_bytes()), "a=ü");
        assert_eq!(of(b""), "");
    }
}
