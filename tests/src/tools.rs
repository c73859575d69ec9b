//! The programs that `hack/test` unpacks and does not install.

use std::path::PathBuf;

/// Returns the directory `target/tools/<name>`: tests are in `target/<profile>/deps`, other programs in `target/<profile>`.
///
/// # Panics
/// If it does not contain the program.
pub fn tools(name: &str, program: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut tools = test.ancestors().map(|directory| directory.join("tools").join(name));
    let found = tools.find(|tools| tools.join(program).is_file());
    found.unwrap_or_else(|| panic!("target/tools/{name} has no {program}: run hack/test"))
}
