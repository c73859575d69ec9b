//! Calling the IPAM plugin: in this process if it is part of this executable, as another process otherwise.

mod calls;
mod change;
mod exec;
mod find;
mod gc;
mod versions;

pub(crate) use calls::del;
pub use calls::{add, check, needs_link, status};
pub use change::DelegateAdd;
pub(crate) use find::{Delegate, OWN_NAME, find};
pub use gc::gc;
