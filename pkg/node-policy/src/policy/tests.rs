//! Tests of the policy of a node.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
};

use super::*;
use crate::Resource;

const POLICY: &str = "\
version: 1
rules:
  - name: infrastructure
    namespaces: [kube-system, silkrail]
    allow: all
  - name: no-rdma
    namespaces: ['dev-*']
    deny: development has no RDMA
  - name: tenants
    namespaces:
      - 'team-[a-c]'
    allow:
      masters: [rail0, 'ens1f?']
      vlans: [0, 100-199, '300']
      pkeys: ['0x0001-0x000f']
      max_tx_rate: ['*']
      trust: [off]
      pools: ['team-*']
      devices: ['0000:AF:00.[2-7]']
      macs: ['C2:11:*']
      guids: ['0200:0000:0000:00[A-F]*']
  - name: others
    allow:
      modes: ['*']
";

fn parse(text: &str) -> Result<NodePolicy, PolicyError> {
    NodePolicy::parse("policy.yaml".into(), text.to_owned())
}

/// Returns the uses of resources with these values.
fn uses(values: &[(Resource, &str)]) -> ResourceUses {
    let mut uses = ResourceUses::default();
    values.iter().for_each(|(resource, value)| uses.add(*resource, value));
    uses
}

#[test]
fn the_first_rule_for_the_namespace_decides() {
    use Resource as R;
    let policy = parse(POLICY).unwrap();
    let team = Some("team-b");
    for (namespace, values, refused) in [
        (Some("silkrail"), &[(R::Master, "eth0"), (R::MaxTxRate, "0")][..], None),
        (Some("dev-1"), &[], Some("no-rdma")),
        (team, &[], None),
        (team, &[(R::Master, "rail0"), (R::Vlan, "0"), (R::Vlan, "199")], None),
        (team, &[(R::Master, "ens1f1"), (R::Vlan, "300"), (R::Pkey, "15")], None),
        (team, &[(R::MaxTxRate, "0"), (R::Trust, "off"), (R::Pool, "team-b")], None),
        (team, &[(R::Master, "rail0"), (R::Master, "rail1")], Some("masters: rail1 ")),
        (team, &[(R::Vlan, "200")], Some("vlans: 200 ")),
        (team, &[(R::Pkey, "16")], Some("pkeys: 16 ")),
        (team, &[(R::Trust, "on")], Some("trust: on ")),
        (team, &[(R::Pool, Resource::INLINE_POOLS)], Some("pools: (inline) ")),
        // What a rule does not list is not allowed.
        (team, &[(R::Mode, "bridge")], Some("modes: bridge ")),
        (Some("team-d"), &[(R::Mode, "passthru")], None),
        (None, &[(R::Mode, "passthru")], None),
        (None, &[(R::Device, "0000:af:00.2")], Some("devices: 0000:af:00.2 ")),
        (Some("default"), &[(R::Master, "rail0")], Some("\"others\"")),
    ] {
        match (policy.require(namespace, &uses(values)), refused) {
            (Ok(()), None) => {}
            (Err(PolicyError::Refused { what, .. }), Some(part)) if what.contains(part) => {}
            (other, _) => panic!("{namespace:?} {values:?}: expected {refused:?}, got {other:?}"),
        }
    }
    let mut master = ResourceUses::default();
    master.add_named(R::Master, vec!["eth7".into(), "ens1f0".into()]);
    policy.require(team, &master).unwrap();
    // Addresses are compared in lower case, names as they are.
    policy.require(team, &uses(&[(R::Device, "0000:af:00.2"), (R::Mac, "c2:11:22:33:44:55")])).unwrap();
    policy.require(team, &uses(&[(R::Guid, "0200:0000:0000:00ab")])).unwrap();
    assert!(policy.require(team, &uses(&[(R::Master, "RAIL0")])).is_err());
    let mut switch = ResourceUses::default();
    switch.add_switch(R::Trust, None);
    switch.add_switch(R::Trust, Some(false));
    assert_eq!(switch, uses(&[(R::Trust, "off")]));
}

#[test]
fn a_refusal_names_the_rule_what_it_allows_and_its_line() {
    let policy = parse(POLICY).unwrap();
    let text = |namespace, values: &[(Resource, &str)]| {
        policy.require(namespace, &uses(values)).unwrap_err().to_string()
    };
    assert_eq!(
        text(Some("team-a"), &[(Resource::Master, "eth0")]),
        "masters: eth0 is not allowed for pods of the namespace \"team-a\": the rule \"tenants\" of the node's policy has the \
         masters [\"rail0\",\"ens1f?\"] (policy.yaml, line 13)"
    );
    assert_eq!(
        text(None, &[(Resource::Guid, "x")]),
        "guids: x is not allowed for containers without a namespace of Kubernetes: the rule \"others\" of the node's policy has \
         no guids (policy.yaml, line 22)"
    );
    assert_eq!(
        text(Some("dev-1"), &[]),
        "the rule \"no-rdma\" of the node's policy denies pods of the namespace \"dev-1\" this network: development has no RDMA \
         (policy.yaml, line 8)"
    );
    let policy = parse("version: 1\nrules:\n- {name: a, namespaces: [a], allow: all}\n").unwrap();
    for namespace in [Some("b"), None] {
        let error = policy.require(namespace, &uses(&[])).unwrap_err().to_string();
        assert!(error.starts_with("no rule of the node's policy is for "), "{error}");
    }
}

#[test]
fn an_invalid_policy_is_refused_with_its_line() {
    let with = |rule: &str| format!("version: 1\nrules:\n  - name: a\n    allow: all\n  - name: b\n{rule}");
    for (text, place, what) in [
        (String::new(), "policy.yaml", "expected the keys version and rules"),
        ("a: [".to_owned(), "policy.yaml", "line "),
        ("version: 1\nrules: []\n---\nversion: 1\n".to_owned(), "policy.yaml", "expected the keys"),
        ("version: 2\nrules: []\n".to_owned(), "policy.yaml, line 1", "version: expected 1"),
        ("version: 1\n".to_owned(), "policy.yaml", "rules: expected a list"),
        ("version: 1\nrules: []\ndefault: allow\n".to_owned(), "policy.yaml, line 3", "default: unknown key"),
        (with(""), "policy.yaml, line 5", "rules[1]: expected either allow or deny"),
        (with("    allow: all\n    deny: no\n"), "policy.yaml, line 5", "expected either allow or deny"),
        (with("    allow: any\n"), "policy.yaml, line 6", "rules[1].allow: expected a mapping"),
        (with("    deny: ''\n"), "policy.yaml, line 6", "rules[1].deny: expected the reason"),
        (with("    alow: all\n"), "policy.yaml, line 6", "rules[1].alow: unknown key"),
        (with("    allow: {master: [a]}\n"), "policy.yaml, line 6", "rules[1].allow.master: unknown key"),
        (with("    allow:\n      masters: rail0\n"), "policy.yaml, line 7", "expected a list of texts"),
        (with("    allow: {masters: ['a[']}\n"), "policy.yaml, line 6", "found \"a[\""),
        (with("    allow: {masters: [7]}\n"), "policy.yaml, line 6", "found 7"),
        (with("    allow: {vlans: [9-3]}\n"), "policy.yaml, line 6", "numbers and ranges"),
        (with("    allow: {vlans: [-1]}\n"), "policy.yaml, line 6", "numbers and ranges"),
        (with("    allow: {vlans: []}\n"), "policy.yaml, line 6", "the list is empty"),
        (with("    namespaces: []\n    allow: all\n"), "policy.yaml, line 6", "the list is empty"),
        (with("    namespaces: team-a\n    allow: all\n"), "policy.yaml, line 6", "expected a list of texts"),
        (
            with("    allow: all\n  - name: b\n    allow: all\n"),
            "policy.yaml, line 7",
            "two rules have this name",
        ),
        (with("    allow: all\n  - allow: all\n"), "policy.yaml, line 7", "rules[2].name: expected a name"),
    ] {
        match parse(&text) {
            Err(PolicyError::Invalid { place: at, what: is }) => {
                assert!(is.contains(what), "{text}: {is}");
                assert_eq!(at, place, "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_policy_that_another_user_can_write_is_not_read_and_a_missing_one_is_none() {
    let root = tempfile::tempdir().unwrap();
    assert!(NodePolicy::read(root.path()).unwrap().is_none());
    let (dir, file) = (root.path().join("etc/silkrail"), root.path().join(NodePolicy::PATH));
    fs::create_dir_all(&dir).unwrap();
    assert!(NodePolicy::read(root.path()).unwrap().is_none());
    fs::write(&file, POLICY).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let read = || match NodePolicy::read(root.path()) {
        Err(PolicyError::File(error)) => Some(error.is_foreign()),
        read => read.unwrap().is_some().then_some(false),
    };
    assert_eq!(read(), Some(false));
    for (path, uid, mode) in
        [(&file, 0, 0o664), (&file, 65534, 0o644), (&dir, 0, 0o777), (&dir, 65534, 0o755)]
    {
        let former = fs::metadata(path).unwrap().permissions();
        chown(path, Some(uid), None).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let refused = NodePolicy::read(root.path()).unwrap_err();
        let expected = format!("{}: owned by user {uid} with mode {mode:o}; expected root", path.display());
        assert!(
            refused.to_string().contains(&expected) && !refused.to_string().contains("remove"),
            "{refused}"
        );
        chown(path, Some(0), None).unwrap();
        fs::set_permissions(path, former).unwrap();
    }
    fs::rename(&file, dir.join("other")).unwrap();
    symlink("other", &file).unwrap();
    assert_eq!(read(), Some(true), "a link");
    fs::remove_file(&file).unwrap();
    symlink("missing", &file).unwrap();
    assert_eq!(read(), Some(true), "a dangling link is not a missing policy");
}
