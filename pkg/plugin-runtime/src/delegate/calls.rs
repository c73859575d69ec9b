//! The operations of the IPAM plugin.

use std::path::Path;

use cni::{
    AddRequest, AddResult, CallContext, CheckRequest, DelRequest, Error, ErrorCode, Operation, StatusRequest,
};

use super::{
    exec::{self, DelegateCall},
    find::{self, Delegate},
    versions,
};
use crate::Node;

/// Makes the IPAM plugin assign addresses.
///
/// # Errors
/// The delegate's own error, with its code; or if there is no such plugin.
pub fn add(request: &AddRequest<'_>, node: &Node) -> Result<AddResult, Error> {
    let result = match find::find(&request.common, node.builtin_ipam)? {
        Delegate::None => return Ok(AddResult::default()),
        Delegate::Builtin(plugin) => plugin.add(request)?,
        Delegate::Executable(path) => {
            let call = DelegateCall::new(Operation::Add, &request.common)
                .about(&request.attachment, Some(&request.netns));
            let printed = run(&path, Operation::Add, &call, &request.common, node)?;
            AddResult::from_delegate(&printed, request.common.conf.version)?
        }
    };
    if result.ips.is_empty() {
        return Err(crate::Error::NoAddresses.into());
    }
    Ok(result)
}

fn run(
    path: &Path,
    operation: Operation,
    call: &DelegateCall<'_>,
    common: &CallContext<'_>,
    node: &Node,
) -> Result<Vec<u8>, Error> {
    let explained = |error| versions::explain(path, operation, common, node, error);
    exec::run(path, call, &node.budget).map_err(explained)
}

/// Makes the IPAM plugin release an attachment's addresses.
///
/// # Errors
/// The delegate's own error; or if there is no such plugin.
pub(crate) fn del(request: &DelRequest<'_>, node: &Node) -> Result<(), Error> {
    match find::find(&request.common, node.builtin_ipam)? {
        Delegate::None => Ok(()),
        Delegate::Builtin(plugin) => plugin.del(request),
        Delegate::Executable(path) => {
            let call = DelegateCall::new(Operation::Del, &request.common)
                .about(&request.attachment, request.netns.as_deref());
            match exec::run(&path, &call, &node.budget) {
                Err(error) if error.code == ErrorCode::INCOMPATIBLE_VERSION => {
                    versions::del_in_supported(&path, request, node, error)
                }
                deleted => deleted.map(drop),
            }
        }
    }
}

/// Makes the IPAM plugin check an attachment's addresses.
///
/// # Errors
/// The delegate's own error.
pub fn check(request: &CheckRequest<'_>, node: &Node) -> Result<(), Error> {
    match find::find(&request.common, node.builtin_ipam)? {
        Delegate::None => Ok(()),
        Delegate::Builtin(plugin) => plugin.check(request),
        Delegate::Executable(path) => {
            let call = DelegateCall::new(Operation::Check, &request.common)
                .about(&request.attachment, Some(&request.netns));
            run(&path, Operation::Check, &call, &request.common, node).map(drop)
        }
    }
}

/// Queries whether the IPAM plugin could serve an ADD.
///
/// # Errors
/// The delegate's own error.
pub fn status(request: &StatusRequest<'_>, node: &Node) -> Result<(), Error> {
    match find::find(&request.common, node.builtin_ipam)? {
        Delegate::None => Ok(()),
        Delegate::Builtin(plugin) => plugin.status(request),
        Delegate::Executable(path) => {
            let call = DelegateCall::new(Operation::Status, &request.common);
            run(&path, Operation::Status, &call, &request.common, node).map(drop)
        }
    }
}

/// Whether a configuration's IPAM plugin needs the link during its calls, as `dhcp` does.
///
/// Any other is called before the link is created and after it is deleted: an address must not be released while a link
/// still uses it.
///
/// # Errors
/// If the configuration's `ipam` is invalid.
pub fn needs_link(common: &CallContext<'_>) -> Result<bool, Error> {
    Ok(common.conf.ipam_type()? == Some("dhcp"))
}
