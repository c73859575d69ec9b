//! The secret that the nodes of a cluster share.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use hmac::{Hmac, Mac};
use nix::{libc, unistd::geteuid};
use sha2::Sha256;

use crate::Error;

/// A shared secret. It never goes over the wire, and is never printed.
#[derive(Clone)]
pub struct Token(Vec<u8>);

/// Shorter ones could be guessed by whoever has seen a proof.
const SHORTEST: usize = 16;
const LONGEST: u64 = 4096;

impl Token {
    /// The token in a file that nobody but its owner, who is us or root, can read.
    ///
    /// # Errors
    /// [`Error::Token`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |why: String| Error::Token { path: path.to_owned(), why };
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open(path).map_err(|error| wrong(error.to_string()))?;
        let meta = file.metadata().map_err(|error| wrong(error.to_string()))?;
        if !meta.is_file() {
            return Err(wrong("is no regular file".into()));
        }
        if meta.uid() != 0 && meta.uid() != geteuid().as_raw() {
            return Err(wrong(format!("belongs to user {}; it must be root's", meta.uid())));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(wrong(format!("others can use it (mode {:o}); run chmod 600", meta.mode() & 0o7777)));
        }
        let bytes = content(file).map_err(|error| wrong(error.to_string()))?;
        let token = bytes.trim_ascii();
        if token.len() < SHORTEST {
            return Err(wrong(format!(
                "has {} bytes; at least {SHORTEST} are wanted: openssl rand -hex 32",
                token.len()
            )));
        }
        Ok(Self(token.to_vec()))
    }

    /// A proof that whoever made it has the token: HMAC-SHA256 over the parts.
    pub(crate) fn proof(&self, parts: [&[u8]; 3]) -> Option<[u8; 32]> {
        Some(self.mac(parts)?.finalize().into_bytes().into())
    }

    /// Whether a proof is right. Takes the same time wherever it is wrong.
    pub(crate) fn is_proof(&self, parts: [&[u8]; 3], proof: &[u8]) -> bool {
        self.mac(parts).is_some_and(|mac| mac.verify_slice(proof).is_ok())
    }

    fn mac(&self, parts: [&[u8]; 3]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for part in parts {
            mac.update(&u64::try_from(part.len()).ok()?.to_be_bytes());
            mac.update(part);
        }
        Some(mac)
    }
}

fn content(file: File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_token_that_others_can_read_or_guess_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map_err(|error| error.to_string())
        };
        assert_eq!(read("  0123456789abcdef\n", 0o600).unwrap().0, b"0123456789abcdef");
        assert!(read("0123456789abcdef", 0o640).unwrap_err().contains("mode 640"));
        assert!(read("0123456789abcdef", 0o604).unwrap_err().contains("chmod 600"));
        assert!(read("short", 0o600).unwrap_err().contains("5 bytes"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(Token::read(&path).is_err(), "a link");
        assert!(Token::read(dir.path()).is_err(), "a directory");
    }

    #[test]
    fn a_proof_is_of_its_parts_and_its_token() {
        let [ours, theirs] = ["0123456789abcdef", "0123456789abcdeg"].map(|text| Token(text.into()));
        let parts: [&[u8]; 3] = [b"client", b"a", b"b"];
        let proof = ours.proof(parts).unwrap();
        assert!(ours.is_proof(parts, &proof));
        assert!(!theirs.is_proof(parts, &proof));
        assert!(!ours.is_proof([b"agent", b"a", b"b"], &proof));
        assert!(!ours.is_proof([b"client", b"ab", b""], &proof));
        assert!(!ours.is_proof(parts, &proof[..31]));
        assert!(!ours.is_proof(parts, b""));
    }

    #[test]
    fn the_hmac_is_that_of_rfc_4231() {
        // Test case 2: key "Jefe".
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(super::super::handshake::hex(&mac.finalize().into_bytes()), expected);
    }

    #[test]
    fn a_token_is_not_printed() {
        assert_eq!(format!("{:?}", Token(b"0123456789abcdef".to_vec())), "Token(…)");
    }
}
