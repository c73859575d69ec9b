//! Owner references of objects.

use kube::core::ObjectMeta;

/// Maximum length of a name in Kubernetes.
const MAX_NAME_LEN: usize = 253;

/// A validated owner reference of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct OwnerRef {
    /// `apps/v1`, or `v1` for the core group.
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// An owner reference with the namespace of the object that contains it. Both are needed to identify the owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NamespacedOwnerRef {
    /// The namespace of the object with the reference; empty if it is cluster-scoped.
    pub(crate) namespace: String,
    pub(crate) reference: OwnerRef,
}

impl OwnerRef {
    /// Returns the controller of the object, else its first owner; `None` if its fields cannot be part of a URL. Any user who
    /// can create pods can write arbitrary references.
    pub(crate) fn of(metadata: &ObjectMeta) -> Option<Self> {
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true)).or(owners.first())?;
        let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
        let is_valid = (group.is_empty() || is_name(group))
            && [version, &owner.kind, &owner.name, &owner.uid].into_iter().all(is_name);
        is_valid.then(|| Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }
}

fn is_name(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    !text.is_empty()
        && text.len() <= MAX_NAME_LEN
        && !matches!(text, "." | "..")
        && text.bytes().all(is_valid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(owners: serde_json::Value) -> Option<OwnerRef> {
        OwnerRef::of(&serde_json::from_value(json!({ "ownerReferences": owners })).unwrap())
    }

    fn owner(kind: &str, controller: bool) -> serde_json::Value {
        json!({ "apiVersion": "ray.io/v1", "kind": kind, "name": "n", "uid": "u", "controller": controller })
    }

    #[test]
    fn the_controller_is_preferred_to_the_first() {
        assert_eq!(of(json!([owner("A", false), owner("B", true)])).unwrap().kind, "B");
        assert_eq!(of(json!([owner("A", false), owner("B", false)])).unwrap().kind, "A");
        assert_eq!(of(json!([])), None);
    }

    #[test]
    fn a_reference_that_could_change_the_request_path_is_ignored() {
        for (field, bad) in [
            ("name", "../secrets/x"),
            ("name", ".."),
            ("name", "a?b"),
            ("name", ""),
            ("kind", "a b"),
            ("apiVersion", "a/b/c"),
            ("apiVersion", "/v1/../x"),
            ("apiVersion", ".."),
            ("uid", "ü"),
        ] {
            let mut owner = owner("Job", true);
            owner[field] = bad.into();
            assert_eq!(of(json!([owner])), None, "{field} {bad}");
        }
        let mut long = owner("Job", true);
        long["name"] = "a".repeat(MAX_NAME_LEN + 1).into();
        assert_eq!(of(json!([long])), None);
    }
}
