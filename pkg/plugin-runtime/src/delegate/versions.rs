//! Delegates that do not support the version of a configuration.

use std::path::Path;

use cni::{CallContext, DelRequest, Error, ErrorCode, NetConf, Operation, Version};
use serde_json::{Value, json};

use super::exec::{self, DelegateCall};
use crate::{Node, not_available};

/// Returns the error of a delegate, which names the versions that it supports if that of the configuration is none of them.
pub(super) fn explain(
    path: &Path,
    operation: Operation,
    common: &CallContext<'_>,
    node: &Node,
    error: Error,
) -> Error {
    // A Go plugin of a version without STATUS refuses the operation before the version (`pkg/skel/skel.go: pluginMain`).
    let is_unknown = operation == Operation::Status && error.code == ErrorCode::INVALID_ENVIRONMENT;
    if error.code != ErrorCode::INCOMPATIBLE_VERSION && !is_unknown {
        return error;
    }
    let supported = supported(path, common, node);
    if supported.is_empty() || supported.contains(&common.conf.version) {
        return error;
    }
    let (program, version) = (path.to_owned(), common.conf.version);
    let error = crate::Error::DelegateVersion { program, version, supported };
    if operation == Operation::Status { not_available(error) } else { error.into() }
}

/// Repeats a DEL that a delegate refused because of the version, in the newest version that it supports. It has no `prevResult`,
/// which is of the refused version. So an attachment can be deleted whose delegate was replaced by an older one, or whose ADD
/// the delegate refused: its configuration is the same in every DEL.
///
/// # Errors
/// The delegate's error.
pub(super) fn del_in_supported(
    path: &Path,
    request: &DelRequest<'_>,
    node: &Node,
    refusal: Error,
) -> Result<(), Error> {
    let common = &request.common;
    let Some(version) = supported(path, common, node).pop() else { return Err(refusal) };
    let Ok(mut conf) = serde_json::from_slice::<Value>(common.stdin) else { return Err(refusal) };
    conf["cniVersion"] = json!(version.as_str());
    conf.as_object_mut().map(|conf| conf.remove("prevResult"));
    let stdin = conf.to_string();
    let common = CallContext {
        conf: NetConf::parse(stdin.as_bytes())?,
        args: common.args.clone(),
        cni_path: common.cni_path.clone(),
        stdin: stdin.as_bytes(),
    };
    let call =
        DelegateCall::new(Operation::Del, &common).about(&request.attachment, request.netns.as_deref());
    exec::run(path, &call, &node.budget).map(drop)
}

/// Returns the versions of a delegate that these plugins support, too, the oldest first; empty if it does not tell.
fn supported(path: &Path, common: &CallContext<'_>, node: &Node) -> Vec<Version> {
    let answer = exec::run(path, &DelegateCall::new(Operation::Version, common), &node.budget);
    let answer: Value =
        answer.ok().and_then(|answer| serde_json::from_slice(&answer).ok()).unwrap_or_default();
    let listed = answer["supportedVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
    Version::ALL.into_iter().filter(|version| listed.iter().any(|text| text == version.as_str())).collect()
}
