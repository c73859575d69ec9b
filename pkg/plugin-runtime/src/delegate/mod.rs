//! Calling the IPAM plugin: in this process if it is part of this executable, as another process otherwise.

mod calls;
mod change;
mod exec;
mod find;
mod gc;

pub use calls::{add, check, del, needs_link, status};
pub use change::DelegateAdd;
pub use gc::gc;
