//! The rules of `deny.toml` on licences, banned packages and sources. `hack/check deny` has the same from cargo-deny, which takes
//! two minutes to compile.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;
use spdx::{Expression, ParseMode};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn rules() -> toml::Table {
    fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

/// Returns the packages that are compiled for the targets of the rules, with all features.
fn packages(rules: &toml::Table) -> Vec<Value> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).args(["metadata", "--locked", "--format-version=1", "--all-features"]);
    for target in strings(&rules["graph"]["targets"]) {
        cargo.args(["--filter-platform", target]);
    }
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let enabled = enabled(rules);
    let id = |package: &Value| ["name", "version"].map(|key| package[key].as_str().unwrap().to_owned());
    metadata["packages"].as_array().unwrap().iter().filter(|it| enabled.contains(&id(it))).cloned().collect()
}

/// Returns the names and versions of packages that a feature enables. `cargo metadata` also lists those that no feature does.
fn enabled(rules: &toml::Table) -> BTreeSet<[String; 2]> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).args(["tree", "--locked", "--workspace", "--all-features", "--prefix=none"]);
    for target in strings(&rules["graph"]["targets"]) {
        cargo.args(["--target", target]);
    }
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let package = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        Some([words.next()?, words.next()?.strip_prefix('v')?.to_owned()])
    };
    String::from_utf8(output.stdout).unwrap().lines().filter_map(package).collect()
}

fn strings(list: &toml::Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

/// Returns what is wrong with a package, if something is.
fn fault(package: &Value, rules: &toml::Table) -> Option<String> {
    let name = package["name"].as_str().unwrap();
    let banned =
        rules["bans"]["deny"].as_array().unwrap().iter().find(|ban| ban["name"].as_str() == Some(name));
    if let Some(ban) = banned {
        return Some(format!("{name} is banned: {}", ban["reason"].as_str().unwrap()));
    }
    if package["source"].as_str().is_some_and(|source| source != REGISTRY) {
        return Some(format!("{name} is from {}", package["source"]));
    }
    let licences = &rules["licenses"];
    let mut allowed = strings(&licences["allow"]);
    let exceptions = licences["exceptions"].as_array().unwrap().iter();
    allowed.extend(
        exceptions.filter(|it| it["crate"].as_str() == Some(name)).flat_map(|it| strings(&it["allow"])),
    );
    let Some(licence) = package["license"].as_str() else { return Some(format!("{name} has no licence")) };
    let expression =
        Expression::parse_mode(licence, ParseMode::LAX).unwrap_or_else(|e| panic!("{name}: {e}"));
    let fits = expression.evaluate(|required| allowed.contains(&required.to_string().as_str()));
    (!fits).then(|| format!("{name} has the licence {licence}, which deny.toml does not allow"))
}

#[test]
fn dependencies_follow_the_rules() {
    let rules = rules();
    let packages = packages(&rules);
    assert!(packages.len() > 300, "{}", packages.len());
    let faults: Vec<_> = packages.iter().filter_map(|package| fault(package, &rules)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_rule_finds_a_package_that_breaks_it() {
    let rules = rules();
    let with = |key: &str, value: Value| {
        let mut package =
            serde_json::json!({"name": "some", "source": REGISTRY, "license": "MIT OR GPL-3.0-only"});
        package[key] = value;
        fault(&package, &rules)
    };
    assert_eq!(with("name", "some".into()), None);
    assert_eq!(with("license", "MIT/Apache-2.0".into()), None);
    for (key, value) in [
        ("name", Value::from("openssl-sys")),
        ("source", "git+https://example.com/some".into()),
        ("license", "MIT AND GPL-3.0-only".into()),
        ("license", "ISC".into()), // an exception of others
        ("license", Value::Null),
    ] {
        assert!(with(key, value.clone()).is_some(), "{key}: {value}");
    }
}
