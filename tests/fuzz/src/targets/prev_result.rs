//! `prevResult` and the result of a delegate: read in one version, written in every version, read back.

use cni::{AddResult, NetConf, Version};
use serde_json::{Value, json};

/// The configuration's version in the first line, then the result.
pub(super) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let (version, result) = text.split_once('\n').unwrap_or(("1.1.0", text));
    let Ok(version) = Version::from_conf(version) else { return };
    let Ok(value) = serde_json::from_str::<Value>(result) else { return };
    let _ = AddResult::from_delegate(result.as_bytes(), version);
    let Some(result) = read(version, &value) else { return };
    for version in Version::ALL {
        assert_round_trip(&result, version);
    }
}

/// The `prevResult` of a configuration of that version, if it has one.
fn read(version: Version, value: &Value) -> Option<AddResult> {
    let conf = json!({"cniVersion": version.as_str(), "name": "n", "prevResult": value}).to_string();
    let conf = NetConf::parse(conf.as_bytes()).unwrap();
    conf.prev_result().inspect_err(|why| assert!(!why.msg.is_empty())).ok()?
}

/// Asserts that a result survives a round trip in a version, to the extent that the version can express it.
fn assert_round_trip(result: &AddResult, version: Version) {
    let Ok(written) = result.to_value(version) else {
        assert!(result.ips.is_empty() && version < Version::V0_3_0, "{version} cannot express {result:?}");
        return;
    };
    assert_eq!(written["cniVersion"], version.as_str());
    let printed = result.to_json(version).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), written, "printed as another value");
    let again = read(version, &written).unwrap();
    assert_eq!(again.to_value(version).unwrap(), written, "changed by a round trip");
    let delegated = AddResult::from_delegate(printed.as_bytes(), version).unwrap();
    assert_eq!(delegated, again, "a delegate's result is parsed differently");
    if version == Version::LATEST {
        assert_eq!(again, *result, "the latest version lost data");
    }
}
