//! Rate limits by token buckets, and the networks to which limits per source apply.

#![forbid(unsafe_code)]

mod bucket;
mod source;

pub use bucket::{RateLimit, TokenBucket};
pub use source::{host_prefix, site_prefix};
