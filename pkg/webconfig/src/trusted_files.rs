//! Files, as far as they can be trusted.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::{libc, unistd::geteuid};
use ring::digest::{Context, SHA256};

use crate::Error;

/// Certificates of many authorities are a quarter of it.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadAccess {
    /// Everybody.
    All,
    /// Its owner and its group: it has a key.
    Few,
}

/// Reads the files of a configuration, and takes down what was in them.
pub(crate) struct TrustedFiles {
    configuration: PathBuf,
    seen: Context,
}

impl TrustedFiles {
    /// Those that a configuration names are relative to its directory.
    pub(crate) fn relative_to(configuration: &Path) -> Self {
        Self { configuration: configuration.to_owned(), seen: Context::new(&SHA256) }
    }

    /// The configuration's own text.
    pub(crate) fn configuration(&mut self) -> Result<String, Error> {
        let path = self.configuration.clone();
        let text = String::from_utf8(self.read(&path, ReadAccess::All)?);
        text.map_err(|_| Error::File { path, why: "is no text in UTF-8".into() })
    }

    /// The configuration has a key in it.
    pub(crate) fn keeps_a_key(&mut self) -> Result<(), Error> {
        let path = self.configuration.clone();
        self.read(&path, ReadAccess::Few).map(drop)
    }

    /// A file that the configuration names.
    pub(crate) fn named(&mut self, name: &Path, readers: ReadAccess) -> Result<Vec<u8>, Error> {
        let directory = self.configuration.parent().unwrap_or(Path::new("."));
        self.read(&directory.join(name), readers)
    }

    /// What all of them were, in short.
    pub(crate) fn fingerprint(self) -> [u8; 32] {
        let mut seal = [0; 32];
        seal.copy_from_slice(self.seen.finish().as_ref());
        seal
    }

    fn read(&mut self, path: &Path, readers: ReadAccess) -> Result<Vec<u8>, Error> {
        let unread = |source: io::Error| Error::Read { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        // Links are followed: the volumes of Kubernetes are made of them.
        let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(unread)?;
        let meta = file.metadata().map_err(unread)?;
        check_permissions(&meta, readers).map_err(|why| Error::File { path: path.to_owned(), why })?;
        let bytes = content(file).map_err(unread)?;
        self.seen.update(&bytes.len().to_be_bytes());
        self.seen.update(&bytes);
        Ok(bytes)
    }
}

fn check_permissions(meta: &Metadata, readers: ReadAccess) -> Result<(), String> {
    let mode = meta.mode() & 0o7777;
    if !meta.is_file() {
        return Err("is no regular file".into());
    }
    if meta.uid() != 0 && meta.uid() != geteuid().as_raw() {
        return Err(format!("belongs to user {}; it must be root's", meta.uid()));
    }
    if mode & 0o022 != 0 {
        return Err(format!("others can change it (mode {mode:04o}); run chmod go-w"));
    }
    if readers == ReadAccess::Few && mode & 0o007 != 0 {
        let remedy = "run chmod o=, or in a pod give the volume defaultMode: 0400";
        return Err(format!("has a private key that others can read (mode {mode:04o}); {remedy}"));
    }
    Ok(())
}

fn content(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(io::Error::other(format!("has more than {MAX_CONFIG_BYTES} bytes")));
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
    fn a_file_that_others_can_change_or_a_key_that_they_can_read_is_refused() {
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
            (0o660, ReadAccess::Few, Some("others can change it (mode 0660)")),
            (0o666, ReadAccess::All, Some("others can change it")),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = files.named(Path::new("key.pem"), readers);
            let said = read.err().map(|error| error.to_string());
            assert_eq!(said.is_some(), part.is_some(), "{mode:o}: {said:?}");
            if let (Some(said), Some(part)) = (said, part) {
                assert!(said.contains(part) && said.contains(path.to_str().unwrap()), "{said}");
            }
        }
    }

    #[test]
    fn what_is_no_file_or_too_long_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = TrustedFiles::relative_to(&dir.path().join("web.yaml"));
        nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        fs::write(dir.path().join("long"), vec![b'.'; 1024 * 1024 + 1]).unwrap();
        for (name, part) in [
            ("pipe", "no regular file"),
            (".", "no regular file"),
            ("long", "1048576"),
            ("none", "No such file"),
        ] {
            let said = files.named(Path::new(name), ReadAccess::All).unwrap_err().to_string();
            assert!(said.contains(part), "{name}: {said}");
        }
    }
}
