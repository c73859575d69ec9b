//! The journal of one attachment.

use std::{
    fs::{self, File},
    io::{self, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    AbortError, Change, Error, JournalContent, JournalHeader, RevertFailure, StepTimes,
    content::{JournalLine, terminated, whole_lines},
    current_boot::boot_id,
    fault_injection,
};

/// The journal of one attachment, locked: while this value exists, no other process works on the attachment.
#[derive(Debug)]
pub struct Journal<C> {
    path: PathBuf,
    file: File,
    /// The length of the file in bytes. No other process writes to it.
    length: u64,
    content: JournalContent<C>,
    steps: StepTimes,
}

impl<C: Change> Journal<C> {
    /// Creates the journal of a new attachment.
    ///
    /// # Errors
    /// [`Error::File`] with [`statefile::Error::Exists`] if the file exists.
    pub fn create(path: &Path, head: JournalHeader) -> Result<Self, Error> {
        let content = JournalContent::new(head);
        let lock = |file: &File| file.try_lock().map_err(io::Error::from);
        let bytes = content.to_bytes().map_err(Error::Encode)?;
        let file = statefile::create(path, 0o600, &bytes, lock)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            length: bytes.len() as u64,
            content,
            steps: StepTimes::default(),
        })
    }

    /// Opens and locks the journal of an attachment; `None` if there is none. Waits until `deadline` for the
    /// lock.
    ///
    /// # Errors
    /// [`Error::Quarantined`] if the file could not be parsed: it is quarantined then.
    pub fn open(path: &Path, deadline: Instant) -> Result<Option<Self>, Error> {
        loop {
            let mut file = match statefile::open(path) {
                Ok(Some(file)) => file,
                Ok(None) => return Ok(None),
                Err(error) if error.is_foreign() => return Err(quarantine(path, error.to_string())),
                Err(error) => return Err(error.into()),
            };
            statefile::lock(&file, path, deadline)?;
            let io = |source| statefile::Error::Io { operation: "read", path: path.to_owned(), source };
            // The former holder of the lock may have removed or renamed the file; a new one may be in its place.
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
                    Ok(Some(Self {
                        path: path.to_owned(),
                        file,
                        length: whole as u64,
                        content,
                        steps: StepTimes::default(),
                    }))
                }
                Err(why) => Err(quarantine(path, format!("{}: {why}", path.display()))),
            };
        }
    }

    /// Returns the header, which names the attachment.
    pub fn head(&self) -> &JournalHeader {
        &self.content.head
    }

    /// Returns the recorded changes, in the order in which they were made.
    pub fn changes(&self) -> &[C] {
        &self.content.changes
    }

    /// Whether the ADD was completed.
    pub fn is_complete(&self) -> bool {
        self.content.complete
    }

    /// Whether the journal was written before the last boot, so that its links, namespaces and devices are gone.
    ///
    /// # Errors
    /// If the boot ID cannot be read.
    pub fn is_from_earlier_boot(&self) -> Result<bool, Error> {
        Ok(self.content.head.boot_id != boot_id()?)
    }

    /// Returns the inode number of the file, to be compared with [`JournalStatus`](crate::JournalStatus).
    ///
    /// # Errors
    /// If fstat(2) fails.
    pub fn inode(&self) -> Result<u64, Error> {
        let io = |source| statefile::Error::Io { operation: "stat", path: self.path.clone(), source };
        Ok(self.file.metadata().map_err(io)?.ino())
    }

    /// Records a change, then makes it.
    ///
    /// # Errors
    /// The error of `make`; or that the change could not be recorded, in which case it was not made.
    pub fn record_and_apply<T, E: From<Error>>(
        &mut self,
        change: C,
        make: impl FnOnce(&C) -> Result<T, E>,
    ) -> Result<T, E> {
        let (step, began) = (change.step(), Instant::now());
        self.record(change)?;
        let made = self.content.changes.last().map(make).transpose();
        self.steps.push(step, began.elapsed());
        let made = made?;
        fault_injection::point()?;
        made.ok_or(Error::Injected).map_err(E::from)
    }

    /// Runs a step that makes no recorded change, and measures it.
    pub fn time<T>(&mut self, step: &'static str, run: impl FnOnce() -> T) -> T {
        self.steps.time(step, run)
    }

    /// Returns the durations of the steps so far.
    pub fn steps(&self) -> &StepTimes {
        &self.steps
    }

    /// Records a change that will be made later.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&mut self, change: C) -> Result<(), Error> {
        self.append(&JournalLine::Change(&change))?;
        self.content.changes.push(change);
        fault_injection::point()
    }

    /// Records that the ADD is complete.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn complete(&mut self) -> Result<(), Error> {
        fault_injection::point()?;
        self.append(&JournalLine::<&C>::Complete(true))?;
        self.content.complete = true;
        Ok(())
    }

    fn append(&mut self, line: &JournalLine<&C>) -> Result<(), Error> {
        let bytes = terminated(line).map_err(Error::Encode)?;
        let io = |source| statefile::Error::Io { operation: "write", path: self.path.clone(), source };
        if self.length + bytes.len() as u64 > statefile::MAX_STATE_FILE_BYTES {
            return Err(io(statefile::too_long()).into());
        }
        let written = self.file.write_all(&bytes).inspect_err(|_| {
            // The disk is full: remove the incomplete line, so that the next one does not continue it.
            let _ = self.file.set_len(self.length);
        });
        written.map_err(io)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Runs `body` and completes the journal. If either fails, calls `before_revert` and reverts all changes.
    ///
    /// # Errors
    /// The error of `body`, and the changes that could not be reverted.
    pub fn run_or_revert<T, E: From<Error>>(
        mut self,
        node: &C::Node,
        body: impl FnOnce(&mut Self) -> Result<T, E>,
        before_revert: impl FnOnce(),
    ) -> Result<T, AbortError<E>> {
        let done = body(&mut self).and_then(|value| self.complete().map(|()| value).map_err(E::from));
        done.map_err(|cause| {
            before_revert();
            let left = self.revert(node).err().unwrap_or_default();
            AbortError { cause, left }
        })
    }

    /// Reverts every change, the newest first, and continues after failures. The journal is removed if all
    /// succeed; otherwise it stays unchanged for the next call.
    ///
    /// If the journal is from a former boot, only changes that [survive a reboot](Change::survives_reboot) are reverted.
    ///
    /// # Errors
    /// The changes that could not be reverted.
    pub fn revert(self, node: &C::Node) -> Result<(), Vec<RevertFailure>> {
        self.revert_timed(node, &mut StepTimes::default())
    }

    /// Does the same as [`Journal::revert`], and adds the duration of each step to `steps`.
    ///
    /// # Errors
    /// As [`Journal::revert`].
    pub fn revert_timed(self, node: &C::Node, steps: &mut StepTimes) -> Result<(), Vec<RevertFailure>> {
        let unknown =
            |why: Error| vec![RevertFailure { change: "the attachment".into(), why: why.to_string() }];
        let is_earlier_boot = self.is_from_earlier_boot().map_err(unknown)?;
        let mut left = Vec::new();
        for change in
            self.content.changes.iter().rev().filter(|change| !is_earlier_boot || change.survives_reboot())
        {
            if change.revert_last() && !left.is_empty() {
                continue;
            }
            let reverted = steps.time(change.step(), || change.revert(node)).map_err(|why| why.to_string());
            if let Err(why) =
                reverted.and_then(|()| fault_injection::point().map_err(|fault| fault.to_string()))
            {
                left.push(RevertFailure { change: change.to_string(), why });
            }
        }
        if left.is_empty() { self.remove() } else { Err(left) }
    }

    /// Removes the journal without reverting any change.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove(self) -> Result<(), Vec<RevertFailure>> {
        statefile::remove(&self.path).map_err(|why| {
            vec![RevertFailure { change: "the attachment's journal".into(), why: why.to_string() }]
        })
    }

    /// Checks that every change is in place.
    ///
    /// # Errors
    /// The first difference.
    pub fn verify(&self, node: &C::Node) -> Result<(), C::Error> {
        self.content.changes.iter().try_for_each(|change| change.verify(node))
    }
}

/// Quarantines a journal that cannot be parsed and returns the error to report.
fn quarantine(path: &Path, why: String) -> Error {
    match statefile::quarantine(path) {
        Ok(quarantine) => Error::Quarantined { quarantine, why },
        Err(error) => error.into(),
    }
}

#[cfg(test)]
mod tests;
