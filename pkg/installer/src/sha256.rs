//! SHA-256 hashes of file contents.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256 as Hasher};

/// A SHA-256 hash. Its text form is the one that sha256sum(1) prints.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Returns the hash of a content.
    pub fn of(content: &[u8]) -> Self {
        Self(Hasher::digest(content).into())
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Sha256> for String {
    fn from(hash: Sha256) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Sha256 {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Sha256 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a SHA-256 hash: expected 64 lower-case hexadecimal digits");
        // The text is also a file name, so only one spelling is accepted.
        if text.len() != 64 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(wrong());
        }
        let mut hash = [0; 32];
        for (number, byte) in hash.iter_mut().enumerate() {
            let digits = text.get(2 * number..2 * number + 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_sha256sum_prints() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256::of(b"abc").to_string(), abc);
        assert_eq!(abc.parse(), Ok(Sha256::of(b"abc")));
    }

    #[test]
    fn other_texts_are_refused() {
        let abc = Sha256::of(b"abc").to_string();
        for bad in
            ["", &abc[1..], &abc.to_uppercase(), &format!("{}/", &abc[1..]), &format!("+{}", &abc[1..])]
        {
            assert!(bad.parse::<Sha256>().is_err(), "{bad}");
        }
    }
}
