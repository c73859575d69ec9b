//! The shared secret of the nodes.

use std::{
    env, fmt,
    fs::{File, OpenOptions},
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use hkdf::Hkdf;
use nix::{libc, unistd::geteuid};
use sha2::Sha256;

use crate::Error;

/// A shared secret. It is never sent and never printed.
#[derive(Clone)]
pub struct CheckToken(Vec<u8>);

/// The HKDF info string. The derived key discloses neither the token nor the key of another protocol version.
const LABEL: &[u8] = b"silkrail check 3 psk";

/// Minimum length. Shorter tokens could be guessed from a recorded handshake.
const MIN_TOKEN_BYTES: usize = 16;
const MAX_TOKEN_BYTES: u64 = 4096;

impl CheckToken {
    /// Reads the token from a file that belongs to root or to the effective user and that no other user can access, or from
    /// a credential of systemd (`LoadCredential=`).
    ///
    /// # Errors
    /// [`Error::Token`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let credentials = env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        // systemd grants access to a credential with an ACL, if the file system supports ACLs. The mask of the ACL appears
        // as the permissions of the group; the directory is not accessible to other users.
        let is_credential = credentials.is_some_and(|dir| path.parent() == Some(&dir));
        Self::read_unless(path, if is_credential { 0o037 } else { 0o077 })
    }

    /// Reads the token from a file unless its mode has one of the bits `forbidden`.
    fn read_unless(path: &Path, forbidden: u32) -> Result<Self, Error> {
        let invalid = |why: String| Error::Token { path: path.to_owned(), why };
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open(path).map_err(|error| invalid(error.to_string()))?;
        let meta = file.metadata().map_err(|error| invalid(error.to_string()))?;
        if !meta.is_file() {
            return Err(invalid("not a regular file".into()));
        }
        if meta.uid() != 0 && meta.uid() != geteuid().as_raw() {
            return Err(invalid(format!("owned by user {}; must be owned by root", meta.uid())));
        }
        if meta.mode() & forbidden != 0 {
            return Err(invalid(format!(
                "accessible to other users (mode {:o}); run chmod 600",
                meta.mode() & 0o7777
            )));
        }
        let bytes = content(file).map_err(|error| invalid(error.to_string()))?;
        Self::new(&bytes).ok_or_else(|| {
            let length = bytes.trim_ascii().len();
            invalid(format!(
                "{length} bytes, expected at least {MIN_TOKEN_BYTES}; create it with openssl rand -hex 32"
            ))
        })
    }

    /// Returns a token of these bytes, without surrounding white space; `None` if it is too short.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let token = bytes.trim_ascii();
        (token.len() >= MIN_TOKEN_BYTES).then(|| Self(token.to_vec()))
    }

    /// Returns the pre-shared key of a channel: HKDF-SHA256 (RFC 5869) of the token.
    pub(super) fn key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        // The output is one block of the hash, so expanding cannot fail.
        let _ = Hkdf::<Sha256>::new(None, &self.0).expand(LABEL, &mut key);
        key
    }

    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self(text.into())
    }
}

fn content(file: File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_TOKEN_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl fmt::Debug for CheckToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_token_that_other_users_can_read_or_guess_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            CheckToken::read(&path).map_err(|error| error.to_string())
        };
        assert_eq!(read("  0123456789abcdef\n", 0o600).unwrap().0, b"0123456789abcdef");
        assert!(read("0123456789abcdef", 0o640).unwrap_err().contains("mode 640"));
        assert!(read("0123456789abcdef", 0o604).unwrap_err().contains("chmod 600"));
        assert!(read("short", 0o600).unwrap_err().contains("5 bytes"));
        let owned_by = |user| {
            std::os::unix::fs::chown(&path, Some(user), None).unwrap();
            read("0123456789abcdef", 0o600)
        };
        assert!(owned_by(1234).unwrap_err().contains("owned by user 1234"));
        assert!(owned_by(0).is_ok());
        assert!(read("0123456789abcde\n", 0o600).unwrap_err().contains("15 bytes"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(CheckToken::read(&path).is_err(), "a link");
        assert!(CheckToken::read(dir.path()).is_err(), "a directory");
    }

    #[test]
    fn a_credential_can_have_an_acl_but_must_not_be_world_readable() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "0123456789abcdef").unwrap();
        let read = |mode| {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            (CheckToken::read_unless(file.path(), 0o037).is_ok(), CheckToken::read(file.path()).is_ok())
        };
        assert_eq!(
            [read(0o400), read(0o440), read(0o460), read(0o444)],
            [(true, true), (true, false), (false, false), (false, false)]
        );
    }

    #[test]
    fn the_key_is_derived_from_the_token_by_rfc_5869() {
        // Computed with another implementation: openssl kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt key:0123456789abcdef
        // -kdfopt info:'silkrail check 3 psk' HKDF
        let expected = "9fedc6d50b455602d32fbe9f4ebd33a62fb3f33759c2e1e8c2d1308d539d24c0";
        let hex = |key: [u8; 32]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(CheckToken::of("0123456789abcdef").key()), expected);
        assert_ne!(hex(CheckToken::of("0123456789abcdeg").key()), expected);
    }

    #[test]
    fn a_token_is_not_printed() {
        assert_eq!(format!("{:?}", CheckToken(b"0123456789abcdef".to_vec())), "CheckToken(…)");
    }
}
