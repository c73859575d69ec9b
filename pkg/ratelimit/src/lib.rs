//! How often something may happen: so many at once, and after them so many per second.

#![forbid(unsafe_code)]

mod bucket;
mod source;

pub use bucket::{RateLimit, TokenBucket};
pub use source::{host_prefix, site_prefix};
