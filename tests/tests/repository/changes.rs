//! `tests/changes.md`: each change of the journal has a row, and the tests that the rows name exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the text of every Rust file below a directory.
pub(crate) fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

/// Returns the changes that a file implements: `Enum::Variant`, or the name of a structure.
fn changes(code: &str) -> Vec<String> {
    let code = code.split("#[cfg(test)]").next().unwrap();
    let Some(name) =
        code.lines().find_map(|line| line.strip_prefix("impl journal::Change for ")?.strip_suffix(" {"))
    else {
        return Vec::new();
    };
    let Some((_, body)) = code.split_once(&format!("enum {name} {{\n")) else { return vec![name.to_owned()] };
    let variants = body.split("\n}").next().unwrap().lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    variants.map(|line| format!("{name}::{}", line.split(['(', ',', ' ']).next().unwrap())).collect()
}

/// Returns the name of the crate that a file belongs to.
fn crate_of(file: &Path) -> String {
    let manifest = file.ancestors().map(|directory| directory.join("Cargo.toml")).find(|path| path.exists());
    let text = fs::read_to_string(manifest.unwrap()).unwrap();
    text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"').to_owned()
}

/// Returns the names in the backquotes of a cell.
pub(crate) fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_change_of_the_journal_has_a_row_with_a_test() {
    let page = fs::read_to_string(root().join("tests/changes.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `").map(|_| line.trim_matches(['|', ' '])))
        .map(|line| line.split(" | ").collect())
        .collect();
    let named: Vec<&str> = rows.iter().flat_map(|row| quoted(row[0])).collect();
    let code = [sources(&root().join("pkg")), sources(&root().join("plugins"))].concat();
    let implemented = code.iter().flat_map(|(file, text)| {
        changes(text).into_iter().map(|change| format!("{} {change}", crate_of(file)))
    });
    let implemented: BTreeSet<String> = implemented.collect();
    assert!(implemented.len() > 15, "{implemented:?}");
    assert_eq!(named.len(), named.iter().collect::<BTreeSet<_>>().len(), "a change has two rows");
    assert_eq!(named.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), implemented);
    let tests = [code, sources(&root().join("tests"))].concat();
    for test in rows.iter().flat_map(|row| quoted(row[2])) {
        let signature = format!("fn {test}()");
        assert!(tests.iter().any(|(_, text)| text.contains(&signature)), "there is no test {test}");
    }
}
