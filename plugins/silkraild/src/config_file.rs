//! `--config.file`: options in a file.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, parser::ValueSource};
use device_plugin::{ResourceFileError, ResourceFiles};
use serde_json::Value;
use webconfig::WebConfig;

use crate::cli::SilkraildCli;

/// Options that only the command line can have.
const COMMAND_LINE_ONLY: [&str; 7] =
    ["config.file", "config.check", "once", "frontend", "writer", "help", "version"];

/// Why there are no options.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionsError {
    /// Wrong usage, or a text that was asked for, such as the help.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Syntax { path: PathBuf, source: yaml::InvalidYaml },
    #[error("{}: expected one mapping of option names to values, such as `listen: 127.0.0.1:9879`", path.display())]
    NoMapping { path: PathBuf },
    #[error("{}: {key}: unknown key; expected one of {}", path.display(), keys().join(", "))]
    UnknownKey { path: PathBuf, key: String },
    #[error("{}: {key}: this option is for the command line only; remove it from the file", path.display())]
    CommandLineOnly { path: PathBuf, key: String },
    #[error("{}: {key}: {what}", path.display())]
    Value { path: PathBuf, key: String, what: String },
}

/// Why a file that an option names is not valid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Web(#[from] webconfig::Error),
    #[error(transparent)]
    Resources(#[from] ResourceFileError),
    #[error(transparent)]
    NodeName(#[from] crate::node_name::UnknownNodeName),
}

/// The options of the process.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) cli: SilkraildCli,
    /// The arguments that have the same result without the file.
    pub(crate) arguments: Vec<OsString>,
    matches: ArgMatches,
}

impl OptionsError {
    /// Prints it, and returns the exit status.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            // This ends the process with status 0 after the help, and otherwise 2.
            Self::Usage(error) => error.exit(),
            other => {
                eprintln!("silkraild: {other}");
                ExitCode::from(2)
            }
        }
    }
}

impl Options {
    /// Reads the command line, the environment and the file. The first argument is the name of the program.
    pub(crate) fn read(arguments: Vec<OsString>) -> Result<Self, OptionsError> {
        let matches = SilkraildCli::command().try_get_matches_from(&arguments)?;
        let cli = SilkraildCli::from_arg_matches(&matches)?;
        let mut arguments = arguments.into_iter();
        let program = arguments.next().unwrap_or_default();
        let arguments: Vec<_> = arguments.collect();
        let path = match &cli.config_file {
            // The frontend and the writer have the arguments that their reader has found.
            Some(path) if cli.command.is_none() && !cli.frontend && !cli.writer => path,
            _ => return Ok(Self { cli, arguments, matches }),
        };
        let mut all = of_file(path, &matches)?;
        all.extend(arguments);
        let matches = SilkraildCli::command().try_get_matches_from([&[program][..], &all].concat())?;
        Ok(Self { cli: SilkraildCli::from_arg_matches(&matches)?, arguments: all, matches })
    }

    /// Checks the files that options name, and returns all options as a configuration file.
    pub(crate) fn checked(&self) -> Result<String, CheckError> {
        let node = self.cli.settings()?.node;
        if let Some(path) = &self.cli.web {
            WebConfig::load(path)?;
        }
        let names = self.cli.resource_names(&node);
        let resources = ResourceFiles::read(&self.cli.device_plugin, names)?;
        let findings = resources.findings.iter().map(|finding| format!("# {finding}\n"));
        let lines = options(&SilkraildCli::command()).into_iter().filter_map(|option| self.line(&option));
        Ok(findings.chain(lines).collect())
    }

    fn line(&self, option: &Arg) -> Option<String> {
        let (key, id) = (option.get_long()?, option.get_id().as_str());
        let values = self.matches.get_raw(id)?.map(|value| scalar(&value.to_string_lossy()));
        let values: Vec<_> = values.collect();
        let value = match option.get_action() {
            ArgAction::Append => format!("[{}]", values.join(", ")),
            _ => values.concat(),
        };
        Some(format!("{key}: {value}\n"))
    }
}

/// Returns the options that a file can have, in the order of the help.
fn options(command: &Command) -> Vec<Arg> {
    let has_key = |option: &&Arg| option.get_long().is_some_and(|name| !COMMAND_LINE_ONLY.contains(&name));
    command.get_arguments().filter(has_key).cloned().collect()
}

fn keys() -> Vec<String> {
    options(&SilkraildCli::command()).iter().filter_map(Arg::get_long).map(str::to_owned).collect()
}

/// Returns the arguments of a file, without those that the command line or the environment has.
fn of_file(path: &Path, given: &ArgMatches) -> Result<Vec<OsString>, OptionsError> {
    let text =
        fs::read_to_string(path).map_err(|source| OptionsError::Read { path: path.to_owned(), source })?;
    let documents =
        yaml::documents(&text).map_err(|source| OptionsError::Syntax { path: path.to_owned(), source })?;
    let keys = match &documents[..] {
        [] => return Ok(Vec::new()),
        [Value::Object(keys)] => keys,
        _ => return Err(OptionsError::NoMapping { path: path.to_owned() }),
    };
    let options = options(&SilkraildCli::command());
    let mut arguments = Vec::new();
    for (key, value) in keys {
        let (file, name) = (path.to_owned(), key.clone());
        if COMMAND_LINE_ONLY.contains(&&**key) {
            return Err(OptionsError::CommandLineOnly { path: file, key: name });
        }
        let Some(option) = options.iter().find(|option| option.get_long() == Some(key)) else {
            return Err(OptionsError::UnknownKey { path: file, key: name });
        };
        let of_key = of_option(option, key, value).map_err(|what| OptionsError::Value {
            path: file,
            key: name,
            what,
        })?;
        let source = given.value_source(option.get_id().as_str());
        if !matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            arguments.extend(of_key);
        }
    }
    Ok(arguments)
}

/// Returns the arguments for a key, which are valid.
fn of_option(option: &Arg, key: &str, value: &Value) -> Result<Vec<OsString>, String> {
    let argument = |value: &Value| match value {
        Value::String(text) => Ok(format!("--{key}={text}").into()),
        Value::Bool(_) | Value::Number(_) => Ok(format!("--{key}={value}").into()),
        _ => Err("expected a text or a number".to_owned()),
    };
    let arguments: Vec<OsString> = match (option.get_action(), value) {
        (ArgAction::SetTrue, Value::Bool(true)) => vec![format!("--{key}").into()],
        (ArgAction::SetTrue, Value::Bool(false)) => Vec::new(),
        (ArgAction::SetTrue, _) => return Err("expected true or false".into()),
        (ArgAction::Append, Value::Array(values)) => values.iter().map(argument).collect::<Result<_, _>>()?,
        (ArgAction::Append, _) => return Err("expected a list".into()),
        _ => vec![argument(value)?],
    };
    let alone = ["silkraild".into()].into_iter().chain(arguments.iter().cloned());
    match SilkraildCli::command().try_get_matches_from(alone.collect::<Vec<OsString>>()) {
        Ok(_) => Ok(arguments),
        Err(error) => Err(first_paragraph(&error.to_string())),
    }
}

/// Returns the message of an error of the command line, without advice about the usage.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join("; ")
}

/// Returns a value in YAML, in quotation marks unless it is the same without.
fn scalar(text: &str) -> String {
    let is_same = match yaml::documents(text).as_deref() {
        Ok([Value::String(parsed)]) => parsed == text,
        Ok([parsed @ (Value::Number(_) | Value::Bool(_))]) => {
            let written = parsed.to_string();
            written == text
        }
        _ => false,
    };
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_./:-".contains(c));
    if is_same && is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn read(text: &str, more: &[&str]) -> Result<Options, String> {
        let file = file(text);
        let path = file.path().to_str().unwrap().to_owned();
        let arguments = [&["silkraild", "--node-name=n", "--config.file", &path], more].concat();
        let read = Options::read(arguments.into_iter().map(OsString::from).collect());
        read.map_err(|error| error.to_string().replace(&path, "FILE"))
    }

    #[test]
    fn the_file_has_options_and_the_command_line_priority() {
        let text = "listen: 127.0.0.1:1\nhealth.listen: 127.0.0.1:2\ndevice-exclude: ['a*', b]\nweb.token-review: true\n\
                    psn-interval: 0.5\nlog.level: warn\n";
        let options = read(text, &["--listen", "127.0.0.1:3", "--device-exclude=c"]).unwrap();
        assert_eq!(options.cli.listen.port(), 3);
        assert_eq!(options.cli.health.port(), 2);
        assert!(options.cli.token_review);
        let settings = options.cli.settings().unwrap();
        assert_eq!(settings.devices.exclude, ["c"]);
        assert_eq!(settings.psn_interval.as_millis(), 500);
        let settings = read(text, &[]).unwrap().cli.settings().unwrap();
        assert_eq!(settings.devices.exclude, ["a*", "b"]);
        assert_eq!(read("", &[]).unwrap().cli.listen.port(), 9879);
    }

    #[test]
    fn the_frontend_gets_the_options_and_does_not_read_the_file() {
        let options = read("listen: 127.0.0.1:1\n", &["--health.listen=127.0.0.1:2"]).unwrap();
        // The file is gone now.
        let arguments = ["silkraild", "--frontend"].into_iter().map(OsString::from);
        let frontend = Options::read(arguments.chain(options.arguments).collect()).unwrap();
        assert_eq!((frontend.cli.listen.port(), frontend.cli.health.port()), (1, 2));
    }

    #[test]
    fn an_invalid_file_is_refused_with_its_key() {
        let cases = [
            (
                "lisen: x",
                "FILE: lisen: unknown key; expected one of log.level, log.format, listen, health.listen,",
            ),
            ("once: true", "FILE: once: this option is for the command line only"),
            ("config.file: x", "FILE: config.file: this option is for the command line only"),
            ("listen: nonsense", "FILE: listen: invalid value 'nonsense' for '--listen <ADDRESS:PORT>'"),
            ("listen: [127.0.0.1:1]", "FILE: listen: expected a text or a number"),
            ("listen:", "FILE: listen: expected a text or a number"),
            ("enable: psn", "FILE: enable: expected a list"),
            ("enable: [infiniband]", "FILE: enable: invalid value 'infiniband'"),
            ("web.token-review: 1", "FILE: web.token-review: expected true or false"),
            (
                "kubernetes: never",
                "FILE: kubernetes: invalid value 'never' for '--kubernetes <MODE>'; [possible values",
            ),
            ("- listen", "FILE: expected one mapping"),
            ("a: 1\n---\nb: 1", "FILE: expected one mapping"),
            ("a: [", "FILE: line "),
            ("listen: 127.0.0.1:1\nlisten: 127.0.0.1:2", "FILE: line 2: duplicate key"),
        ];
        for (text, expected) in cases {
            let error = read(text, &[]).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
        // A key that the command line overrides is checked, too.
        assert!(read("listen: nonsense", &["--listen=127.0.0.1:1"]).is_err());
        let missing = ["silkraild", "--config.file=/nonexistent/file"].map(OsString::from);
        let error = Options::read(missing.into()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the configuration file /nonexistent/file"), "{error}");
    }

    #[test]
    fn the_checked_options_are_a_file_with_the_same_options() {
        let text = "listen: '[::1]:1'\nmetric-exclude: ['rdma_*', 'a: b', \"x'y\\\\\", '7']\ndevice-plugin.management: true\n";
        let checked = read(text, &[]).unwrap().checked().unwrap();
        for line in [
            "listen: \"[::1]:1\"\n",
            "metric-exclude: [\"rdma_*\", \"a: b\", \"x'y\\\\\", 7]\n",
            "device-plugin.management: true\n",
            "web.token-review: false\n",
            "node-name: n\n",
            "psn-interval: 1\n",
        ] {
            assert!(checked.contains(line), "{line}{checked}");
        }
        assert_eq!(read(&checked, &[]).unwrap().checked().unwrap(), checked);
    }

    #[test]
    fn the_check_reads_the_files_that_options_name() {
        let web = file("tls_server_config: {cert_file: missing, key_file: missing}\n");
        let text = format!("web.config.file: {}\n", web.path().display());
        assert!(matches!(read(&text, &[]).unwrap().checked(), Err(CheckError::Web(_))));
        let resources = file("not a file with resources");
        let text = format!("device-plugin: [{}]\n", resources.path().display());
        assert!(matches!(read(&text, &[]).unwrap().checked(), Err(CheckError::Resources(_))));
    }
}
