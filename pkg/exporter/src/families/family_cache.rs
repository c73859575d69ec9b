//! What does not change between snapshots.

use exposition::Exposition;

use super::series::SeriesCache;

/// The families and series of the last snapshots.
#[derive(Debug, Default)]
pub(super) struct FamilyCache {
    /// All families so far, without samples.
    pub(super) template: Exposition,
    pub(super) series: SeriesCache,
}
