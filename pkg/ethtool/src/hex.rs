//! Bytes as hexadecimal digits.

use std::fmt::Write;

/// Two digits for each byte.
pub(crate) fn of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// The bytes of such digits; `None` if they are none.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits.chars().map(|it| it.to_digit(16)?.try_into().ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_other_texts_are_refused() {
        let bytes = [0, 1, 0x9f, 0xff];
        assert_eq!(of(&bytes), "00019fff");
        assert_eq!(unhex("00019fff"), Some(bytes.to_vec()));
        assert_eq!(unhex(""), Some(Vec::new()));
        for odd in ["0", "0g", "+1", "é", "0x00"] {
            assert_eq!(unhex(odd), None, "{odd}");
        }
    }
}
