//! The differences of two records.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::Record;

/// Longer values are on the page as `{…}`.
const LONGEST: usize = 100;

/// A place in which two records differ. A value that is missing is printed as `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The keys to the place, joined by ` > `.
    pub place: String,
    /// The value with the Go plugin.
    pub go: String,
    /// The value with Silkrail's.
    pub silkrail: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` | `{}` | `{}`", self.place, self.go, self.silkrail)
    }
}

/// Returns the differences of two records of a case. A difference of the state that an earlier call had is left out.
pub(super) fn differences(go: &Record, silkrail: &Record) -> BTreeSet<Difference> {
    let (mut all, mut earlier) = (BTreeSet::new(), BTreeSet::new());
    for ((call, go), (_, silkrail)) in go.iter().zip(silkrail) {
        let mut found = BTreeSet::new();
        compare("", Some(go), Some(silkrail), &mut found);
        let is_new = |difference: &&Difference| {
            difference.place.starts_with("printed") || !earlier.contains(*difference)
        };
        let named = |new: &Difference| Difference { place: format!("{call} > {}", new.place), ..new.clone() };
        all.extend(found.iter().filter(is_new).map(named));
        earlier = found;
    }
    all
}

fn compare(place: &str, go: Option<&Value>, silkrail: Option<&Value>, found: &mut BTreeSet<Difference>) {
    if go == silkrail {
        return;
    }
    let inner = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place} > {key}") };
    match (go, silkrail) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.iter().for_each(|key| compare(&inner(key), a.get(*key), b.get(*key), found));
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(&inner(&index.to_string()), a.get(index), b.get(index), found);
            }
        }
        _ => {
            found.insert(Difference { place: place.to_owned(), go: text(go), silkrail: text(silkrail) });
        }
    }
}

fn text(value: Option<&Value>) -> String {
    match value.map(Value::to_string) {
        None => "-".to_owned(),
        Some(text) if text.len() > LONGEST => "{…}".to_owned(),
        Some(text) => text,
    }
}
