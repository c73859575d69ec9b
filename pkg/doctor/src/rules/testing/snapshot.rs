//! Every finding of the rules' tests with its severity, summary, evidence and remedy, in `findings.txt`.
//!
//! After a change of a text, `FINDINGS=update cargo test -p doctor --lib rules` writes the file again.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, OpenOptions},
    io::Write,
    process::Command,
};

use crate::Finding;

const SNAPSHOT: &str = include_str!("findings.txt");

/// The file to which the tests of the rules append their findings, instead of comparing them.
const RECORD: &str = "FINDINGS_RECORD";

/// Returns a finding in one line.
fn line(finding: &Finding) -> String {
    let Finding { id, severity, object, summary, evidence, fix } = finding;
    let evidence = evidence.join("; ");
    let text = format!("{severity} {id} {object}: {summary} [{evidence}] -> {fix}");
    text.replace('\n', "\\n").replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

pub(super) fn compare(finding: &Finding) {
    let line = line(finding);
    if let Some(record) = env::var_os(RECORD) {
        let mut file = OpenOptions::new().append(true).open(record).unwrap();
        // One call, since other tests write as well.
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    } else {
        assert!(SNAPSHOT.lines().any(|known| known == line), "not in findings.txt: {line}");
    }
}

/// Runs the tests of the rules once more, and compares what they find with the file and with the list of findings.
#[test]
fn the_tests_plant_every_finding() {
    let record = tempfile::NamedTempFile::new().unwrap();
    let mut tests = Command::new(env::current_exe().unwrap());
    let tests = tests.args(["rules::", "--skip=snapshot"]).env(RECORD, record.path()).output().unwrap();
    assert!(tests.status.success(), "{}", String::from_utf8_lossy(&tests.stdout));
    let found = fs::read_to_string(record.path()).unwrap();
    let found: BTreeSet<&str> = found.lines().collect();
    let text: String = found.iter().flat_map(|line| [line, "\n"]).collect();
    if env::var_os("FINDINGS").is_some() {
        fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules/testing/findings.txt"), &text).unwrap();
    }
    let is_planted =
        |id: &str| found.iter().any(|line| line.split(' ').nth(1).is_some_and(|planted| planted == id));
    let missing: Vec<_> = crate::ids().filter(|id| !is_planted(id.name)).map(|id| id.name).collect();
    assert!(missing.is_empty(), "no test plants {missing:?}");
    let stale: Vec<_> = SNAPSHOT.lines().filter(|line| !found.contains(line)).collect();
    assert!(stale.is_empty(), "findings.txt has lines that no test finds: {stale:#?}");
}
