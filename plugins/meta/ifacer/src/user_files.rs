//! The users of a master: an empty file for each, so that a DEL needs no space on a full disk.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use identifiers::Attachment;
use plugin_runtime::Error;

/// The directory with the files of a master's users. Its name is that of no master: a link's name has no colon.
pub(crate) struct UserFiles {
    directory: PathBuf,
}

impl UserFiles {
    /// Returns those of the master whose record is this file.
    pub(crate) fn of(record: &Path) -> Self {
        let mut name = record.file_name().unwrap_or_default().to_owned();
        name.push(":users");
        Self { directory: record.with_file_name(name) }
    }

    /// Returns the users, in the order of their names.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub(crate) fn list(&self) -> Result<Vec<Attachment>, Error> {
        let entries = match self.directory.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listed => listed.map_err(|source| self.failed("list", source))?,
        };
        let mut users = Vec::new();
        for entry in entries {
            let name = entry.map_err(|source| self.failed("list", source))?.file_name();
            users.extend(name.to_str().and_then(|name| name.parse::<Attachment>().ok()));
        }
        users.sort_unstable();
        Ok(users)
    }

    /// Creates the files of users that have none.
    ///
    /// # Errors
    /// If one cannot be created.
    pub(crate) fn add(&self, users: &[Attachment]) -> Result<(), Error> {
        if !users.is_empty() {
            statefile::make_dir(&self.directory, 0o700)?;
        }
        for user in users {
            let mut options = OpenOptions::new();
            let created = options.write(true).create(true).mode(0o600).open(self.file(user));
            created.map_err(|source| self.failed("write", source))?;
        }
        Ok(())
    }

    /// Removes the file of a user, if there is one.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove(&self, user: &Attachment) -> Result<(), Error> {
        Ok(statefile::remove(&self.file(user))?)
    }

    /// Removes the files of all users but these.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub(crate) fn keep(&self, users: &[Attachment]) -> Result<(), Error> {
        self.list()?.iter().filter(|user| !users.contains(user)).try_for_each(|user| self.remove(user))
    }

    /// Removes the files of all users, and their directory.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        self.keep(&[])?;
        match fs::remove_dir(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed("remove", error)),
            _ => Ok(()),
        }
    }

    fn file(&self, user: &Attachment) -> PathBuf {
        self.directory.join(user.to_string())
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> Error {
        statefile::Error::Io { operation, path: self.directory.clone(), source }.into()
    }
}
