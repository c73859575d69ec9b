//! State files: each is created or replaced atomically, and symbolic links are never followed. A file that a user other than root,
//! or than that of the process, owns or can write is not read: see [`Error::Foreign`].
//!
//! A plugin may be killed between any two system calls, and other plugins may run concurrently. A file is
//! therefore written without a name and then linked ([`create()`]), or written under a temporary name and then
//! renamed ([`replace`]). Nothing is synced to disk: state is in `/run`, and describes a node that does not
//! survive a power failure either. Files that outlive boots are written by [`replace_durably`].

#![forbid(unsafe_code)]

mod create;
mod durable;
mod error;
mod lock;
mod owner;
mod read;

pub use create::{create, is_temporary, make_dir, replace, replace_with_mode};
pub use durable::replace_durably;
pub use error::Error;
pub use lock::lock;
pub use owner::require_own_directory;
pub use read::{
    MAX_STATE_FILE_BYTES, StateFileContent, is_quarantined, open, original_name, quarantine, read, remove,
    too_long, whole,
};
