//! State files: each is created or replaced atomically, and symbolic links are never followed.
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
mod read;

pub use create::{create, is_temporary, make_dir, replace};
pub use durable::replace_durably;
pub use error::Error;
pub use lock::lock;
pub use read::{StateFileContent, is_quarantined, open, original_name, quarantine, read, remove, whole};
