//! Serves one call: reads the environment and the configuration, calls the plugin and writes the result.

use std::{
    ffi::OsString,
    io::{Read, Write},
};

use identifiers::Attachment;
use serde_json::{Value, json};

use crate::{
    AttachmentRequest, CallContext, CniArgs, ConfObject, Error, ErrorCode, GcRequest, NetConf, Operation,
    Plugin, StatusRequest, Version, environment::CallEnvironment, version::at_least,
};

/// The inputs and outputs of a call.
pub struct CallIo<'a> {
    /// Returns the value of an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<OsString>,
    /// The network configuration, as JSON.
    pub stdin: &'a mut dyn Read,
    /// The result or the error: exactly one JSON object.
    pub stdout: &'a mut dyn Write,
    /// The log and the text of [`Plugin::about`].
    pub stderr: &'a mut dyn Write,
}

impl std::fmt::Debug for CallIo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallIo")
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// Exit code 0.
    Success,
    /// Exit code 1; the error object is on standard output.
    Failure,
}

/// Serves one call: reads the inputs, calls `plugin` and writes its result or error.
pub fn serve(plugin: &dyn Plugin, streams: CallIo<'_>) -> CallOutcome {
    let CallIo { environment, stdin, stdout, stderr } = streams;
    if environment("CNI_COMMAND").is_none_or(|command| command.is_empty())
        && let Some(about) = plugin.about()
    {
        let versions = Version::ALL.map(Version::as_str).join(", ");
        let _ = writeln!(stderr, "{about}\nCNI protocol versions supported: {versions}");
        return CallOutcome::Success;
    }
    let mut version = Version::LATEST;
    let (text, outcome) = match call(plugin, environment, stdin, &mut version) {
        Ok(text) => (text, CallOutcome::Success),
        Err(error) => (error.to_json(version), CallOutcome::Failure),
    };
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => outcome,
        Err(e) => {
            let _ = writeln!(stderr, "{}: cannot write to standard output: {e}", plugin.name());
            CallOutcome::Failure
        }
    }
}

/// Returns the text for standard output. Sets `version` to that of the configuration as soon as it is known.
fn call(
    plugin: &dyn Plugin,
    variable: &dyn Fn(&str) -> Option<OsString>,
    stdin: &mut dyn Read,
    version: &mut Version,
) -> Result<String, Error> {
    let environment = CallEnvironment::read(variable)?;
    if environment.operation == Some(Operation::Version) {
        return Ok(versions());
    }
    let mut input = Vec::with_capacity(4096); // most configurations in one read
    stdin
        .read_to_end(&mut input)
        .map_err(|e| Error::new(ErrorCode::IO, format!("error reading from stdin: {e}")))?;
    let object = NetConf::object(&input)?;
    let name = NetConf::name_of(&object)?;
    let Some(operation) = environment.operation else {
        return Err(unknown_command(&environment.command));
    };
    let written = ConfObject::new(&object, "").text("cniVersion")?.unwrap_or_default().to_owned();
    refuse_too_old(operation, &written)?;
    *version = Version::from_conf(&written)?;
    let conf = NetConf::new(object, name, *version);
    dispatch(plugin, operation, environment, conf, &input)
}

fn dispatch(
    plugin: &dyn Plugin,
    operation: Operation,
    environment: CallEnvironment,
    conf: NetConf,
    stdin: &[u8],
) -> Result<String, Error> {
    let version = conf.version;
    // DEL must succeed even if CNI_ARGS is malformed.
    let args = match operation {
        Operation::Del => environment.args().unwrap_or_else(|_| CniArgs::unread(&environment.args)),
        _ => environment.args()?,
    };
    let CallEnvironment { container_id, netns, ifname, path, netns_override, .. } = environment;
    let common = CallContext { conf, args, cni_path: path, stdin };
    let attachment =
        container_id.zip(ifname).map(|(container_id, ifname)| Attachment { container_id, ifname });
    match (operation, attachment, netns) {
        (Operation::Add, Some(attachment), Some(netns)) => plugin
            .add(&AttachmentRequest { attachment, netns, own_netns_allowed: netns_override, common })?
            .to_json(version),
        (Operation::Del, Some(attachment), netns) => plugin
            .del(&AttachmentRequest { attachment, netns, own_netns_allowed: netns_override, common })
            .map(|()| String::new()),
        (Operation::Check, Some(attachment), Some(netns)) => plugin
            .check(&AttachmentRequest { attachment, netns, own_netns_allowed: netns_override, common })
            .map(|()| String::new()),
        (Operation::Gc, ..) => {
            let valid = valid_attachments(&common.conf.fields())?;
            plugin.gc(&GcRequest { valid, common }).map(|()| String::new())
        }
        (Operation::Status, ..) => plugin.status(&StatusRequest { common }).map(|()| String::new()),
        (Operation::Version, ..) => Ok(versions()),
        // Not reached: `CallEnvironment::read` requires the attachment and the namespace.
        (Operation::Add | Operation::Del | Operation::Check, ..) => Err(unknown_command(operation.as_str())),
    }
}

fn versions() -> String {
    let supported = Version::ALL.map(Version::as_str);
    format!("{}\n", json!({"cniVersion": Version::LATEST.as_str(), "supportedVersions": supported}))
}

fn unknown_command(command: &str) -> Error {
    Error::new(ErrorCode::INVALID_ENVIRONMENT, format!("unknown CNI_COMMAND: {command}"))
}

/// Refuses an operation that the configuration's version does not have: CHECK needs 0.4.0, GC and STATUS 1.1.0.
fn refuse_too_old(operation: Operation, written: &str) -> Result<(), Error> {
    let minimum = match operation {
        Operation::Check => Version::V0_4_0,
        Operation::Gc | Operation::Status => Version::V1_1_0,
        Operation::Add | Operation::Del | Operation::Version => return Ok(()),
    };
    if at_least(written, minimum)? {
        return Ok(());
    }
    let msg = format!("config version does not allow {}", operation.as_str());
    let details = format!("cniVersion is {written:?}, {} needs {minimum} or later", operation.as_str());
    Err(Error::new(ErrorCode::INCOMPATIBLE_VERSION, msg).with_details(details))
}

/// The keys of GC's list: the one of the specification, and a wrong name for it that libcni also sent for a while.
const VALID: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// Returns the attachments that GC must keep: those that either key lists. `null` is Go's encoding of an empty list. A
/// missing list is an error, because an empty list removes every attachment of the network.
fn valid_attachments(fields: &ConfObject<'_>) -> Result<Vec<Attachment>, Error> {
    if !VALID.iter().any(|key| fields.has(key)) {
        let msg = format!("{}: expected a list of the valid attachments, found none", VALID[0]);
        return Err(Error::config(msg)
            .with_details("[] or null would mean that no attachment is valid; nothing was removed"));
    }
    let mut valid = Vec::new();
    for key in VALID {
        for item in fields.list(key)? {
            valid.push(
                attachment(item)
                    .ok_or_else(|| fields.invalid(key, "objects with containerID and ifname", item))?,
            );
        }
    }
    Ok(valid)
}

fn attachment(item: &Value) -> Option<Attachment> {
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    Some(Attachment {
        container_id: text("containerID")?.parse().ok()?,
        ifname: text("ifname")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_allowed_from_its_version_on() {
        for (operation, before, first) in [
            (Operation::Check, "0.3.9", "0.4.0"),
            (Operation::Gc, "1.0.9", "1.1.0"),
            (Operation::Status, "1.0.0", "1.1.0"),
            (Operation::Gc, "", "1.10.0"),
            (Operation::Check, "0.0.5", "10.0.0"),
        ] {
            let error = refuse_too_old(operation, before).unwrap_err();
            assert_eq!(error.code, ErrorCode::INCOMPATIBLE_VERSION, "{operation:?} {before}");
            refuse_too_old(operation, first).unwrap();
        }
        for operation in [Operation::Add, Operation::Del, Operation::Version] {
            refuse_too_old(operation, "").unwrap();
        }
    }

    #[test]
    fn gc_keeps_what_either_list_has() {
        let of = |conf: Value| {
            let valid = valid_attachments(&ConfObject::new(conf.as_object().unwrap(), ""))?;
            Ok::<_, Error>(valid.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let item = |id: &str| json!({"containerID": id, "ifname": "net1"});
        let both = json!({VALID[0]: [item("a"), item("b")], VALID[1]: [item("c")]});
        assert_eq!(of(both).unwrap(), ["a@net1", "b@net1", "c@net1"]);
        for key in VALID {
            assert_eq!(of(json!({key: [item("a")]})).unwrap(), ["a@net1"]);
            assert_eq!(of(json!({key: null})).unwrap(), [""; 0]);
            assert!(of(json!({key: [item("a"), {"containerID": "b"}]})).is_err());
        }
        assert!(of(json!({})).unwrap_err().msg.contains("found none"));
    }
}
