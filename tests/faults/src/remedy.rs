//! The recovery after a fault.

use std::fmt;

use serde_json::json;
use testkit::{Answer, Call};

use crate::subject::PluginUnderTest;

/// The calls of a runtime after a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// DEL.
    Del,
    /// DEL after the pod's namespace was deleted.
    LateDel,
    /// GC with an empty list of valid attachments after the pod's namespace was deleted: it keeps those of pods that exist.
    Gc,
    /// Another ADD, which must succeed. If it is of another pod with the same device, the first pod's DEL follows and
    /// must not change it. The last call is its DEL.
    NextAdd,
}

impl Recovery {
    /// The recoveries after an ADD.
    pub(crate) const OF_ADD: [Self; 4] = [Self::Del, Self::LateDel, Self::Gc, Self::NextAdd];
    /// The recoveries after a DEL.
    pub(crate) const OF_DEL: [Self; 3] = [Self::Del, Self::LateDel, Self::Gc];

    /// Makes the calls.
    ///
    /// # Errors
    /// The first call that failed.
    pub(crate) fn apply(self, subject: &mut PluginUnderTest, call: &Call) -> Result<(), String> {
        match self {
            Self::Del => succeeded("DEL", &call.del()),
            Self::LateDel => {
                subject.end_pod();
                succeeded("DEL", &call.del())
            }
            Self::Gc => {
                subject.end_pod();
                succeeded("GC", &call.with("cni.dev/valid-attachments", &json!([])).gc())
            }
            Self::NextAdd => {
                let next = subject.next(call);
                let mut answer = next.add();
                if already_exists(&answer) {
                    succeeded("DEL", &next.del())?;
                    answer = next.add();
                }
                succeeded("the next ADD", &answer)?;
                if subject.next_is_of_another_pod() {
                    succeeded("the late DEL", &call.del())?;
                    succeeded("CHECK after the late DEL", &next.check_after(&answer.json()))?;
                }
                succeeded("the next DEL", &next.del())
            }
        }
    }
}

/// Whether an ADD was refused because the killed ADD was already complete: it was killed after it had written its
/// result.
fn already_exists(answer: &Answer) -> bool {
    !answer.status.success() && answer.stdout.contains("already exists")
}

/// Checks that a call succeeded.
///
/// # Errors
/// The name of the call and its output.
pub(crate) fn succeeded(what: &str, answer: &Answer) -> Result<(), String> {
    if answer.status.success() { Ok(()) } else { Err(format!("{what} failed: {answer:?}")) }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Del => "DEL",
            Self::LateDel => "DEL without the namespace",
            Self::Gc => "GC",
            Self::NextAdd => "the next ADD",
        })
    }
}
