//! A whole call: environment and network configuration, through every plugin's own reading.
//!
//! ADD and CHECK look for the pod's namespace before they change anything, and here there is none; STATUS and
//! VERSION change nothing. DEL, GC and the ADD of the IPAM plugin write: only [`Idle`] is asked for those.

use std::ffi::OsString;

use child_link::ChildLinkPlugin;
use cni::{
    AddRequest, AddResult, CallIo, CallOutcome, CheckRequest, DelRequest, Error, ErrorCode, GcRequest,
    Plugin, StatusRequest, Version,
};
use ipam_plugin::IpamPlugin;
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
static SRIOV: Adapter<SriovPlugin> = Adapter::with_ipam(SriovPlugin, &IPAM);
static RDMA: Adapter<RdmaPlugin> = Adapter::without_ipam(RdmaPlugin);

/// Plugins, and what may be asked of them.
const PLUGINS: [(&dyn Plugin, &[&str]); 6] = [
    (&MACVLAN, &["ADD", "CHECK", "STATUS", "VERSION"]),
    (&IPVLAN, &["ADD", "CHECK", "STATUS"]),
    (&SRIOV, &["ADD", "CHECK", "STATUS"]),
    (&RDMA, &["ADD", "CHECK", "STATUS"]),
    (&IPAM, &["STATUS"]),
    (&Idle, &["DEL", "GC", "MAKE"]),
];

/// Where no file can be made, whatever a plugin tries.
const NOWHERE: &str = "/proc/nowhere";

/// `CNI_ARGS`, `CNI_CONTAINERID` and `CNI_IFNAME` in a line each, then the configuration.
pub(super) fn run(input: &[u8]) {
    let mut parts = input.splitn(4, |byte| *byte == b'\n');
    let mut part = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let call = Call { args: part(), container_id: part(), ifname: part() };
    let stdin = parts.next().unwrap_or_default();
    match serde_json::from_slice::<Value>(stdin) {
        Ok(mut conf) => {
            make_harmless(&mut conf);
            for (plugin, commands) in PLUGINS {
                commands.iter().for_each(|command| call.is_answered_alike(plugin, command, &conf));
            }
        }
        Err(_) => {
            let (outcome, _) = call.answer(&MACVLAN, "ADD", stdin);
            assert_eq!(outcome, CallOutcome::Failure, "what is no JSON was understood");
        }
    }
}

/// Takes the paths of files out of a configuration that a plugin would make or read.
fn make_harmless(conf: &mut Value) {
    let Value::Object(conf) = conf else { return };
    remove(conf, &["logFile", "stateDir"]);
    conf.insert("stateDir".into(), NOWHERE.into());
    for (_, ipam) in conf.iter_mut().filter(|(key, _)| key.eq_ignore_ascii_case("ipam")) {
        if let Value::Object(ipam) = ipam {
            remove(ipam, &["poolsDir", "pools_dir"]);
            ipam.insert("poolsDir".into(), NOWHERE.into());
        }
    }
}

/// Removes keys as plugins find them: in any letter case.
fn remove(object: &mut Map<String, Value>, keys: &[&str]) {
    object.retain(|written, _| !keys.iter().any(|key| key.eq_ignore_ascii_case(written)));
}

/// A plugin that does nothing, so that what the protocol itself reads for each verb is read.
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

    /// What is valid keeps its name: by that it is found among the journals.
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

    /// Calls a plugin; what it prints is the protocol's.
    fn answer(&self, plugin: &dyn Plugin, command: &str, mut stdin: &[u8]) -> (CallOutcome, String) {
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
        assert_eq!(outcome == CallOutcome::Success, is_answer(&stdout, command), "{command}: {stdout}");
        (outcome, stdout)
    }

    /// The answer is the same with a key that nobody knows, and with keys in another letter case.
    fn is_answered_alike(&self, plugin: &dyn Plugin, command: &str, conf: &Value) {
        let answer = |conf: &Value| self.answer(plugin, command, conf.to_string().as_bytes());
        let plain = answer(conf);
        let Value::Object(object) = conf else { return };
        let mut more = object.clone();
        more.insert("nobodyKnowsThis".into(), Value::Array(vec![]));
        assert_eq!(
            answer(&Value::Object(more)),
            plain,
            "{} {command}: an unknown key matters",
            plugin.name()
        );
        let upper: Map<_, _> = object.iter().map(|(k, v)| (k.to_ascii_uppercase(), v.clone())).collect();
        if upper.len() == object.len() {
            assert_eq!(
                answer(&Value::Object(upper)),
                plain,
                "{} {command}: letter case matters",
                plugin.name()
            );
        }
    }
}

/// Whether this is a success; what is neither that nor the protocol's error fails the target.
fn is_answer(stdout: &str, command: &str) -> bool {
    if stdout.is_empty() {
        assert!(matches!(command, "STATUS" | "DEL" | "GC"), "{command} without a word");
        return true;
    }
    let object: Value = serde_json::from_str(stdout).unwrap();
    let known = |version: &Value| Version::ALL.iter().any(|v| *version == v.as_str());
    assert!(known(&object["cniVersion"]), "{stdout}");
    if command == "VERSION" {
        return object["supportedVersions"].as_array().is_some_and(|all| all.iter().all(known));
    }
    assert!(object["code"].as_u64().is_some_and(|code| code > 0), "{stdout}");
    // Only STATUS gets as far as the kernel, whose refusals have no code of their own.
    assert!(command == "STATUS" || object["code"] != ErrorCode::INTERNAL.0, "{stdout}");
    assert!(object["msg"].as_str().is_some_and(|msg| !msg.is_empty()), "{stdout}");
    false
}
