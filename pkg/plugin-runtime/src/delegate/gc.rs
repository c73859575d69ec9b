//! GC of the IPAM plugin. Addresses of attachments whose link still exists are kept.

use cni::{CallContext, Error, GcRequest, NetConf, Operation};
use identifiers::Attachment;
use serde_json::{Value, json};

use super::{
    exec::{self, DelegateCall},
    find::{self, Delegate},
};
use crate::Node;

/// The keys of the list of valid attachments: the specification's, and the one of some libcni releases.
const KEYS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// Makes the IPAM plugin release the addresses of attachments that are not valid any more. `kept` are the attachments
/// that the main plugin still has: if it failed to revert one, a link may still use its address.
///
/// # Errors
/// The delegate's error.
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

/// Returns a configuration with more attachments in its lists of valid ones.
fn with(stdin: &[u8], also: &[Attachment]) -> Result<Vec<u8>, Error> {
    let unreadable = |e: serde_json::Error| Error::config(e.to_string());
    let mut conf: Value = serde_json::from_slice(stdin).map_err(unreadable)?;
    for key in KEYS {
        let Some(list) = conf.get_mut(key) else { continue };
        // Go marshals an empty list as null.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_that_are_kept_are_added_to_each_list_of_valid_ones() {
        let also: Vec<Attachment> = ["b@net1", "c@net2"].iter().map(|text| text.parse().unwrap()).collect();
        let (a, b, c) = (
            json!({"containerID": "a", "ifname": "net1"}),
            json!({"containerID": "b", "ifname": "net1"}),
            json!({"containerID": "c", "ifname": "net2"}),
        );
        let changed = |conf: &Value| -> Value {
            serde_json::from_slice(&with(conf.to_string().as_bytes(), &also).unwrap()).unwrap()
        };
        let other = json!({"name": "rail", "ipam": {"type": "static"}});
        assert_eq!(changed(&other), other);
        let second = json!({"name": "rail", KEYS[1]: [a]});
        assert_eq!(changed(&second), json!({"name": "rail", KEYS[1]: [a, b, c]}));
        let both = json!({"name": "rail", KEYS[0]: [a], KEYS[1]: null});
        assert_eq!(changed(&both), json!({"name": "rail", KEYS[0]: [a, b, c], KEYS[1]: [b, c]}));
    }
}
