//! The journal of one attachment.

use std::{
    fs::{self, File},
    io::{self, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    AbortError, Change, Error, JournalContent, JournalHeader, RevertFailure,
    content::{JournalLine, terminated, whole_lines},
    fault_injection,
    header::boot_id,
};

/// The journal of one attachment. While this value lives, nobody else works on the attachment.
#[derive(Debug)]
pub struct Journal<C> {
    path: PathBuf,
    file: File,
    /// How many bytes the file has. Nobody else writes to it.
    length: u64,
    content: JournalContent<C>,
}

impl<C: Change> Journal<C> {
    /// Begins the journal of a new attachment.
    ///
    /// # Errors
    /// [`Error::File`] with [`statefile::Error::Exists`] if there is one.
    pub fn create(path: &Path, head: JournalHeader) -> Result<Self, Error> {
        let content = JournalContent::new(head);
        let lock = |file: &File| file.try_lock().map_err(io::Error::from);
        let bytes = content.to_bytes().map_err(Error::Encode)?;
        let file = statefile::create(path, 0o600, &bytes, lock)?;
        Ok(Self { path: path.to_owned(), file, length: bytes.len() as u64, content })
    }

    /// Opens the journal of an attachment; `None` if there is none. Waits until `deadline` for whoever is
    /// at work on it.
    ///
    /// # Errors
    /// [`Error::SetAside`] if the file was unreadable: it is out of the way then.
    pub fn open(path: &Path, deadline: Instant) -> Result<Option<Self>, Error> {
        loop {
            let mut file = match statefile::open(path) {
                Ok(Some(file)) => file,
                Ok(None) => return Ok(None),
                Err(error @ statefile::Error::Strange { .. }) => {
                    return Err(quarantine(path, error.to_string()));
                }
                Err(error) => return Err(error.into()),
            };
            statefile::lock(&file, path, deadline)?;
            let io = |source| statefile::Error::Io { operation: "read", path: path.to_owned(), source };
            // Whoever held the lock may have removed or renamed the file, and a new one may be in its place.
            let here = fs::symlink_metadata(path).map(|meta| meta.ino()).ok();
            if here != Some(file.metadata().map_err(io)?.ino()) {
                continue;
            }
            let bytes = statefile::whole(&file).map_err(io)?;
            let whole = whole_lines(&bytes);
            return match JournalContent::parse(&bytes) {
                Ok(content) => {
                    if whole < bytes.len() {
                        file.set_len(whole as u64).and_then(|()| file.rewind()).map_err(io)?;
                    }
                    Ok(Some(Self { path: path.to_owned(), file, length: whole as u64, content }))
                }
                Err(why) => Err(quarantine(path, format!("{}: {why}", path.display()))),
            };
        }
    }

    /// Whose journal it is.
    pub fn head(&self) -> &JournalHeader {
        &self.content.head
    }

    /// The changes noted, in order.
    pub fn changes(&self) -> &[C] {
        &self.content.changes
    }

    /// Whether the ADD was completed.
    pub fn is_complete(&self) -> bool {
        self.content.complete
    }

    /// Whether the journal was written before the kernel was last booted: what it tells of is gone.
    ///
    /// # Errors
    /// If the kernel does not tell which boot this is.
    pub fn is_from_earlier_boot(&self) -> Result<bool, Error> {
        Ok(self.content.head.boot_id != boot_id()?)
    }

    /// Which file it is, as [`JournalStatus`](crate::JournalStatus) tells it.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn inode(&self) -> Result<u64, Error> {
        let io = |source| statefile::Error::Io { operation: "stat", path: self.path.clone(), source };
        Ok(self.file.metadata().map_err(io)?.ino())
    }

    /// Notes a change, then makes it.
    ///
    /// # Errors
    /// What `make` failed with; or that the change could not be noted, and so was not made.
    pub fn record_and_apply<T, E: From<Error>>(
        &mut self,
        change: C,
        make: impl FnOnce(&C) -> Result<T, E>,
    ) -> Result<T, E> {
        self.record(change)?;
        let made = self.content.changes.last().map(make).transpose()?;
        fault_injection::point()?;
        made.ok_or(Error::Injected).map_err(E::from)
    }

    /// Notes a change that will be made later.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn record(&mut self, change: C) -> Result<(), Error> {
        self.append(&JournalLine::Change(&change))?;
        self.content.changes.push(change);
        fault_injection::point()
    }

    /// Says that the attachment is as it should be.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn complete(&mut self) -> Result<(), Error> {
        fault_injection::point()?;
        self.append(&JournalLine::<&C>::Complete(true))?;
        self.content.complete = true;
        Ok(())
    }

    fn append(&mut self, line: &JournalLine<&C>) -> Result<(), Error> {
        let bytes = terminated(line).map_err(Error::Encode)?;
        let written = self.file.write_all(&bytes).inspect_err(|_| {
            // The disk is full: half a line must not stand before the next one.
            let _ = self.file.set_len(self.length);
        });
        let io = |source| statefile::Error::Io { operation: "write", path: self.path.clone(), source };
        written.map_err(io)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Does `body`, all or nothing: if it fails, `turn_back` is called, and what it noted is taken back.
    ///
    /// # Errors
    /// What `body` failed with, and what could not be taken back.
    pub fn run_or_revert<T, E: From<Error>>(
        mut self,
        node: &C::Node,
        body: impl FnOnce(&mut Self) -> Result<T, E>,
        turn_back: impl FnOnce(),
    ) -> Result<T, AbortError<E>> {
        let done = body(&mut self).and_then(|value| self.complete().map(|()| value).map_err(E::from));
        done.map_err(|cause| {
            turn_back();
            let left = self.revert(node).err().unwrap_or_default();
            AbortError { cause, left }
        })
    }

    /// Takes every change back, the newest first, and goes on past failures. When nothing is left the
    /// journal goes too; otherwise it stays as it is, for the next call.
    ///
    /// Of another boot's journal, only what outlives boots is taken back.
    ///
    /// # Errors
    /// What is left.
    pub fn revert(self, node: &C::Node) -> Result<(), Vec<RevertFailure>> {
        let unknown =
            |why: Error| vec![RevertFailure { change: "the attachment".into(), why: why.to_string() }];
        let is_old = self.is_from_earlier_boot().map_err(unknown)?;
        let mut left = Vec::new();
        for change in self.content.changes.iter().rev().filter(|change| !is_old || change.survives_reboot()) {
            if change.revert_last() && !left.is_empty() {
                continue;
            }
            let reverted = change.revert(node).map_err(|why| why.to_string());
            if let Err(why) =
                reverted.and_then(|()| fault_injection::point().map_err(|fault| fault.to_string()))
            {
                left.push(RevertFailure { change: change.to_string(), why });
            }
        }
        if left.is_empty() { self.remove() } else { Err(left) }
    }

    /// Removes the journal without taking anything back.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove(self) -> Result<(), Vec<RevertFailure>> {
        statefile::remove(&self.path).map_err(|why| {
            vec![RevertFailure { change: "the attachment's journal".into(), why: why.to_string() }]
        })
    }

    /// Looks whether every change is in place.
    ///
    /// # Errors
    /// How the first that is not differs.
    pub fn verify(&self, node: &C::Node) -> Result<(), C::Error> {
        self.content.changes.iter().try_for_each(|change| change.verify(node))
    }
}

/// Moves a journal that cannot be understood out of the way.
fn quarantine(path: &Path, why: String) -> Error {
    match statefile::quarantine(path) {
        Ok(aside) => Error::SetAside { aside, why },
        Err(error) => error.into(),
    }
}

#[cfg(test)]
mod tests;
