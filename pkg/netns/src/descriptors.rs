//! Which network namespaces processes have open.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use crate::living::{CannotJudge, Held, has_ended, hold, inode, numbered, text_of_link};

/// `PROC_DYNAMIC_FIRST` of the kernel's `fs/proc/generic.c`: no namespace has a lower number, and hardly a file a higher.
const LOWEST: u64 = 0xf000_0000;

/// Looks at the open files of every process. A thread that shares them with no other thread of its process is not seen,
/// and neither is a socket, which keeps its namespace alive too and tells nobody which.
pub(crate) fn open_in_processes(proc: &Path) -> Result<Held, CannotJudge> {
    let mut held = Held::new();
    for process in numbered(proc)? {
        for descriptor in numbered(&process.join("fd"))? {
            let Some(text) = text_of_link(&descriptor)? else { continue };
            // What was opened by a path of its own, as `/run/netns/a`, is told by that path.
            let ino = match inode(&text) {
                None if text.starts_with('/') => number(&process, &descriptor)?,
                found => found,
            };
            if let Some(ino) = ino.filter(|ino| *ino >= LOWEST) {
                hold(&mut held, ino, || descriptor);
            }
        }
    }
    Ok(held)
}

/// The inode number of an open file; `None` if it is closed by now.
fn number(process: &Path, descriptor: &Path) -> Result<Option<u64>, CannotJudge> {
    let path = process.join("fdinfo").join(descriptor.file_name().unwrap_or_default());
    let found = match fs::read_to_string(&path) {
        Ok(text) => match text.lines().find_map(|line| line.strip_prefix("ino:")) {
            Some(ino) => Ok(ino.trim().parse().ok()),
            // Before Linux 5.14. A file of a server that does not answer would be waited for here.
            None => fs::metadata(descriptor).map(|meta| Some(meta.ino())),
        },
        Err(error) => Err(error),
    };
    match found {
        Err(error) if has_ended(&error) || error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map_err(|source| CannotJudge::Unreadable { path, source }),
    }
}
