//! The log line of each call: what was requested, its outcome, and how long each of its steps took.

use std::time::Instant;

use cni::{CallContext, Error};
use journal::Milliseconds;
use tracing::{debug, error, info};

use crate::Node;

/// A call that is being measured.
#[derive(Debug)]
pub(crate) struct CallLog {
    verb: &'static str,
    device: String,
    began: Instant,
}

impl CallLog {
    /// Begins the measurement of a call.
    pub(crate) fn begin(verb: &'static str, common: &CallContext<'_>) -> Self {
        let fields = common.conf.fields();
        let text = |key| fields.text(key).ok().flatten();
        let device = text("deviceID").or_else(|| text("master")).unwrap_or_default().to_owned();
        Self { verb, device, began: Instant::now() }
    }

    /// Logs the call: at level `error` if it failed, at `debug` if it was a STATUS, which runtimes call all the time, else at
    /// `info`.
    pub(crate) fn end(self, node: &Node, done: Result<(), Error>) -> Result<(), Error> {
        let Self { verb, device, began } = self;
        let (took, mut steps) = (began.elapsed(), node.steps());
        steps.push("other", took.saturating_sub(steps.total()));
        let duration = Milliseconds(took);
        match &done {
            Err(why) => {
                error!(%device, %duration, %steps, code = why.code.0, error = why.msg, details = why.details, "{verb} failed");
            }
            Ok(_) if verb == "STATUS" => debug!(%duration, "{verb}"),
            Ok(_) => info!(%device, %duration, %steps, "{verb}"),
        }
        done
    }
}
