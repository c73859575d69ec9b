//! The known keys of objects. A mistyped key is refused, because the setting would not have an effect.

use serde_json::{Map, Value};

use crate::{InvalidPool, InvalidValue};

/// The keys of a `SpiderIPPool`'s `spec` in all versions of the API (v1 and v2beta1).
pub(crate) const POOL: [&str; 15] = [
    "ipVersion",
    "subnet",
    "ips",
    "excludeIPs",
    "gateway",
    "routes",
    "podAffinity",
    "namespaceAffinity",
    "namespaceName",
    "nodeAffinity",
    "nodeName",
    "multusName",
    "default",
    "disable",
    // Until Spiderpool v0.9. Spiderpool ignores it: the network's configuration sets the VLAN.
    "vlan",
];
/// The keys of a route of a pool.
pub(crate) const ROUTE: [&str; 2] = ["dst", "gw"];
/// The keys of a `SpiderReservedIP`'s `spec`.
pub(crate) const RESERVED: [&str; 2] = ["ipVersion", "ips"];
/// The top-level keys of a Kubernetes object with a `spec`.
pub(crate) const OBJECT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
/// The further keys of a bare specification.
pub(crate) const BARE: [&str; 2] = ["name", "metadata"];

/// The maximum edit distance of a mistyped key from a known one.
const MAX_EDIT_DISTANCE: usize = 3;

/// Refuses an object that contains a key which is in none of the lists.
pub(crate) fn check(object: &Map<String, Value>, known: &[&[&'static str]]) -> Result<(), InvalidPool> {
    let known = || known.iter().flat_map(|list| list.iter().copied());
    let Some(key) = object.keys().find(|key| !known().any(|known| known == key.as_str())) else {
        return Ok(());
    };
    Err(InvalidValue::UnknownKey { nearest: nearest(key, known()), known: known().collect() }.at(key))
}

/// Returns the known key that is most similar to this one, if any is similar enough.
pub(crate) fn nearest(key: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let lower = key.to_ascii_lowercase();
    let distance = |known: &str| distance(lower.as_bytes(), known.to_ascii_lowercase().as_bytes());
    let (nearest, far) = known.map(|known| (known, distance(known))).min_by_key(|(_, far)| *far)?;
    // At least half of the letters must agree, else short keys would always match.
    (far <= MAX_EDIT_DISTANCE && far * 2 <= lower.len().max(nearest.len())).then_some(nearest)
}

/// Returns the edit distance: the number of insertions, deletions, substitutions and swaps of adjacent letters.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && *x == b[j - 1] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(object: Value) -> String {
        check(object.as_object().unwrap(), &[&POOL]).unwrap_err().to_string()
    }

    #[test]
    fn an_error_suggests_the_key_that_was_meant() {
        for (typed, meant) in [
            ("excludeIps", "excludeIPs"),
            ("excludIPs", "excludeIPs"),
            ("gatway", "gateway"),
            ("subnett", "subnet"),
            ("ip", "ips"),
            ("nodename", "nodeName"),
            ("multusname", "multusName"),
            ("defualt", "default"),
            ("disabled", "disable"),
            ("namesapceName", "namespaceName"),
        ] {
            let text = refused(json!({ typed: null }));
            assert_eq!(text, format!("{typed}: unknown key; did you mean {meant:?}?"));
        }
    }

    #[test]
    fn an_error_lists_all_keys_if_none_is_similar() {
        let text = refused(json!({"subnet": 1, "podSelector": {}}));
        assert!(text.starts_with("podSelector: unknown key; known keys: ipVersion, subnet, ips, "), "{text}");
    }

    #[test]
    fn every_known_key_is_accepted() {
        let all: Map<String, Value> = POOL.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
        check(&all, &[&POOL]).unwrap();
        check(json!({"name": 1, "vlan": 1}).as_object().unwrap(), &[&POOL, &BARE]).unwrap();
    }
}
