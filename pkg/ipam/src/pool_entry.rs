//! A pool with its origin.

use crate::Pool;

/// A pool with its origin.
#[derive(Debug, Clone)]
pub(crate) struct PoolEntry {
    pub(crate) pool: Pool,
    /// Whether the pool is part of the configuration itself.
    pub(crate) inline: bool,
    pub(crate) origin: String,
    /// The place of another pool with this name, so that neither is used.
    pub(crate) rival: Option<String>,
}
