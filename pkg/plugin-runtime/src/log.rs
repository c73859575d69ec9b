//! Logging: one line of `key=value` pairs for each event, to standard error or the configuration's `logFile`.
//!
//! Runtimes discard standard error when a call fails, so everything important is also in the error object.

use std::{
    fmt::{self, Write as _},
    fs::File,
    io::{self, Write as _},
    path::{Component, Path},
    sync::Mutex,
};

use cni::{CallContext, Error};
use identifiers::Attachment;
use rustix::fs::{Mode, OFlags};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span, warn,
};

/// Where and at which level to log. It is read from the configuration, after logging has started.
struct LogSettings {
    plugin: &'static str,
    level: Level,
    file: Option<File>,
    context: String,
    /// Whether a call's configuration has set the others.
    configured: bool,
}

static SETTINGS: Mutex<LogSettings> = Mutex::new(LogSettings {
    plugin: "",
    level: Level::INFO,
    file: None,
    context: String::new(),
    configured: false,
});

/// Starts logging at level `info` to standard error.
pub(crate) fn start(plugin: &'static str) {
    change(|settings| settings.plugin = plugin);
    let _ = tracing::subscriber::set_global_default(LogSubscriber);
}

/// Sets level and file from a call's configuration, and `context` for all further lines. Only the first call of a
/// process has an effect: calls of the IPAM plugin, or for a former attachment, are part of it. Returns whether this is the
/// first.
///
/// # Errors
/// If `logFile` is not an absolute path. An unknown level counts as `info`, as in the Go plugins.
pub fn configure(common: &CallContext<'_>, context: String) -> Result<bool, Error> {
    if is_configured() {
        return Ok(false);
    }
    let fields = common.conf.fields();
    let level = level(fields.text("logLevel")?, wants_debug(common));
    let file = match fields.text("logFile")? {
        Some(path) if is_below_logs(path) => open(path),
        Some(path) if path.starts_with('/') => {
            warn!(path, "logFile is not below {LOGS}: logging to standard error");
            None
        }
        Some(path) => return Err(fields.invalid("logFile", "an absolute path", format!("{path:?}"))),
        None => None,
    };
    set(level, file, context);
    Ok(true)
}

/// As [`configure`], but to standard error, because the policy does not allow the file. Returns that this is the first call.
pub(crate) fn configure_without_file(common: &CallContext<'_>, context: String, why: &Error) -> bool {
    let level = level(common.conf.fields().text("logLevel").ok().flatten(), wants_debug(common));
    set(level, None, context);
    warn!(why = why.msg, "not opening logFile: logging to standard error");
    true
}

fn set(level: Level, file: Option<File>, context: String) {
    change(|settings| {
        settings.level = level;
        settings.file = file;
        settings.context = context;
        settings.configured = true;
    });
}

/// Whether a call has begun: further ones are part of it.
pub(crate) fn is_configured() -> bool {
    SETTINGS.lock().is_ok_and(|settings| settings.configured)
}

/// Returns the level of a `logLevel`, or else of the argument that came before it.
fn level(text: Option<&str>, wants_debug: bool) -> Level {
    match text.map(str::to_ascii_lowercase).as_deref() {
        None if wants_debug => Level::DEBUG,
        Some("panic" | "error") => Level::ERROR,
        Some("warning" | "warn") => Level::WARN,
        Some("debug") => Level::DEBUG,
        _ => Level::INFO,
    }
}

/// Whether `args.cni.debug` is set, which the Go rdma plugin used before `logLevel`.
fn wants_debug(common: &CallContext<'_>) -> bool {
    let args = common.conf.fields().object("args").ok().flatten();
    let cni = args.and_then(|args| args.object("cni").ok().flatten());
    cni.and_then(|cni| cni.flag("debug").ok().flatten()).unwrap_or(false)
}

/// The directory of log files. Users who write network configurations need not be root, and a line appended to a system
/// file could make them root.
const LOGS: &str = "/var/log/";

fn is_below_logs(path: &str) -> bool {
    let below = path.strip_prefix(LOGS).map(Path::new);
    below.is_some_and(|below| below.components().all(|part| matches!(part, Component::Normal(_))))
}

/// Opens a log file, which must be a regular file, without following symbolic links. Programs without root privileges and
/// pods that collect logs have directories below `/var/log`, so each component of the path is opened on its own.
fn open(path: &str) -> Option<File> {
    let path = Path::new(path);
    let mut dir = rustix::fs::open(path.components().next()?.as_os_str(), WALK, Mode::empty()).ok()?;
    for part in path.parent()?.components().skip(1) {
        dir = rustix::fs::openat(&dir, part.as_os_str(), WALK, Mode::empty()).ok()?;
    }
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY | NO_LINK;
    let file: File = rustix::fs::openat(&dir, path.file_name()?, flags, Mode::RUSR | Mode::WUSR).ok()?.into();
    file.metadata().is_ok_and(|meta| meta.is_file()).then_some(file)
}

const NO_LINK: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);
const WALK: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(NO_LINK);

fn change(change: impl FnOnce(&mut LogSettings)) {
    if let Ok(mut settings) = SETTINGS.lock() {
        change(&mut settings);
    }
}

struct LogSubscriber;

impl Subscriber for LogSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        SETTINGS.lock().is_ok_and(|settings| *metadata.level() <= settings.level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LogLine::default();
        event.record(&mut line);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let time = utc::now();
        change(|LogSettings { plugin, file, context, .. }| {
            let LogLine { message, fields } = &line;
            let text =
                format!("time={time} level={level} msg={message:?} cniName={plugin}{context}{fields}\n");
            let _ = match file {
                Some(file) => file.write_all(text.as_bytes()),
                None => io::stderr().write_all(text.as_bytes()),
            };
        });
    }

    // Only events are logged, no spans.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// An event's message and its other fields.
#[derive(Default)]
struct LogLine {
    message: String,
    fields: String,
}

impl Visit for LogLine {
    /// Writes a text once quoted. `record_debug` would get it with quotes, and quote it again.
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={:?}", format!("{value:?}")),
        };
    }
}

/// Returns the fields that every line of a call for an attachment has.
pub fn about(common: &CallContext<'_>, attachment: &Attachment, netns: Option<&Path>) -> String {
    let Attachment { container_id, ifname } = attachment;
    let mut text =
        format!(" containerID={container_id} netns={:?} ifname={ifname}", netns.unwrap_or(Path::new("")));
    let args = |key| common.args.get(key);
    if let (Some(namespace), Some(name)) = (args("K8S_POD_NAMESPACE"), args("K8S_POD_NAME")) {
        let _ = write!(text, " pod={:?}", format!("{namespace}/{name}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_that_of_the_configuration_or_of_the_argument_debug() {
        for (text, wants_debug, expected) in [
            (None, false, Level::INFO),
            (None, true, Level::DEBUG),
            (Some("panic"), true, Level::ERROR),
            (Some("ERROR"), false, Level::ERROR),
            (Some("warn"), false, Level::WARN),
            (Some("Warning"), true, Level::WARN),
            (Some("info"), true, Level::INFO),
            (Some("debug"), false, Level::DEBUG),
            (Some("verbose"), false, Level::INFO),
        ] {
            assert_eq!(level(text, wants_debug), expected, "{text:?}");
        }
    }

    #[test]
    fn only_a_plain_path_below_the_log_directory_is_a_log_file() {
        for (path, expected) in [
            ("/var/log/a", true),
            ("/var/log/silkrail/a.log", true),
            ("/var/log/../../etc/passwd", false),
            ("/var/log//etc/passwd", false),
            ("/var/logs/a", false),
            ("/etc/var/log/a", false),
            ("var/log/a", false),
        ] {
            assert_eq!(is_below_logs(path), expected, "{path}");
        }
    }
}
