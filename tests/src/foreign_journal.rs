//! Journals that another user than root wrote.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
};

use serde_json::Value;
use testkit::{Call, TestNode};

/// The user who wrote them.
pub const NOBODY: u32 = 65534;

/// The attachment of the journals: a pod of that user, without interfaces.
const ATTACHMENT: (&str, &str) = ("tenant", "net1");

/// Checks that a DEL reverts none of the changes of a victim's attachment that the user wrote to the journal of his own. Returns the
/// names of these changes. `del` is a call of the plugin for the user's attachment.
///
/// # Panics
/// If the DEL fails or changes anything.
pub fn assert_not_reverted(node: &TestNode, plugin: &str, victim: &str, del: &Call) -> BTreeSet<String> {
    let before = node.snapshot();
    let changes = forge(&node.state_dir(), plugin, victim);
    let answer = del.del();
    answer.done();
    assert!(answer.stderr.contains("owned by user 65534"), "{answer:?}");
    remove_quarantined(&node.state_dir(), plugin);
    node.snapshot().assert_is(&before);
    changes
}

/// Writes a journal with the changes of another pod's attachment, as the user. Returns the names of its changes.
///
/// # Panics
/// If the other attachment has no journal.
pub fn forge(state: &Path, plugin: &str, victim: &str) -> BTreeSet<String> {
    let journal = fs::read_to_string(path(state, plugin, victim)).unwrap();
    let (head, changes) = journal.split_once('\n').unwrap();
    let forged = path(state, plugin, &format!("{}@{}", ATTACHMENT.0, ATTACHMENT.1));
    fs::write(&forged, format!("{}\n{changes}", own(head))).unwrap();
    chown(&forged, Some(NOBODY), None).unwrap();
    changes.lines().flat_map(|line| names(&serde_json::from_str(line).unwrap())).collect()
}

/// Returns the names of all changes that a plugin can record, from its own error about a name that it does not know. `del` is a
/// call of the plugin for the user's attachment.
///
/// # Panics
/// If the error does not list them.
pub fn known_changes(state: &Path, plugin: &str, del: &Call, nested: &[&str]) -> BTreeSet<String> {
    let forged = path(state, plugin, &format!("{}@{}", ATTACHMENT.0, ATTACHMENT.1));
    let mut known = BTreeSet::new();
    for outer in [""].iter().chain(nested) {
        forge(state, plugin, &victim_of(state, plugin));
        let head = fs::read_to_string(&forged).unwrap().lines().next().unwrap().to_owned();
        let change = if outer.is_empty() {
            r#"{"unknown":{}}"#.to_owned()
        } else {
            format!(r#"{{"{outer}":{{"unknown":{{}}}}}}"#)
        };
        fs::write(&forged, format!("{head}\n{{\"change\":{change}}}\n")).unwrap();
        chown(&forged, Some(0), None).unwrap();
        let answer = del.del();
        remove_quarantined(state, plugin);
        let (_, expected) =
            answer.stderr.split_once("unknown variant `unknown`, expected ").expect(&answer.stderr);
        let list = expected.split(" at line").next().unwrap();
        let found = list.split('`').skip(1).step_by(2);
        known.extend(found.filter(|name| !nested.contains(name)).map(|name| match *outer {
            "" => name.to_owned(),
            outer => format!("{outer}.{name}"),
        }));
    }
    known
}

/// Returns a call for the user's attachment.
#[must_use]
pub fn of_tenant(call: Call) -> Call {
    call.container(ATTACHMENT.0).ifname(ATTACHMENT.1)
}

fn remove_quarantined(state: &Path, plugin: &str) {
    let (container, ifname) = ATTACHMENT;
    fs::remove_file(path(state, plugin, &format!("{container}@{ifname}")).with_extension("journal.bad"))
        .unwrap();
}

fn victim_of(state: &Path, plugin: &str) -> String {
    let suffix = format!(".{plugin}.journal");
    let names = fs::read_dir(state.join("attachments")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found = names.find(|name| name.ends_with(&suffix) && !name.starts_with(ATTACHMENT.0)).unwrap();
    found.trim_end_matches(&suffix).to_owned()
}

fn path(state: &Path, plugin: &str, attachment: &str) -> PathBuf {
    state.join("attachments").join(format!("{attachment}.{plugin}.journal"))
}

/// Returns a journal's header with the user's attachment.
fn own(head: &str) -> String {
    let mut head: Value = serde_json::from_str(head).unwrap();
    head["attachment"]["containerId"] = ATTACHMENT.0.into();
    head["attachment"]["ifname"] = ATTACHMENT.1.into();
    head.to_string()
}

/// Returns the names of a line's change: `link`, or `rdma.move` of a change that another one contains.
fn names(line: &Value) -> Vec<String> {
    let Some((name, content)) = line["change"].as_object().and_then(|change| change.iter().next()) else {
        return Vec::new();
    };
    match content.as_object() {
        Some(inner) if inner.len() == 1 && name == "rdma" => {
            inner.keys().map(|inner| format!("{name}.{inner}")).collect()
        }
        _ => vec![name.clone()],
    }
}
