//! The programs that `hack/test` unpacks and does not install.

use std::path::PathBuf;

/// Returns the directory `target/tools/<name>`: tests are in `target/<profile>/deps`.
///
/// # Panics
/// If it does not contain the program.
pub fn tools(name: &str, program: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let tools = test.ancestors().nth(3).unwrap().join("tools").join(name);
    assert!(tools.join(program).is_file(), "{} has no {program}: run hack/test unit", tools.display());
    tools
}
