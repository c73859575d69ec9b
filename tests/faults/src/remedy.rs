//! What puts it right.

use std::fmt;

use serde_json::json;
use testkit::{Answer, Call};

use crate::subject::PluginUnderTest;

/// What a runtime does after a call that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// DEL.
    Del,
    /// The pod's namespace ends; then DEL.
    LateDel,
    /// GC, with nothing listed as valid.
    Gc,
    /// Another ADD, which must succeed. If it is another pod's, of the same device, the first one's DEL comes then
    /// and must not touch it. At last its DEL.
    NextAdd,
}

impl Recovery {
    /// What may follow an ADD.
    pub(crate) const OF_ADD: [Self; 4] = [Self::Del, Self::LateDel, Self::Gc, Self::NextAdd];
    /// What may follow a DEL.
    pub(crate) const OF_DEL: [Self; 3] = [Self::Del, Self::LateDel, Self::Gc];

    /// Does it.
    ///
    /// # Errors
    /// What failed.
    pub(crate) fn apply(self, subject: &mut PluginUnderTest, call: &Call) -> Result<(), String> {
        match self {
            Self::Del => succeeded("DEL", &call.del()),
            Self::LateDel => {
                subject.end_pod();
                succeeded("DEL", &call.del())
            }
            Self::Gc => succeeded("GC", &call.with("cni.dev/valid-attachments", &json!([])).gc()),
            Self::NextAdd => {
                let next = subject.next(call);
                let mut answer = next.add();
                if is_there_already(&answer) {
                    succeeded("DEL", &next.del())?;
                    answer = next.add();
                }
                succeeded("the next ADD", &answer)?;
                if subject.next_is_anothers() {
                    succeeded("the late DEL", &call.del())?;
                    succeeded("CHECK after the late DEL", &next.check_after(&answer.json()))?;
                }
                succeeded("the next DEL", &next.del())
            }
        }
    }
}

/// Whether an ADD was refused because the one before it was complete: it was killed too late to undo, and had its
/// whole result on its way.
fn is_there_already(answer: &Answer) -> bool {
    !answer.status.success() && answer.stdout.contains("already exists")
}

/// A call that must succeed.
///
/// # Errors
/// What it said.
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
