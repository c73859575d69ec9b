//! libFuzzer's entry point for the target that `SILKRAIL_FUZZ_TARGET` names. Built and started by `hack/fuzz`.

#![no_main]

use std::{env, sync::OnceLock};

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

/// Returns the target's function; libFuzzer calls this for each input.
fn target() -> fn(&[u8]) {
    *TARGET.get_or_init(|| {
        let name = env::var("SILKRAIL_FUZZ_TARGET").unwrap_or_default();
        let found = silkrail_fuzz::target(&name);
        assert!(found.is_some(), "SILKRAIL_FUZZ_TARGET: unknown target {name:?}");
        found.map_or(|_| (), |(_, run)| run)
    })
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| target()(input));
