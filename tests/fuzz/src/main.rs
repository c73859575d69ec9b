//! libFuzzer over the target that `SILKRAIL_FUZZ_TARGET` names. Built and started by `hack/fuzz`.

#![no_main]

use std::{env, sync::OnceLock};

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

/// The target's function; it is asked for once for each input.
fn target() -> fn(&[u8]) {
    *TARGET.get_or_init(|| {
        let name = env::var("SILKRAIL_FUZZ_TARGET").unwrap_or_default();
        let found = silkrail_fuzz::target(&name);
        assert!(found.is_some(), "SILKRAIL_FUZZ_TARGET is {name:?}, which is no target");
        found.map_or(|_| (), |(_, run)| run)
    })
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| target()(input));
