//! What the processes have in common that the reader starts: they drop all privileges, and end with the reader.

pub(crate) mod parent;
pub(crate) mod privileges;

use std::{
    io::{self, stdin},
    os::{
        fd::AsFd,
        unix::{fs::FileTypeExt, net::UnixStream},
    },
};

/// Returns the socket to the reader, which is standard input; `None` if that is no socket.
///
/// # Errors
/// If standard input is closed.
pub(crate) fn socket() -> io::Result<Option<UnixStream>> {
    let owned = stdin().as_fd().try_clone_to_owned()?;
    let file = std::fs::File::from(owned.try_clone()?);
    if !file.metadata()?.file_type().is_socket() {
        return Ok(None);
    }
    let stream = UnixStream::from(owned);
    stream.set_nonblocking(true)?;
    Ok(Some(stream))
}
