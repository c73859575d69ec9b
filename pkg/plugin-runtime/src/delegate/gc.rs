//! GC of the IPAM plugin: what is not valid any more, but for what a link is left of.

use cni::{CallContext, Error, GcRequest, NetConf, Operation};
use identifiers::Attachment;
use serde_json::{Value, json};

use super::{
    exec::{self, DelegateCall},
    find::{self, Delegate},
};
use crate::Node;

/// The keys of the list: the specification's, and the one that libcni used for a while.
const KEYS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// Has the IPAM plugin take back what is not valid any more. `kept` are the attachments that the main plugin still has:
/// where it could not take one back, something may still answer to its address.
///
/// # Errors
/// What is left, in the delegate's words.
pub fn gc(request: &GcRequest<'_>, kept: &[Attachment], node: &Node) -> Result<(), Error> {
    let also: Vec<_> = kept.iter().filter(|kept| !request.valid.contains(kept)).cloned().collect();
    if also.is_empty() {
        return call(request, node);
    }
    let stdin = with(request.common.stdin, &also)?;
    let common = CallContext {
        conf: NetConf::parse(&stdin)?,
        args: request.common.args.clone(),
        cni_path: request.common.cni_path.clone(),
        stdin: &stdin,
    };
    call(&GcRequest { valid: [request.valid.clone(), also].concat(), common }, node)
}

fn call(request: &GcRequest<'_>, node: &Node) -> Result<(), Error> {
    match find::find(&request.common, node.builtin_ipam)? {
        Delegate::None => Ok(()),
        Delegate::Builtin(plugin) => plugin.gc(request),
        Delegate::Executable(path) => {
            exec::run(&path, &DelegateCall::new(Operation::Gc, &request.common), &node.budget).map(drop)
        }
    }
}

/// A configuration with more attachments in its lists of valid ones.
fn with(stdin: &[u8], also: &[Attachment]) -> Result<Vec<u8>, Error> {
    let unreadable = |e: serde_json::Error| Error::config(e.to_string());
    let mut conf: Value = serde_json::from_slice(stdin).map_err(unreadable)?;
    for key in KEYS {
        let Some(list) = conf.get_mut(key) else { continue };
        // Go writes an empty list so.
        if list.is_null() {
            *list = json!([]);
        }
        if let Value::Array(list) = list {
            let of = |one: &Attachment| json!({"containerID": one.container_id.as_str(), "ifname": one.ifname.as_str()});
            list.extend(also.iter().map(of));
        }
    }
    serde_json::to_vec(&conf).map_err(unreadable)
}
