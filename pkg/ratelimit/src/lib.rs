//! How often something may happen: so many at once, and after them so many per second.

#![forbid(unsafe_code)]

mod bucket;

pub use bucket::{RateLimit, TokenBucket};
