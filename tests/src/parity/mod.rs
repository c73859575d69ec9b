//! The same calls of a Go plugin and of Silkrail's, each on a node of its own, and what differs.
//!
//! A [`Case`] is the input. Its output, and the state of pod and node after each call, are recorded with both plugins; a
//! [`Comparison`] has the differences, which must be those of `tests/parity.md`.

mod case;
mod comparison;
mod difference;
mod observation;
mod page;
mod place;

pub use case::{Case, Implementation, Record, Step};
pub use comparison::Comparison;
pub use difference::Difference;
