//! A whole call: environment and network configuration, parsed by every plugin.
//!
//! ADD and CHECK open the pod's namespace, which does not exist here, before any change; STATUS and VERSION change
//! nothing. DEL, GC and the ADD of the IPAM plugin write: only [`Idle`] is called with those.

use std::ffi::OsString;

use child_link::ChildLinkPlugin;
use cni::{
    AddRequest, AddResult, CallIo, CallOutcome, CheckRequest, DelRequest, Error, ErrorCode, GcRequest,
    Plugin, StatusRequest, Version,
};
use ib_sriov_plugin::IbSriovPlugin;
use ifacer_plugin::IfacerPlugin;
use ipam_plugin::IpamPlugin;
use ipoib_plugin::IpoibKind;
use ipvlan_plugin::IpvlanKind;
use macvlan_plugin::MacvlanKind;
use plugin_runtime::Adapter;
use rdma_plugin::RdmaPlugin;
use serde_json::{Map, Value};
use sriov_plugin::SriovPlugin;

static IPAM: Adapter<IpamPlugin> = Adapter::without_ipam(IpamPlugin);
static MACVLAN: Adapter<ChildLinkPlugin<MacvlanKind>> =
    Adapter::with_ipam(ChildLinkPlugin(MacvlanKind), &IPAM);
static IPVLAN: Adapter<ChildLinkPlugin<IpvlanKind>> = Adapter::with_ipam(ChildLinkPlugin(IpvlanKind), &IPAM);
static IPOIB: Adapter<ChildLinkPlugin<IpoibKind>> = Adapter::with_ipam(ChildLinkPlugin(IpoibKind), &IPAM);
static SRIOV: Adapter<SriovPlugin> = Adapter::with_ipam(SriovPlugin, &IPAM);
static IB_SRIOV: Adapter<IbSriovPlugin> = Adapter::with_ipam(IbSriovPlugin, &IPAM);
static IFACER: Adapter<IfacerPlugin> = Adapter::without_ipam(IfacerPlugin);
static RDMA: Adapter<RdmaPlugin> = Adapter::without_ipam(RdmaPlugin);

/// Plugins, each with the commands that change nothing.
const PLUGINS: [(&dyn Plugin, &[&str]); 9] = [
    (&MACVLAN, &["ADD", "CHECK", "STATUS", "VERSION"]),
    (&IPVLAN, &["ADD", "CHECK", "STATUS"]),
    (&IPOIB, &["ADD", "CHECK", "STATUS"]),
    (&SRIOV, &["ADD", "CHECK", "STATUS"]),
    (&IB_SRIOV, &["ADD", "CHECK", "STATUS"]),
    (&RDMA, &["ADD", "CHECK", "STATUS"]),
    (&IFACER, &["ADD", "CHECK", "STATUS"]),
    (&IPAM, &["STATUS"]),
    (&Idle, &["DEL", "GC", "MAKE"]),
];

/// A directory in which no file can be created.
const NOWHERE: &str = "/proc/nowhere";

/// `CNI_ARGS`, `CNI_CONTAINERID` and `CNI_IFNAME`, one per line, then the configuration.
pub(super) fn run(input: &[u8]) {
    let mut parts = input.splitn(4, |byte| *byte == b'\n');
    let mut part = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let call = Call { args: part(), container_id: part(), ifname: part() };
    let stdin = parts.next().unwrap_or_default();
    match serde_json::from_slice::<Value>(stdin) {
        Ok(mut conf) => {
            remove_paths(&mut conf);
            for (plugin, commands) in PLUGINS {
                commands.iter().for_each(|command| call.assert_same_result(plugin, command, &conf));
            }
        }
        Err(_) => {
            let (outcome, _) = call.result(&MACVLAN, "ADD", stdin);
            assert_eq!(outcome, CallOutcome::Failure, "invalid JSON was accepted");
        }
    }
}

/// Removes the paths of files that a plugin would create or read from a configuration.
fn remove_paths(conf: &mut Value) {
    let Value::Object(conf) = conf else { return };
    remove(conf, &["logFile", "stateDir"]);
    conf.insert("stateDir".into(), "/run/silkrail-nowhere".into());
    for (_, ipam) in conf.iter_mut().filter(|(key, _)| key.eq_ignore_ascii_case("ipam")) {
        if let Value::Object(ipam) = ipam {
            remove(ipam, &["poolsDir", "pools_dir"]);
            ipam.insert("poolsDir".into(), "/run/silkrail-nowhere/pools".into());
        }
    }
}

/// Removes keys as plugins find them: in any letter case.
fn remove(object: &mut Map<String, Value>, keys: &[&str]) {
    object.retain(|written, _| !keys.iter().any(|key| key.eq_ignore_ascii_case(written)));
}

/// A plugin that does nothing, so that the protocol's own parsing of each operation is tested.
struct Idle;

impl Plugin for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn add(&self, _: &AddRequest<'_>) -> Result<AddResult, Error> {
        Ok(AddResult::default())
    }

    fn del(&self, request: &DelRequest<'_>) -> Result<(), Error> {
        assert!(request.netns.is_some());
        Ok(())
    }

    fn check(&self, _: &CheckRequest<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// A valid attachment survives a round trip as text: journals are found by this name.
    fn gc(&self, request: &GcRequest<'_>) -> Result<(), Error> {
        for attachment in &request.valid {
            assert_eq!(attachment.to_string().parse().ok().as_ref(), Some(attachment));
        }
        Ok(())
    }

    fn status(&self, _: &StatusRequest<'_>) -> Result<(), Error> {
        Ok(())
    }
}

struct Call {
    args: String,
    container_id: String,
    ifname: String,
}

impl Call {
    fn variable(&self, name: &str, command: &str) -> Option<OsString> {
        Some(match name {
            "CNI_COMMAND" => command.into(),
            "CNI_CONTAINERID" => self.container_id.clone().into(),
            "CNI_IFNAME" => self.ifname.clone().into(),
            "CNI_ARGS" => self.args.clone().into(),
            "CNI_NETNS" | "CNI_PATH" => NOWHERE.into(),
            _ => return None,
        })
    }

    /// Calls a plugin, and checks that its output follows the protocol.
    fn result(&self, plugin: &dyn Plugin, command: &str, mut stdin: &[u8]) -> (CallOutcome, String) {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let streams = CallIo {
            environment: &|name| self.variable(name, command),
            stdin: &mut stdin,
            stdout: &mut stdout,
            stderr: &mut stderr,
        };
        let outcome = cni::serve(plugin, streams);
        let stdout = String::from_utf8(stdout).unwrap();
        assert!(stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
        assert_eq!(outcome == CallOutcome::Success, is_success(&stdout, command), "{command}: {stdout}");
        (outcome, stdout)
    }

    /// The result is the same with an unknown key, and with keys in another letter case.
    fn assert_same_result(&self, plugin: &dyn Plugin, command: &str, conf: &Value) {
        let result = |conf: &Value| self.result(plugin, command, conf.to_string().as_bytes());
        let plain = result(conf);
        let Value::Object(object) = conf else { return };
        let mut more = object.clone();
        more.insert("unknownKey".into(), Value::Array(vec![]));
        assert_eq!(
            result(&Value::Object(more)),
            plain,
            "{} {command}: an unknown key matters",
            plugin.name()
        );
        let upper: Map<_, _> = object.iter().map(|(k, v)| (k.to_ascii_uppercase(), v.clone())).collect();
        if upper.len() == object.len() {
            assert_eq!(
                result(&Value::Object(upper)),
                plain,
                "{} {command}: letter case matters",
                plugin.name()
            );
        }
    }
}

/// Whether the output is a success. Output that is neither a success nor an error object fails the target.
fn is_success(stdout: &str, command: &str) -> bool {
    if stdout.is_empty() {
        assert!(matches!(command, "STATUS" | "DEL" | "GC"), "{command} without output");
        return true;
    }
    let object: Value = serde_json::from_str(stdout).unwrap();
    let known = |version: &Value| Version::ALL.iter().any(|v| *version == v.as_str());
    assert!(known(&object["cniVersion"]), "{stdout}");
    if command == "VERSION" {
        return object["supportedVersions"].as_array().is_some_and(|all| all.iter().all(known));
    }
    assert!(object["code"].as_u64().is_some_and(|code| code > 0), "{stdout}");
    // Only STATUS calls the kernel, whose errors have no CNI error code.
    assert!(command == "STATUS" || object["code"] != ErrorCode::INTERNAL.0, "{stdout}");
    assert!(object["msg"].as_str().is_some_and(|msg| !msg.is_empty()), "{stdout}");
    false
}
