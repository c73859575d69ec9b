//! How much of a long list of cases a test runs.

use std::env;

/// Returns `sample`, so that a test runs every `sample`th case, or 1 if all cases are requested: `LAB_SWEEP=all`. `hack/test lab`
/// requests all, `hack/test` a sample.
pub fn step(sample: usize) -> usize {
    if env::var_os("LAB_SWEEP").is_some_and(|value| value == "all") { 1 } else { sample }
}
