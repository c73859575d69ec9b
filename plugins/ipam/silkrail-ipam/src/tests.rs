//! What the tests of the modules have in common.

use cni::{CallContext, CniArgs, NetConf};
use serde_json::{Value, json};

/// Returns a call with these keys of the configuration and these arguments.
pub(crate) fn call(more: &Value, args: &str) -> CallContext<'static> {
    let mut conf = json!({"cniVersion": "1.1.0", "name": "rail0", "type": "silkrail-ipam", "stateDir": "/run/silkrail-nowhere"});
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let conf = NetConf::parse(conf.to_string().as_bytes()).unwrap();
    CallContext { conf, args: CniArgs::parse(args).unwrap(), cni_path: Vec::new(), stdin: b"" }
}
