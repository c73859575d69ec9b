//! Every input of the corpus, and every input that once found a bug.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use std::{
    collections::BTreeSet,
    fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use silkrail_fuzz::TARGETS;

/// How long one input may take. The fuzzer's limit is shorter: there, nothing else runs.
const INPUT_TIMEOUT: Duration = Duration::from_secs(60);

fn below(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(list) = fs::read_dir(dir) else { return Vec::new() };
    let mut files: Vec<_> = list.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs a target on every file of its directory, and returns the number of files.
fn replay(dir: &str, (name, run): silkrail_fuzz::FuzzTarget) -> usize {
    let files = files(&below(dir).join(name));
    for file in &files {
        let input = fs::read(file).unwrap();
        let began = Instant::now();
        assert!(catch_unwind(|| run(&input)).is_ok(), "{} fails on {}", name, file.display());
        assert!(
            began.elapsed() < INPUT_TIMEOUT,
            "{} takes {:?} for {}",
            name,
            began.elapsed(),
            file.display()
        );
    }
    files.len()
}

#[test]
fn every_input_of_the_corpus_passes() {
    for target in TARGETS {
        assert!(replay("corpus", target) > 0, "{} has no corpus", target.0);
    }
}

#[test]
fn every_regression_passes() {
    let replayed: usize = TARGETS.map(|target| replay("regressions", target)).iter().sum();
    assert!(replayed > 0, "no regression was replayed");
}

#[test]
fn empty_and_random_input_pass() {
    let noise: Vec<u8> = (0..4096_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for (name, run) in TARGETS {
        for input in [&[], noise.as_slice()] {
            assert!(catch_unwind(|| run(input)).is_ok(), "{name} fails on {} bytes", input.len());
        }
    }
}

#[test]
fn every_directory_belongs_to_a_target() {
    let known: BTreeSet<_> = TARGETS.map(|(name, _)| name).into();
    for dir in files(&below("corpus")).into_iter().chain(files(&below("regressions"))) {
        let name = dir.file_name().unwrap().to_str().unwrap();
        assert!(known.contains(name), "{} belongs to no target", dir.display());
    }
}
