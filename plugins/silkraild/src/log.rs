//! The log on standard error: its level and its format.

use std::{
    fmt,
    io::{self, IsTerminal},
};

use clap::ValueEnum;
use serde_json::Value;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// The options of the log, named as those of Prometheus exporters.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct LogArgs {
    /// Log messages of this level and of more severe ones
    #[arg(long = "log.level", default_value = "info", value_name = "LEVEL", global = true)]
    level: LogLevel,
    /// Format of the log; json has a line with time, level, msg and the values of each message
    #[arg(long = "log.format", default_value = "text", value_name = "FORMAT", global = true)]
    format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl LogArgs {
    /// Starts to log.
    pub(crate) fn start(self) {
        let level = match self.level {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        };
        let log = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(level);
        match self.format {
            LogFormat::Json => log.event_format(JsonLine).init(),
            // journald and the container runtime add their own time.
            LogFormat::Text => {
                log.with_ansi(io::stderr().is_terminal()).with_target(false).without_time().init();
            }
        }
    }

    /// Logs why the program ends.
    pub(crate) fn failure(self, what: &str) {
        match self.format {
            LogFormat::Json => tracing::error!("{what}"),
            LogFormat::Text => eprintln!("silkraild: {what}"),
        }
    }
}

/// A message as a JSON object, with the keys of Prometheus exporters.
struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut values = JsonValues { message: String::new(), others: String::new() };
        event.record(&mut values);
        let (level, message) = (event.metadata().level(), Value::from(values.message));
        writeln!(out, r#"{{"time":"{}","level":"{level}","msg":{message}{}}}"#, utc::now(), values.others)
    }
}

/// The values of a message.
struct JsonValues {
    message: String,
    others: String,
}

impl JsonValues {
    fn add(&mut self, field: &Field, value: Value) {
        self.others.push_str(&format!(",{}:{value}", Value::from(field.name())));
    }
}

impl Visit for JsonValues {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.add(field, format!("{value:?}").into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            _ => self.add(field, value.into()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}
