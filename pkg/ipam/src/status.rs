//! Parses the status of a `SpiderIPPool`: the addresses that Spiderpool has allocated to pods.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::{Map, Value};

use crate::{
    InvalidPool,
    spec::{SpecReader, mismatch},
};

/// The key path of the addresses.
const KEY: &str = "status.allocatedIPs";

/// Returns the addresses that Spiderpool has allocated, with their pods. Since v2beta1, `allocatedIPs` is a string that
/// contains JSON; before, it was an object. The keys are addresses without a prefix length.
pub(crate) fn allocated(object: SpecReader<'_>) -> Result<BTreeMap<IpAddr, String>, InvalidPool> {
    let Some(status) = object.object("status")? else { return Ok(BTreeMap::new()) };
    match status.value("allocatedIPs") {
        None => Ok(BTreeMap::new()),
        Some(Value::String(text)) if text.is_empty() => Ok(BTreeMap::new()),
        Some(Value::String(text)) => {
            let inner: Option<Map<String, Value>> = serde_json::from_str(text).unwrap_or_default();
            records(&inner.ok_or_else(|| mismatch(KEY, "a JSON object of addresses", text))?)
        }
        Some(Value::Object(map)) => records(map),
        Some(other) => Err(mismatch(KEY, "a JSON object of addresses", other)),
    }
}

fn records(map: &Map<String, Value>) -> Result<BTreeMap<IpAddr, String>, InvalidPool> {
    let record = |(text, record): (&String, &Value)| {
        let address = text.parse().map_err(|_| mismatch(KEY, "an address", text))?;
        Ok((address, pod(record)))
    };
    map.iter().map(record).collect()
}

/// Returns `namespace/name`, which is one value or, before v2beta1, two.
fn pod(record: &Value) -> String {
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("namespace") {
        "" => text("pod").to_owned(),
        namespace => format!("{namespace}/{}", text("pod")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(status: Value) -> Result<Vec<(String, String)>, String> {
        let object = json!({ "status": status });
        let found = allocated(SpecReader(object.as_object().unwrap())).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|(address, pod)| (address.to_string(), pod)).collect())
    }

    #[test]
    fn both_of_spiderpools_forms_are_read() {
        let pod = |name: &str| ("10.0.0.9".to_owned(), name.to_owned());
        let text = r#"{"10.0.0.9":{"pod":"default/web-0","podUid":"91ab"},"fd00::9":{"pod":"b/c"}}"#;
        assert_eq!(
            read(json!({"allocatedIPs": text, "allocatedIPCount": 1})),
            Ok(vec![pod("default/web-0"), ("fd00::9".to_owned(), "b/c".to_owned())])
        );
        let older =
            json!({"10.0.0.9": {"containerID": "c", "interface": "eth0", "namespace": "a", "pod": "b"}});
        assert_eq!(read(json!({ "allocatedIPs": older })), Ok(vec![pod("a/b")]));
        for nothing in [json!(null), json!({}), json!({"allocatedIPs": null}), json!({"allocatedIPs": ""})] {
            assert_eq!(read(nothing), Ok(vec![]));
        }
    }

    #[test]
    fn malformed_records_are_refused_because_they_may_be_addresses_in_use() {
        for bad in [json!("{"), json!("[]"), json!("null"), json!(5), json!({"web": {}})] {
            let text = read(json!({ "allocatedIPs": bad })).unwrap_err();
            assert!(text.starts_with("status.allocatedIPs: expected "), "{text}");
        }
    }
}
