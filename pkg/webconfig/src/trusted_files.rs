//! Reads files after checking their owner and mode.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::{libc, unistd::geteuid};
use ring::digest::{Context, SHA256};

use crate::Error;

/// Maximum length of a file. A bundle with many certificate authorities has a quarter of it.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// The users that are allowed to read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadAccess {
    /// All users.
    All,
    /// Its owner and group, because it contains a private key.
    Few,
}

/// Reads the files of a configuration, and hashes their contents.
pub(crate) struct TrustedFiles {
    configuration: PathBuf,
    hash: Context,
}

impl TrustedFiles {
    /// Returns a reader for a configuration file. Relative paths in it are relative to its directory.
    pub(crate) fn relative_to(configuration: &Path) -> Self {
        Self { configuration: configuration.to_owned(), hash: Context::new(&SHA256) }
    }

    /// Reads the text of the configuration file.
    pub(crate) fn configuration(&mut self) -> Result<String, Error> {
        let path = self.configuration.clone();
        let text = String::from_utf8(self.read(&path, ReadAccess::All)?);
        text.map_err(|_| Error::File { path, why: "is not valid UTF-8".into() })
    }

    /// Checks the mode of the configuration file, which contains a private key.
    pub(crate) fn require_private(&mut self) -> Result<(), Error> {
        let path = self.configuration.clone();
        self.read(&path, ReadAccess::Few).map(drop)
    }

    /// Reads a file that the configuration names.
    pub(crate) fn named(&mut self, name: &Path, readers: ReadAccess) -> Result<Vec<u8>, Error> {
        let directory = self.configuration.parent().unwrap_or(Path::new("."));
        self.read(&directory.join(name), readers)
    }

    /// Returns the SHA-256 of all files that were read.
    pub(crate) fn fingerprint(self) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.copy_from_slice(self.hash.finish().as_ref());
        digest
    }

    fn read(&mut self, path: &Path, readers: ReadAccess) -> Result<Vec<u8>, Error> {
        let cannot_read = |source: io::Error| Error::Read { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        // Symbolic links are followed: volumes of Kubernetes consist of them.
        let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(cannot_read)?;
        let meta = file.metadata().map_err(cannot_read)?;
        check_permissions(&meta, readers).map_err(|why| Error::File { path: path.to_owned(), why })?;
        let bytes = content(file).map_err(cannot_read)?;
        self.hash.update(&bytes.len().to_be_bytes());
        self.hash.update(&bytes);
        Ok(bytes)
    }
}

fn check_permissions(meta: &Metadata, readers: ReadAccess) -> Result<(), String> {
    let mode = meta.mode() & 0o7777;
    if !meta.is_file() {
        return Err("is not a regular file".into());
    }
    if meta.uid() != 0 && meta.uid() != geteuid().as_raw() {
        return Err(format!("is owned by user {}; expected root", meta.uid()));
    }
    if mode & 0o022 != 0 {
        return Err(format!("is writable by group or others (mode {mode:04o}); run chmod go-w"));
    }
    if readers == ReadAccess::Few && mode & 0o007 != 0 {
        let remedy = "run chmod o=, or set defaultMode: 0400 for the volume of a pod";
        return Err(format!("contains a private key that others can read (mode {mode:04o}); {remedy}"));
    }
    Ok(())
}

fn content(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(io::Error::other(format!("is longer than {MAX_CONFIG_BYTES} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    #[test]
    fn a_file_that_others_can_write_or_a_key_that_they_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        fs::write(&path, "secret").unwrap();
        let mut files = TrustedFiles::relative_to(&dir.path().join("web.yaml"));
        for (mode, readers, part) in [
            (0o600, ReadAccess::Few, None),
            (0o440, ReadAccess::Few, None),
            (0o644, ReadAccess::All, None),
            (0o644, ReadAccess::Few, Some("others can read (mode 0644); run chmod o=")),
            (0o604, ReadAccess::Few, Some("others can read")),
            (0o660, ReadAccess::Few, Some("is writable by group or others (mode 0660)")),
            (0o666, ReadAccess::All, Some("is writable by group or others")),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = files.named(Path::new("key.pem"), readers);
            let error = read.err().map(|error| error.to_string());
            assert_eq!(error.is_some(), part.is_some(), "{mode:o}: {error:?}");
            if let (Some(error), Some(part)) = (error, part) {
                assert!(error.contains(part) && error.contains(path.to_str().unwrap()), "{error}");
            }
        }
    }

    #[test]
    fn the_fingerprint_differs_for_each_content_of_each_file() {
        let dir = tempfile::tempdir().unwrap();
        let of = |contents: [&str; 2]| {
            let mut files = TrustedFiles::relative_to(&dir.path().join("web.yaml"));
            for (name, content) in ["a", "b"].into_iter().zip(contents) {
                fs::write(dir.path().join(name), content).unwrap();
                files.named(Path::new(name), ReadAccess::All).unwrap();
            }
            files.fingerprint()
        };
        assert_eq!(of(["ab", "c"]), of(["ab", "c"]));
        assert!(of(["ab", "c"]) != of(["a", "bc"]) && of(["ab", "c"]) != of(["ab", "d"]));
    }

    #[test]
    fn special_and_large_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = TrustedFiles::relative_to(&dir.path().join("web.yaml"));
        nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        fs::write(dir.path().join("long"), vec![b'.'; 1024 * 1024 + 1]).unwrap();
        fs::write(dir.path().join("longest"), vec![b'.'; 1024 * 1024]).unwrap();
        assert!(files.named(Path::new("longest"), ReadAccess::All).is_ok());
        if geteuid().is_root() {
            fs::write(dir.path().join("foreign"), "").unwrap();
            std::os::unix::fs::chown(dir.path().join("foreign"), Some(65534), None).unwrap();
            let error = files.named(Path::new("foreign"), ReadAccess::All).unwrap_err().to_string();
            assert!(error.contains("is owned by user 65534; expected root"), "{error}");
        }
        for (name, part) in [
            ("pipe", "not a regular file"),
            (".", "not a regular file"),
            ("long", "1048576"),
            ("none", "No such file"),
        ] {
            let error = files.named(Path::new(name), ReadAccess::All).unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}
