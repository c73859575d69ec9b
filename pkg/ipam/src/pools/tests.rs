//! Reading pools from directories, from text and from a configuration.

use serde_json::json;

use super::*;

const MANIFESTS: &str = "\
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: rail0
spec:
  subnet: 10.0.0.0/24
  ips:
  - 10.0.0.1-10.0.0.9
status:
  allocatedIPs: '{}'
---
apiVersion: v1
kind: ConfigMap
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderReservedIP
metadata:
  name: reserved
spec:
  ips: [10.0.0.3, 10.0.0.1-10.0.0.2]
";

fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn names(pools: &Pools) -> Vec<&str> {
    pools.iter().map(|pool| pool.name.as_str()).collect()
}

/// Returns the error or the warning about the one file that cannot be used.
fn refused(files: &[(&str, &str)]) -> String {
    match Pools::read_dir(directory(files).path()) {
        Ok(pools) => pools.remarks().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_directory_is_read_in_the_order_of_its_names() {
    let item = |name: &str| {
        json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": name},
            "spec": {"subnet": "fd00::/64", "ips": ["fd00::1"]}})
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [item("a"), item("a2")]});
    let files = [
        ("b.yaml", MANIFESTS),
        ("a.json", &list.to_string()),
        ("c.yml", "name: bare\nsubnet: 10.1.0.0/24\nips: [10.1.0.1]"),
        ("d.yml", "metadata: {name: named}\nsubnet: 10.2.0.0/24"),
        (".hidden.yaml", "["),
        ("README.md", "["),
    ];
    let pools = Pools::read_dir(directory(&files).path()).unwrap();
    assert_eq!(names(&pools), ["a", "a2", "rail0", "bare", "named"]);
    assert_eq!(pools.get("rail0").unwrap().ranges.len(), 6, "three are reserved");
    assert_eq!(pools.ignored().len(), 1);
    assert!(pools.ignored()[0].origin.ends_with("b.yaml, document 2"));
    assert_eq!(pools.ignored()[0].reason, "kind \"ConfigMap\" is not SpiderIPPool or SpiderReservedIP");
}

#[test]
fn a_file_that_cannot_be_read_is_noted_since_it_may_be_readable_later() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.yaml"), "kind: [").unwrap();
    assert!(!Pools::read_dir(dir.path()).unwrap().has_io_error);
    std::os::unix::fs::symlink("/nowhere", dir.path().join("b.yaml")).unwrap();
    assert!(Pools::read_dir(dir.path()).unwrap().has_io_error);
}

#[test]
fn a_missing_directory_has_no_pools() {
    let pools = Pools::read_dir(Path::new("/nowhere/pools.d")).unwrap();
    assert!(pools.is_empty());
    assert_eq!(pools.remarks().to_string(), "; directory /nowhere/pools.d does not exist");
}

#[test]
fn errors_contain_file_document_and_key() {
    let bad = MANIFESTS.replace("10.0.0.1-10.0.0.2", "10.0.0.2-10.0.0.1");
    let error = refused(&[("a.yaml", &bad)]);
    assert!(error.contains("/a.yaml, document 3: spec.ips[1]: range"), "{error}");
    let error = refused(&[("a.yaml", &MANIFESTS.replace("subnet: 10.0.0.0/24", "subnet: 10.0.0.1/24"))]);
    assert!(error.contains("/a.yaml, document 1: spec.subnet: "), "{error}");
    let error = refused(&[("a.yaml", "subnet: 10.0.0.0/24")]);
    assert!(error.ends_with("/a.yaml: name: missing"), "{error}");
    let error = refused(&[("a.yaml", "name: A/B\nsubnet: 10.0.0.0/24")]);
    assert!(error.contains("/a.yaml: name: pool name \"A/B\""), "{error}");
    assert!(refused(&[("a.yaml", "a: [")]).contains("/a.yaml: line "));
    assert!(refused(&[("a.json", "{")]).contains("/a.json: EOF while parsing"));
}

#[test]
fn a_spiderpool_kind_of_another_group_is_refused() {
    let error = refused(&[("a.yaml", &MANIFESTS.replace("spiderpool.spidernet.io", "spiderpool.io"))]);
    assert!(error.contains("apiVersion: expected spiderpool.spidernet.io/v2beta1"), "{error}");
    let error = refused(&[("a.yaml", "kind: SpiderReservedIP\nspec: {ips: [10.0.0.1]}")]);
    assert!(error.contains("apiVersion: missing"), "{error}");
}

fn contested(pools: &Pools) -> Vec<String> {
    pools.contested().map(|skipped| format!("{}: {}", skipped.pool, skipped.reason)).collect()
}

#[test]
fn both_places_of_a_duplicate_name_are_reported() {
    let pool = "name: a\nsubnet: 10.1.0.0/24";
    let files = directory(&[("1.yaml", pool), ("2.yaml", pool), ("3.yaml", "name: b\nsubnet: 10.1.0.0/24")]);
    let pools = Pools::read_dir(files.path()).unwrap();
    let [text] = contested(&pools).try_into().unwrap();
    assert!(text.starts_with("a: it is defined twice: in ") && text.contains("/1.yaml and in "), "{text}");
    assert!(pools.unusable().starts_with("; IPPool a: it is defined twice: in "), "{}", pools.unusable());
    let inline = Pools::from_inline(&json!([{"name": "a", "subnet": "10.0.0.0/24"}])).unwrap();
    let read = Pools::read_dir(directory(&[("1.yaml", pool)]).path()).unwrap();
    let [text] = contested(&inline.merge(read)).try_into().unwrap();
    assert!(text.contains("in pools[0] and in /"), "{text}");
}

#[test]
fn a_file_that_cannot_be_used_affects_only_its_own_pools() {
    let good = ("good.yaml", "name: good\nsubnet: 10.1.0.0/24");
    for bad in [("bad.yaml", "kind: ["), ("bad.json", "{"), ("bad.yaml", "name: b\nsubnett: 10.1.0.0/24")] {
        let pools = Pools::read_dir(directory(&[good, bad]).path()).unwrap();
        assert_eq!(names(&pools), ["good"]);
        let [why] = pools.remarks().unusable() else { panic!("{:?}", pools.remarks()) };
        assert!(why.contains(bad.0), "{why}");
    }
    let directory = directory(&[good]);
    std::os::unix::fs::symlink("/nowhere", directory.path().join("bad.yaml")).unwrap();
    fs::create_dir(directory.path().join("worse.yaml")).unwrap();
    let pools = Pools::read_dir(directory.path()).unwrap();
    assert_eq!((names(&pools), pools.remarks().unusable().len()), (vec!["good"], 2));
}

#[test]
fn a_malformed_file_that_may_be_a_reservation_fails_the_directory() {
    let good = ("good.yaml", "name: good\nsubnet: 10.1.0.0/24");
    for bad in [
        "kind: SpiderReservedIP\nspec: [",
        "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderResrvedIP\nspec: {ips: [10.1.0.1]}",
        "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpidreReservedIP\nspec: {ips: [10.1.0.1]}",
        " \n",
        "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderReservedIP\nspec: {ip: [10.1.0.1]}",
    ] {
        let error = Pools::read_dir(directory(&[good, ("bad.yaml", bad)]).path()).unwrap_err().to_string();
        assert!(error.contains("/bad.yaml") && error.contains("may reserve addresses"), "{error}");
    }
    // One that is gone since the directory was listed is being replaced.
    assert!(pools_of_file(Path::new("/nowhere/a.yaml")).is_err_and(|file| file.may_reserve));
}

#[test]
fn an_unknown_key_is_refused_at_every_level() {
    let spec = MANIFESTS
        .replace("  ips:\n  - 10.0.0.1-10.0.0.9", "  ips: [10.0.0.1-10.0.0.9]\n  excludeIps: [10.0.0.5]");
    for (text, expected) in [
        (spec.as_str(), "document 1: spec.excludeIps: unknown key; did you mean \"excludeIPs\"?"),
        (&MANIFESTS.replace("status:", "staus:"), "document 1: staus: unknown key; did you mean \"status\"?"),
        ("name: a\nsubnett: 10.0.0.0/24\nips: []", "subnett: unknown key; did you mean \"subnet\"?"),
        (
            "name: a\nsubnet: 10.0.0.0/24\nroutes: [{dst: 10.1.0.0/16, gw: 10.0.0.1, via: x}]",
            "routes[0].via: unknown key; known keys: dst, gw",
        ),
        ("metadata: {name: a}\napiVersion: spiderpool.spidernet.io/v2beta1\nspec: {}", "kind: missing"),
    ] {
        let error = refused(&[("a.yaml", text)]);
        assert!(error.contains(expected), "{error} must contain {expected}");
    }
}

#[test]
fn spiderpools_other_keys_and_kinds_are_known() {
    let vlan = MANIFESTS.replace("  subnet:", "  vlan: 100\n  ipVersion: 4\n  subnet:");
    let subnet = "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderSubnet\nspec: {subnet: 10.0.0.0/8}\n\
         ---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderSubnetList\nitems: []\n";
    let pools = Pools::read_dir(directory(&[("a.yaml", &(vlan + subnet))]).path()).unwrap();
    assert_eq!((names(&pools), pools.remarks()), (vec!["rail0"], &PoolWarnings::default()));
}

#[test]
fn addresses_that_spiderpool_has_allocated_are_excluded() {
    let status = r#"'{"10.0.0.4":{"pod":"ai/web-0","podUid":"91ab"}}'"#;
    let pools = Pools::from_text(&MANIFESTS.replace("'{}'", status), Path::new("a.yaml")).unwrap();
    let pool = pools.get("rail0").unwrap();
    assert!(!pool.ranges.contains("10.0.0.4".parse().unwrap()) && pool.ranges.len() == 5);
    assert_eq!(pool.given.values().collect::<Vec<_>>(), ["ai/web-0"]);
}

#[test]
fn ipam_case_014_inline_pools_are_read_as_files_are() {
    let pools = json!([{"name": "b", "subnet": "10.0.0.0/24", "ips": ["10.0.0.2"]}, {"name": "a", "subnet": "fd00::/64"}]);
    assert_eq!(names(&Pools::from_inline(&pools).unwrap()), ["b", "a"]);
    assert!(Pools::from_inline(&Value::Null).unwrap().is_empty());
    for (bad, text) in [
        (json!({}), "configuration: pools: expected a list"),
        (json!([{"name": "a", "subnet": "10.0.0.0/24"}, 5]), "pools[1]: pool: expected an object"),
        (json!([{"name": "a"}]), "pools[0]: subnet: missing"),
        (
            json!([{"name": "a", "subnet": "10.0.0.0/24", "gatway": ""}]),
            "pools[0]: gatway: unknown key; did you mean \"gateway\"",
        ),
        (json!([{"subnet": "10.0.0.0/24"}]), "pools[0]: name: missing"),
        (json!([{"metadata": {"name": "a"}, "spec": {"subnet": "10.0.0.0/24"}}]), "pools[0]: kind: missing"),
    ] {
        let error = Pools::from_inline(&bad).unwrap_err().to_string();
        assert!(error.starts_with(text), "{error} must begin with {text}");
    }
}

#[test]
fn ipam_case_072_reservations_apply_to_merged_pools() {
    let inline = json!([{"name": "x", "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.4"]}]);
    let read = Pools::read_dir(directory(&[("a.yaml", MANIFESTS)]).path()).unwrap();
    let pools = Pools::from_inline(&inline).unwrap().merge(read);
    assert_eq!(pools.get("x").unwrap().ranges.nth(0), Some("10.0.0.4".parse().unwrap()));
    let pools = pools.merge(Pools::read_dir(Path::new("/nowhere/pools.d")).unwrap());
    assert!(pools.remarks().to_string().contains("/nowhere/pools.d"), "{}", pools.remarks());
}
