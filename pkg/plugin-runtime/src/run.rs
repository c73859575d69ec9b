//! Serving the one CNI call of a process.

use std::{
    env,
    io::{self, Write},
    panic,
    process::ExitCode,
};

use cni::{
    AddRequest, AddResult, CallIo, CallOutcome, CheckRequest, DelRequest, Error, ErrorCode, GcRequest,
    Operation, Plugin, StatusRequest, Version,
};

use crate::{Budget, log};

/// Serves the call that the process was started for, and returns its exit code.
pub fn run(plugin: &dyn Plugin) -> ExitCode {
    let command = env::var("CNI_COMMAND").unwrap_or_default();
    // An unknown command fails at once.
    let budget = Budget::begin(Operation::from_command(&command).unwrap_or(Operation::Version));
    panic::set_hook(Box::new(report_panic));
    log::start(plugin.name());
    let streams = CallIo {
        environment: &|name| env::var_os(name),
        stdin: &mut io::stdin(),
        stdout: &mut io::stdout(),
        stderr: &mut io::stderr(),
    };
    match cni::serve(&BudgetedPlugin { plugin, budget }, streams) {
        CallOutcome::Success => ExitCode::SUCCESS,
        CallOutcome::Failure => ExitCode::FAILURE,
    }
}

/// A plugin whose errors list the waits of the call if its budget was used up.
struct BudgetedPlugin<'a> {
    plugin: &'a dyn Plugin,
    budget: Budget,
}

impl Plugin for BudgetedPlugin<'_> {
    fn name(&self) -> &'static str {
        self.plugin.name()
    }

    fn about(&self) -> Option<String> {
        self.plugin.about()
    }

    fn add(&self, request: &AddRequest<'_>) -> Result<AddResult, Error> {
        self.plugin.add(request).map_err(|error| self.budget.explain(error))
    }

    fn del(&self, request: &DelRequest<'_>) -> Result<(), Error> {
        self.plugin.del(request).map_err(|error| self.budget.explain(error))
    }

    fn check(&self, request: &CheckRequest<'_>) -> Result<(), Error> {
        self.plugin.check(request).map_err(|error| self.budget.explain(error))
    }

    fn gc(&self, request: &GcRequest<'_>) -> Result<(), Error> {
        self.plugin.gc(request).map_err(|error| self.budget.explain(error))
    }

    fn status(&self, request: &StatusRequest<'_>) -> Result<(), Error> {
        self.plugin.status(request).map_err(|error| self.budget.explain(error))
    }
}

/// Reports a panic, which is a bug, as a CNI error object. DEL still has the journal.
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
        Error::new(ErrorCode::INTERNAL, format!("bug in silkrail at {place}: {}", what.unwrap_or("panic")));
    let mut stdout = io::stdout();
    let _ = stdout.write_all(error.to_json(Version::LATEST).as_bytes()).and_then(|()| stdout.flush());
    std::process::exit(1);
}
