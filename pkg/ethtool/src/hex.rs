//! Conversion between bytes and hexadecimal digits.

use std::fmt::Write;

/// Returns two lower-case digits for each byte.
pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Returns the bytes that the digits stand for; `None` if the text is not an even number of hexadecimal digits.
pub(crate) fn decode(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits.chars().map(|it| it.to_digit(16)?.try_into().ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_and_decoding_round_trip_and_other_texts_are_rejected() {
        let bytes = [0, 1, 0x9f, 0xff];
        assert_eq!(encode(&bytes), "00019fff");
        assert_eq!(decode("00019fff"), Some(bytes.to_vec()));
        assert_eq!(decode(""), Some(Vec::new()));
        for odd in ["0", "0g", "+1", "é", "0x00"] {
            assert_eq!(decode(odd), None, "{odd}");
        }
    }
}
