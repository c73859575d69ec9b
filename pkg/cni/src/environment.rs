//! The environment variables of the protocol.

use std::{ffi::OsString, path::PathBuf};

use identifiers::{ContainerId, InvalidLinkName, LinkName};

use crate::{CniArgs, Error, ErrorCode, Operation};

/// The parsed environment. The variables that the operation requires are `Some`.
#[derive(Debug, Default)]
pub(crate) struct CallEnvironment {
    /// `None` if `CNI_COMMAND` is unknown, which is reported only after the configuration was read.
    pub(crate) operation: Option<Operation>,
    pub(crate) command: String,
    pub(crate) container_id: Option<ContainerId>,
    pub(crate) netns: Option<PathBuf>,
    pub(crate) ifname: Option<LinkName>,
    pub(crate) args: String,
    pub(crate) path: Vec<PathBuf>,
    pub(crate) netns_override: bool,
}

/// A variable, the operations that require it, and the function that checks and stores its value.
struct Variable {
    name: &'static str,
    required: &'static [Operation],
    set: fn(&mut CallEnvironment, String) -> Result<(), Error>,
}

/// The variables in the order in which they are checked. The first invalid value is an error; missing variables are
/// collected and reported together.
const TABLE: [Variable; 5] = [
    Variable {
        name: "CNI_CONTAINERID",
        required: &[Operation::Add, Operation::Check, Operation::Del],
        set: container_id,
    },
    Variable { name: "CNI_NETNS", required: &[Operation::Add, Operation::Check], set: netns },
    Variable {
        name: "CNI_IFNAME",
        required: &[Operation::Add, Operation::Check, Operation::Del],
        set: ifname,
    },
    Variable { name: "CNI_ARGS", required: &[], set: args },
    Variable {
        name: "CNI_PATH",
        required: &[Operation::Add, Operation::Check, Operation::Del, Operation::Gc, Operation::Status],
        set: path,
    },
];

impl CallEnvironment {
    /// Reads the environment. `variable` returns the value of a variable.
    ///
    /// # Errors
    /// [`ErrorCode::INVALID_ENVIRONMENT`] with the missing variables or the first invalid one.
    pub(crate) fn read(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let text = |name: &str| -> Result<Option<String>, Error> {
            let Some(value) = variable(name).filter(|value| !value.is_empty()) else { return Ok(None) };
            value
                .into_string()
                .map(Some)
                .map_err(|value| invalid(format!("{name} is not UTF-8: {value:?}"), ""))
        };
        let mut environment = Self { command: text("CNI_COMMAND")?.unwrap_or_default(), ..Self::default() };
        let mut missing = Vec::new();
        if environment.command.is_empty() {
            missing.push("CNI_COMMAND");
        }
        environment.operation = Operation::from_command(&environment.command);
        for Variable { name, required, set } in TABLE {
            let is_required = environment.operation.is_some_and(|operation| required.contains(&operation));
            match text(name)? {
                // A variable that is not required is ignored, except these: DEL has an optional CNI_NETNS.
                Some(value) if is_required || matches!(name, "CNI_NETNS" | "CNI_ARGS" | "CNI_PATH") => {
                    set(&mut environment, value)?;
                }
                None if is_required => missing.push(name),
                _ => {}
            }
        }
        if !missing.is_empty() {
            return Err(invalid(format!("required env variables [{}] missing", missing.join(",")), ""));
        }
        let same_netns = text("CNI_NETNS_OVERRIDE")?.unwrap_or_default();
        environment.netns_override = same_netns == "1" || same_netns.eq_ignore_ascii_case("true");
        Ok(environment)
    }

    /// Parses and checks `CNI_ARGS`.
    pub(crate) fn args(&self) -> Result<CniArgs, Error> {
        CniArgs::parse(&self.args)
    }
}

fn container_id(environment: &mut CallEnvironment, value: String) -> Result<(), Error> {
    let id = value.parse().map_err(|_| match value.len() {
        ..=ContainerId::MAX => invalid("invalid characters in containerID", &value),
        _ => invalid(format!("containerID is longer than {} bytes", ContainerId::MAX), &value),
    })?;
    environment.container_id = Some(id);
    Ok(())
}

fn netns(environment: &mut CallEnvironment, value: String) -> Result<(), Error> {
    environment.netns = Some(value.into());
    Ok(())
}

fn ifname(environment: &mut CallEnvironment, value: String) -> Result<(), Error> {
    let name = value.parse().map_err(|why| match why {
        InvalidLinkName::TooLong | InvalidLinkName::TooLongForAltname => {
            invalid("interface name is too long", "interface name should be less than 16 characters")
        }
        InvalidLinkName::Dots => invalid("interface name is . or ..", ""),
        InvalidLinkName::Empty => invalid("interface name is empty", ""),
        InvalidLinkName::Character => {
            invalid("interface name contains / or : or whitespace characters", &value)
        }
        InvalidLinkName::Unprintable => {
            invalid("interface name contains control characters", &value.escape_debug().to_string())
        }
    })?;
    // The kernel replaces %d in the name of a new link by a number (dev_alloc_name).
    if value.contains('%') {
        return Err(invalid("interface name contains %", &value));
    }
    environment.ifname = Some(name);
    Ok(())
}

fn args(environment: &mut CallEnvironment, value: String) -> Result<(), Error> {
    environment.args = value;
    Ok(())
}

fn path(environment: &mut CallEnvironment, value: String) -> Result<(), Error> {
    environment.path = value.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect();
    Ok(())
}

fn invalid(msg: impl Into<String>, details: &str) -> Error {
    Error::new(ErrorCode::INVALID_ENVIRONMENT, msg).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_requires_its_variables() {
        for (command, required) in [
            ("ADD", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
            ("CHECK", "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH"),
            ("DEL", "CNI_CONTAINERID,CNI_IFNAME,CNI_PATH"),
            ("GC", "CNI_PATH"),
            ("STATUS", "CNI_PATH"),
            ("VERSION", ""),
        ] {
            let read = CallEnvironment::read(&|name| (name == "CNI_COMMAND").then(|| command.into()));
            let missing = read.err().map_or(String::new(), |error| error.msg);
            let expected = format!("required env variables [{required}] missing");
            assert_eq!(missing, if required.is_empty() { String::new() } else { expected }, "{command}");
        }
    }

    fn read(variables: &[(&str, &str)]) -> Result<CallEnvironment, Error> {
        let value =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        CallEnvironment::read(&value)
    }

    #[test]
    fn a_variable_that_the_operation_does_not_require_is_ignored_unless_it_has_a_use() {
        let gc = read(&[
            ("CNI_COMMAND", "GC"),
            ("CNI_PATH", ":/a::/b:"),
            ("CNI_CONTAINERID", "/"),
            ("CNI_IFNAME", "/"),
        ]);
        let gc = gc.unwrap();
        assert_eq!(gc.path, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert!(gc.container_id.is_none() && gc.ifname.is_none());
        let attachment =
            [("CNI_COMMAND", "DEL"), ("CNI_PATH", "/a"), ("CNI_CONTAINERID", "c"), ("CNI_IFNAME", "net1")];
        for (netns, expected) in [("/run/netns/pod", Some(PathBuf::from("/run/netns/pod"))), ("", None)] {
            let del =
                read(&[&attachment[..], &[("CNI_NETNS", netns), ("CNI_ARGS", "A=B")]].concat()).unwrap();
            assert_eq!((del.netns, del.args.as_str()), (expected, "A=B"));
        }
        for (text, expected) in
            [("1", true), ("true", true), ("TRUE", true), ("0", false), ("false", false), ("", false)]
        {
            let call = read(&[&attachment[..], &[("CNI_NETNS_OVERRIDE", text)]].concat()).unwrap();
            assert_eq!(call.netns_override, expected, "{text}");
        }
    }
}
