//! An executable's one call.

use std::{
    env,
    io::{self, Write},
    panic,
    process::ExitCode,
};

use cni::{Code, Error, Outcome, Plugin, Streams, Version};

use crate::log;

/// Serves the call the process was started for, and returns its exit code.
pub fn run(plugin: &dyn Plugin) -> ExitCode {
    panic::set_hook(Box::new(report_panic));
    log::start(plugin.name());
    let streams = Streams {
        environment: &|name| env::var_os(name),
        stdin: &mut io::stdin(),
        stdout: &mut io::stdout(),
        stderr: &mut io::stderr(),
    };
    match cni::serve(plugin, streams) {
        Outcome::Success => ExitCode::SUCCESS,
        Outcome::Failure => ExitCode::FAILURE,
    }
}

/// A panic is our bug. The runtime still gets its error object, and DEL the journal.
#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "nothing after a panic may print a second object"
)]
fn report_panic(info: &panic::PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let what = info.payload().downcast_ref::<&str>().copied();
    let what = what.or_else(|| info.payload().downcast_ref::<String>().map(String::as_str));
    let error =
        Error::new(Code::INTERNAL, format!("bug in silkrail at {place}: {}", what.unwrap_or("panic")));
    let mut stdout = io::stdout();
    let _ = stdout.write_all(error.to_json(Version::LATEST).as_bytes()).and_then(|()| stdout.flush());
    std::process::exit(1);
}
