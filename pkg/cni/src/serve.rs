//! One call, from the environment to the last byte of standard output.

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

/// Where a call's input comes from and its output goes to.
pub struct CallIo<'a> {
    /// The environment.
    pub environment: &'a dyn Fn(&str) -> Option<OsString>,
    /// The configuration.
    pub stdin: &'a mut dyn Read,
    /// The result, or the error: exactly one JSON object.
    pub stdout: &'a mut dyn Write,
    /// For people.
    pub stderr: &'a mut dyn Write,
}

impl std::fmt::Debug for CallIo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Streams")
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

/// Serves one call to `plugin`.
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
            let _ = writeln!(stderr, "{}: standard output: {e}", plugin.name());
            CallOutcome::Failure
        }
    }
}

/// What to print; `version` becomes the configuration's as soon as it is known.
fn call(
    plugin: &dyn Plugin,
    variable: &dyn Fn(&str) -> Option<OsString>,
    stdin: &mut dyn Read,
    version: &mut Version,
) -> Result<String, Error> {
    let environment = CallEnvironment::read(variable)?;
    if environment.verb == Some(Operation::Version) {
        return Ok(versions());
    }
    let mut input = Vec::with_capacity(4096); // most configurations in one read
    stdin
        .read_to_end(&mut input)
        .map_err(|e| Error::new(ErrorCode::IO, format!("error reading from stdin: {e}")))?;
    let object = NetConf::object(&input)?;
    let name = NetConf::name_of(&object)?;
    let Some(verb) = environment.verb else {
        return Err(unknown_command(&environment.command));
    };
    let written = ConfObject::new(&object, "").text("cniVersion")?.unwrap_or_default().to_owned();
    refuse_too_old(verb, &written)?;
    *version = Version::from_conf(&written)?;
    let conf = NetConf::new(object, name, *version);
    dispatch(plugin, verb, environment, conf, &input)
}

fn dispatch(
    plugin: &dyn Plugin,
    verb: Operation,
    environment: CallEnvironment,
    conf: NetConf,
    stdin: &[u8],
) -> Result<String, Error> {
    let version = conf.version;
    // DEL must work whatever the runtime says about the container: it reads what it can.
    let args = match verb {
        Operation::Del => environment.args().unwrap_or_else(|_| CniArgs::unread(&environment.args)),
        _ => environment.args()?,
    };
    let CallEnvironment { container_id, netns, ifname, path, netns_override, .. } = environment;
    let common = CallContext { conf, args, cni_path: path, stdin };
    let attachment =
        container_id.zip(ifname).map(|(container_id, ifname)| Attachment { container_id, ifname });
    match (verb, attachment, netns) {
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
        // The environment's table requires them.
        (Operation::Add | Operation::Del | Operation::Check, ..) => Err(unknown_command(verb.as_str())),
    }
}

fn versions() -> String {
    let supported = Version::ALL.map(Version::as_str);
    format!("{}\n", json!({"cniVersion": Version::LATEST.as_str(), "supportedVersions": supported}))
}

fn unknown_command(command: &str) -> Error {
    Error::new(ErrorCode::INVALID_ENVIRONMENT, format!("unknown CNI_COMMAND: {command}"))
}

/// CHECK came with 0.4.0, GC and STATUS with 1.1.0.
fn refuse_too_old(verb: Operation, written: &str) -> Result<(), Error> {
    let minimum = match verb {
        Operation::Check => Version::V0_4_0,
        Operation::Gc | Operation::Status => Version::V1_1_0,
        Operation::Add | Operation::Del | Operation::Version => return Ok(()),
    };
    if at_least(written, minimum)? {
        return Ok(());
    }
    let msg = format!("config version does not allow {}", verb.as_str());
    let details = format!("cniVersion is {written:?}, {} needs {minimum} or later", verb.as_str());
    Err(Error::new(ErrorCode::INCOMPATIBLE_VERSION, msg).with_details(details))
}

/// The keys of GC's list: the specification's, and a misnamed one under which libcni sent the same for a while.
const VALID: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// GC's list. An absent list must never be read as an empty one, which would take everything back; `null` is what Go
/// writes for an empty one. What either key lists is valid.
fn valid_attachments(fields: &ConfObject<'_>) -> Result<Vec<Attachment>, Error> {
    if !VALID.iter().any(|key| fields.has(key)) {
        let msg = format!("{}: expected a list of what is still valid, found none", VALID[0]);
        return Err(
            Error::config(msg).with_details("[] or null would mean that nothing is; nothing was taken back")
        );
    }
    let mut valid = Vec::new();
    for key in VALID {
        for item in fields.list(key)? {
            valid.push(
                attachment(item)
                    .ok_or_else(|| fields.wrong(key, "objects with containerID and ifname", item))?,
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
