//! `tests/parity.md`: the known differences.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

use super::Difference;

/// The differences of one table of the page, each with the names of its cases.
type Rows = BTreeMap<Difference, BTreeSet<String>>;

/// A section of the page, which has one table.
#[derive(Debug)]
pub(super) struct Section(Rows);

impl Section {
    /// Reads the section with this heading.
    ///
    /// # Panics
    /// If there is none, or a row has no reason.
    pub(super) fn read(heading: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("parity.md");
        let text = fs::read_to_string(path).unwrap();
        let section =
            text.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no section {heading}"));
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        Self(rows.map(row).collect())
    }

    /// Whether the table has a difference, of whatever cases.
    pub(super) fn contains(&self, difference: &Difference) -> bool {
        self.0.contains_key(difference)
    }

    /// Leaves out what the section has of these cases.
    pub(super) fn without(mut self, names: &BTreeSet<&str>) -> Self {
        self.0.retain(|_, cases| {
            cases.retain(|case| !names.contains(case.as_str()));
            !cases.is_empty()
        });
        self
    }

    /// Asserts that these are exactly the differences of the table.
    ///
    /// # Panics
    /// With the rows to add and those to remove.
    pub(super) fn assert_is(&self, found: &Rows) {
        let (new, gone) = (without(found, &self.0), without(&self.0, found));
        assert!(
            new.is_empty() && gone.is_empty(),
            "tests/parity.md does not have these differences:\n{new}and has these, which are not found:\n{gone}"
        );
    }

    /// Asserts that each difference of the table was found, in whatever cases.
    ///
    /// # Panics
    /// With the rows to remove.
    pub(super) fn assert_within(&self, found: &Rows) {
        let gone: Vec<_> = self.0.keys().filter(|difference| !found.contains_key(difference)).collect();
        assert!(gone.is_empty(), "tests/parity.md has differences that are not found: {gone:#?}");
    }
}

/// The rows that the others do not have, as they are on the page, without a reason.
fn without(rows: &Rows, others: &Rows) -> String {
    let mut lines = String::new();
    for (difference, cases) in rows.iter().filter(|(difference, cases)| others.get(difference) != Some(cases))
    {
        let cases: Vec<_> = cases.iter().map(String::as_str).collect();
        writeln!(lines, "| {difference} | {} | |", cases.join("; ")).unwrap();
    }
    lines
}

fn row(line: &str) -> (Difference, BTreeSet<String>) {
    let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [place, go, silkrail, cases, reason] = cells[..] else { panic!("a row needs five cells: {line}") };
    assert!(!reason.is_empty(), "a row needs a reason: {line}");
    let code = |cell: &str| cell.trim_matches('`').to_owned();
    let difference = Difference { place: code(place), go: code(go), silkrail: code(silkrail) };
    (difference, cases.split("; ").map(str::to_owned).collect())
}
