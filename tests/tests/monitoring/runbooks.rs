//! The runbooks: each alert has its page, and each page names only metrics, commands, findings and alerts that exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::json;
use silkrail_tests::{cli, conf, daemon, reference::MetricsReference};

use crate::{
    expression::selectors,
    promtool,
    rule_file::{alert_names, alerts, name, recorded},
};

/// The start of each `runbook_url`, as in the command of the README that replaces it.
const PREFIX: &str = "conf/prometheus/runbooks/";

/// What commands of other programs begin with.
const OTHER_COMMANDS: [&str; 18] = [
    "curl -fsS http://NODE:9879/",
    "dmesg -T",
    "ethtool -I --show-fec ens6f0np0",
    "ethtool -S ens6f0np0",
    "ethtool -i ens6f0np0",
    "ethtool -m ens6f0np0",
    "ethtool ens6f0np0",
    "ip -d link show ens6f0np0",
    "journalctl -u silkrai",
    "kubectl -n silkrail get ",
    "kubectl -n silkrail logs daemonset/silkrai",
    "kubectl -n NAMESPACE logs POD",
    "kubectl describe ",
    "lspci ",
    "openssl x509 -in tls.crt ",
    "rdma link show",
    "rdma resource show qp link mlx5_0",
    "rdma statistic show link mlx5_0/1",
];

/// A page without its fenced blocks, and the lines of these by language.
struct Runbook {
    alert: String,
    prose: String,
    blocks: BTreeMap<String, Vec<String>>,
}

impl Runbook {
    fn all() -> Vec<Self> {
        let entries = fs::read_dir(conf::path("prometheus/runbooks")).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
            .iter()
            .map(|file| {
                let alert = file.file_name().unwrap().to_str().unwrap().strip_suffix(".md").unwrap();
                Self::parse(alert, &fs::read_to_string(file).unwrap())
            })
            .collect()
    }

    fn parse(alert: &str, text: &str) -> Self {
        let (mut prose, mut blocks, mut language) = (String::new(), BTreeMap::<_, Vec<_>>::new(), None);
        for line in text.lines() {
            match (line.strip_prefix("```"), &language) {
                (Some(""), _) => language = None,
                (Some(name), _) => language = Some(name.to_owned()),
                (None, Some(name)) => blocks.entry(name.clone()).or_default().push(line.to_owned()),
                (None, None) => prose.extend([line, "\n"]),
            }
        }
        Self { alert: alert.to_owned(), prose, blocks }
    }

    fn block(&self, language: &str) -> &[String] {
        self.blocks.get(language).map_or(&[], Vec::as_slice)
    }

    /// The texts in backticks. A text that a line break divides is joined.
    fn code(&self) -> Vec<String> {
        let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.prose.split('`').skip(1).step_by(2).map(joined).collect()
    }
}

#[test]
fn every_alert_has_its_page_and_its_address() {
    let pages: BTreeSet<String> = Runbook::all().into_iter().map(|page| page.alert).collect();
    assert_eq!(pages, alert_names());
    for alert in alerts() {
        let name = name(&alert);
        assert_eq!(alert["annotations"]["runbook_url"], format!("{PREFIX}{name}.md"));
        assert!(conf::path("..").join(format!("{PREFIX}{name}.md")).is_file(), "{name}");
    }
}

#[test]
fn promtool_accepts_every_expression_of_a_page() {
    let pages = Runbook::all();
    let expressions = pages.iter().flat_map(|page| page.block("promql"));
    let rules: Vec<_> =
        expressions.enumerate().map(|(at, expr)| json!({"record": format!("r{at}"), "expr": expr})).collect();
    let directory = tempfile::tempdir().unwrap();
    let file = json!({"groups": [{"name": "runbooks", "rules": rules}]}).to_string();
    fs::write(directory.path().join("rules.yml"), file).unwrap();
    promtool::run(&["check", "rules", "rules.yml"], directory.path());
}

#[test]
fn every_metric_of_a_page_is_in_the_reference() {
    let (metrics, recorded) = (MetricsReference::read().metrics(), recorded());
    for page in Runbook::all() {
        let inline = page.code().into_iter().filter(|code| {
            ["rdma_", "silkrail_", "node_"].iter().any(|start| code.starts_with(start)) && !code.contains(' ')
        });
        for expression in page.block("promql").iter().cloned().chain(inline) {
            for selector in selectors(&expression) {
                let known = metrics.iter().find(|metric| metric.name == selector.name);
                let labels_exist = |label: &String| known.is_some_and(|metric| metric.has(label));
                let is_other = selector.name == "up" || recorded.contains(&selector.name);
                assert!(known.is_some() || is_other, "{}: {}", page.alert, selector.name);
                assert!(is_other || selector.labels.iter().all(labels_exist), "{}: {selector:?}", page.alert);
            }
        }
    }
}

/// Kinds of errors, reasons and labels.
#[test]
fn every_value_in_snake_case_of_a_page_is_in_the_reference() {
    let reference = conf::text("prometheus/metrics.md");
    for page in Runbook::all() {
        for code in page.code() {
            let snake = code.contains('_') && code.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let known = reference.contains(&format!("`{code}`")) || reference.contains(&format!(" {code}"));
            assert!(!snake || known || recorded().contains(&code), "{}: {code}", page.alert);
        }
    }
}

#[test]
fn every_finding_and_alert_of_a_page_exists() {
    let list = cli::silkrail("doctor --list").ended(0).stdout;
    let findings: BTreeSet<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let alerts = alert_names();
    for page in Runbook::all() {
        let code = page.code();
        let kebab = |text: &&String| {
            text.contains('-')
                && !text.starts_with('-')
                && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        for id in code.iter().filter(kebab) {
            assert!(findings.contains(id.as_str()), "{}: {id} is not a finding", page.alert);
        }
        for command in page.block("sh") {
            let only = command.split_once("--only ").map_or("", |(_, ids)| ids);
            for id in only.split(',').filter(|id| !id.is_empty()) {
                assert!(findings.contains(id), "{}: {id} is not a finding", page.alert);
            }
        }
        for alert in code.iter().filter(|text| text.starts_with("RDMA")) {
            assert!(alerts.contains(alert), "{}: there is no alert {alert}", page.alert);
        }
    }
}

#[test]
fn every_command_of_a_page_exists() {
    let mut help = BTreeMap::new();
    for page in Runbook::all() {
        let inline = page.code().into_iter().filter(|code| code.starts_with("silkrail "));
        for command in page.block("sh").iter().cloned().chain(inline) {
            if command.starts_with("silkrail ") || command.starts_with("silkraild ") {
                assert_command(&page.alert, &command, &mut help);
            } else {
                let known = OTHER_COMMANDS.iter().any(|start| command.starts_with(start))
                    || command.starts_with("systemctl status silkrai");
                assert!(known, "{}: {command}", page.alert);
            }
        }
        for option in page.code().iter().filter(|code| code.starts_with("--")) {
            let text = help_of("silkraild", &mut help);
            let name = option.split('=').next().unwrap();
            assert!(has_option(&text, name), "{}: silkraild has no {option}", page.alert);
        }
    }
}

#[test]
fn the_command_of_the_readme_changes_every_address() {
    let readme = conf::text("prometheus/README.md");
    let command = readme.lines().find(|line| line.starts_with("sed -i ")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("kubernetes")).unwrap();
    let files = ["rules.yml", "kubernetes/prometheusrule.yaml"];
    for file in files {
        fs::copy(conf::path("prometheus").join(file), directory.path().join(file)).unwrap();
    }
    assert!(
        Command::new("sh").args(["-c", command]).current_dir(directory.path()).status().unwrap().success()
    );
    for file in files {
        let text = fs::read_to_string(directory.path().join(file)).unwrap();
        assert!(!text.contains(PREFIX), "{file}");
        assert_eq!(text.matches("runbook_url: https://example.com/runbooks/RDMA").count(), alerts().len());
    }
}

/// Checks subcommands and options of a command of the project with its help.
fn assert_command(page: &str, command: &str, help: &mut BTreeMap<String, String>) {
    let mut words = command.split(' ').peekable();
    let mut path = words.next().unwrap().to_owned();
    loop {
        let text = help_of(&path, help);
        let is_subcommand = |word: &&str| text.lines().any(|line| line.starts_with(&format!("  {word} ")));
        let needs_one = text.contains("\nCommands:\n");
        match words.peek().filter(|_| needs_one) {
            Some(word) if is_subcommand(word) => path = format!("{path} {}", words.next().unwrap()),
            Some(word) if !word.starts_with('-') => panic!("{page}: {path} has no command {word}"),
            _ => break,
        }
    }
    let text = help_of(&path, help);
    for option in words.filter(|word| word.starts_with('-')) {
        assert!(has_option(&text, option), "{page}: {path} has no option {option}");
    }
}

fn has_option(help: &str, option: &str) -> bool {
    let is_it = |word: &str| word.trim_end_matches(',') == option;
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    lines.flat_map(|line| line.split(' ').take(2)).any(is_it)
}

fn help_of(path: &str, known: &mut BTreeMap<String, String>) -> String {
    let ask = || match path.split_once(' ') {
        None if path == "silkraild" => String::from_utf8(daemon::run(&["--help"]).stdout).unwrap(),
        rest => cli::silkrail(&format!("{} --help", rest.map_or("", |(_, rest)| rest))).ended(0).stdout,
    };
    known.entry(path.to_owned()).or_insert_with(ask).clone()
}
