//! `tests/doctor.md`: each error value of the plugins, and each file that a program reads, has a finding of the doctor or the
//! reason why there is none.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use silkrail_tests::cli;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The rows of the tables with findings, by what their first column names.
struct DoctorPage {
    rows: BTreeMap<String, String>,
    reasons: BTreeSet<String>,
}

impl DoctorPage {
    fn read() -> Self {
        let text = fs::read_to_string(root().join("tests/doctor.md")).unwrap();
        let (reasons, tables) = text.split_once("\n## ").unwrap();
        let cells = |line: &str| -> Option<(String, String)> {
            let (name, told) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
            Some((name.to_owned(), told.to_owned()))
        };
        let reasons = reasons.lines().filter_map(cells).map(|(reason, _)| reason);
        let mut rows = BTreeMap::new();
        for (names, told) in tables.lines().filter_map(cells).filter(|(name, _)| name.starts_with('`')) {
            for name in names.split('`').skip(1).step_by(2).flat_map(expanded) {
                assert!(rows.insert(name.clone(), told.clone()).is_none(), "{name} has two rows");
            }
        }
        Self { rows, reasons: reasons.collect() }
    }
}

/// Returns the names that `a {b, c}` stands for.
fn expanded(name: &str) -> Vec<String> {
    let Some((before, several)) = name.split_once('{') else { return vec![name.to_owned()] };
    several.trim_end_matches('}').split(", ").map(|one| format!("{before}{one}")).collect()
}

/// Returns the crates of the plugins and their directories, from the list of dependencies.
fn crates_of_the_plugins() -> Vec<(String, PathBuf)> {
    let arrows = fs::read_to_string(root().join("hack/check.d/arrows")).unwrap();
    let rows = arrows.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
    let uses: BTreeMap<&str, Vec<&str>> =
        rows.map(|(name, used)| (name, used.split_ascii_whitespace().collect())).collect();
    let (mut seen, mut next) = (BTreeSet::new(), vec!["silkrail-cni"]);
    while let Some(name) = next.pop() {
        if seen.insert(name) {
            next.extend(&uses[name]);
        }
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let directory = |name: &str| {
        let line = manifest.lines().find(|line| line.starts_with(&format!("{name} = {{ path = ")));
        root().join(line.unwrap_or_else(|| panic!("{name} is not in Cargo.toml")).split('"').nth(1).unwrap())
    };
    seen.into_iter().map(|name| (name.to_owned(), directory(name))).collect()
}

/// Returns the Rust files below a directory and their text without the tests.
fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            found.extend(sources(&path));
        } else if path.is_file()
            && path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
        {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
            found.push((path, code));
        }
    }
    found
}

/// Returns the errors of a source, as `Enum::Variant` or `Struct`. The text has the layout of rustfmt.
fn errors(code: &str) -> Vec<String> {
    let (mut found, mut is_error, mut within) = (Vec::new(), false, None);
    for line in code.lines() {
        if line.starts_with("#[derive(") {
            let derived = line.split([',', '(', ')', ' ', ':']);
            is_error = derived.filter(|word| !word.is_empty()).any(|word| word == "Error");
        } else if line == "}" {
            (within, is_error) = (None, false);
        }
        let mut words = line.split([' ', '(', ';']).filter(|word| *word != "pub" && *word != "crate)");
        match (is_error, words.next(), words.next()) {
            (true, Some("enum"), Some(name)) => within = Some(name.to_owned()),
            (true, Some("struct"), Some(name)) => {
                found.push(name.to_owned());
                is_error = false;
            }
            _ => {}
        }
        let variant =
            line.strip_prefix("    ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
        if let (Some(name), Some(variant)) = (&within, variant) {
            let variant = variant.split([',', '(', ' ', '{']).next().unwrap();
            found.push(format!("{name}::{variant}"));
        }
    }
    found
}

#[test]
fn every_error_of_a_plugin_has_a_finding_or_a_reason() {
    let page = DoctorPage::read();
    let mut errors_of_plugins = BTreeSet::new();
    for (name, directory) in crates_of_the_plugins() {
        for (_, code) in sources(&directory.join("src")) {
            errors_of_plugins.extend(errors(&code).into_iter().map(|error| format!("{name} {error}")));
        }
    }
    assert!(errors_of_plugins.len() > 200, "{}", errors_of_plugins.len());
    let missing: Vec<_> = errors_of_plugins.iter().filter(|error| !page.rows.contains_key(*error)).collect();
    assert!(missing.is_empty(), "without a row: {missing:#?}");
    let rows = page.rows.keys().filter(|row| !row.contains('/'));
    let stale: Vec<_> = rows.filter(|row| !errors_of_plugins.contains(*row)).collect();
    assert!(stale.is_empty(), "rows of errors that do not exist: {stale:#?}");
}

/// Returns the absolute paths in the texts of a source. Paths below a root directory have no slash at the beginning.
fn paths(code: &str) -> Vec<String> {
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let is_path = |text: &&str| {
        let first = text.trim_start_matches('/').split('/').next().unwrap_or_default();
        let roots = ["boot", "dev", "etc", "lib", "opt", "proc", "run", "sys", "usr", "var"];
        let is_below = text.trim_matches('/').contains('/');
        roots.contains(&first) && is_below && !text.contains([' ', ':', '\\'])
    };
    code.split('"').filter(is_path).map(|text| format!("/{}", text.trim_matches('/'))).collect()
}

#[test]
fn every_file_that_a_program_reads_has_a_finding_or_a_reason() {
    let page = DoctorPage::read();
    let all: Vec<_> = ["pkg", "plugins"].iter().flat_map(|dir| sources(&root().join(dir))).collect();
    let is_of_a_program = |path: &Path| {
        let path = path.strip_prefix(root()).unwrap().to_string_lossy();
        path.contains("/src/") && !path.contains("/testkit/") && !path.ends_with("rules/testing.rs")
    };
    let files: BTreeSet<String> =
        all.iter().filter(|(path, _)| is_of_a_program(path)).flat_map(|(_, code)| paths(code)).collect();
    assert!(files.len() > 60, "{files:#?}");
    let has_row = |file: &String| {
        Path::new(file).ancestors().any(|path| page.rows.contains_key(path.to_str().unwrap()))
    };
    let missing: Vec<_> = files.iter().filter(|file| !has_row(file)).collect();
    assert!(missing.is_empty(), "without a row: {missing:#?}");
    let rows = page.rows.keys().filter(|row| row.starts_with('/'));
    let stale: Vec<_> = rows.filter(|row| !files.iter().any(|file| file.starts_with(*row))).collect();
    assert!(stale.is_empty(), "rows of files that no program reads: {stale:#?}");
}

#[test]
fn the_findings_and_reasons_of_the_page_exist() {
    let page = DoctorPage::read();
    let list = cli::silkrail("doctor --list").ended(0).stdout;
    let ids: BTreeSet<&str> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    for (row, told) in &page.rows {
        let named: Vec<_> = told.split('`').skip(1).step_by(2).collect();
        let unknown: Vec<_> = named.iter().filter(|id| !ids.contains(*id) && id.contains('-')).collect();
        assert!(unknown.is_empty(), "{row}: {unknown:?}");
        let is_file = row.starts_with('/');
        let reason = told.split([':', ';']).next().unwrap();
        assert!(is_file || !named.is_empty() || page.reasons.contains(reason), "{row}: {told}");
    }
}

#[test]
fn what_finds_the_faults_of_production_exists() {
    let text = fs::read_to_string(root().join("tests/doctor.md")).unwrap();
    let (_, table) = text.split_once("\n## Faults of production\n").unwrap();
    let rows: Vec<_> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter(|row| !row.starts_with("fault |"))
        .collect();
    assert!(rows.len() > 25, "{}", rows.len());
    let list = cli::silkrail("doctor --list").ended(0).stdout;
    let rules = fs::read_to_string(root().join("conf/prometheus/rules.yml")).unwrap();
    let is_finding = |name: &str| list.lines().any(|line| line.split(' ').next() == Some(name));
    let is_alert = |name: &str| rules.lines().any(|line| line.trim() == format!("- alert: {name}"));
    for row in &rows {
        let named: Vec<_> = row.split('`').skip(1).step_by(2).collect();
        let unknown: Vec<_> = named
            .iter()
            .filter(|name| (name.starts_with("RDMA") && !is_alert(name)) || is_id(name) && !is_finding(name))
            .collect();
        assert!(unknown.is_empty(), "{row}: {unknown:?}");
        let finds = named.iter().any(|name| is_alert(name) || is_finding(name));
        assert!(finds || row.contains("not at all"), "{row}");
    }
    assert!(rows.iter().filter(|row| row.contains("not at all")).count() <= 3);
}

/// Whether a text has the form of the ID of a finding.
fn is_id(text: &str) -> bool {
    text.contains('-') && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}
