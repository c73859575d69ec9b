//! The output of a plugin.

use std::process::ExitStatus;

use serde_json::Value;

/// The exit status and output of a call, not yet checked.
#[derive(Debug)]
#[must_use = "the output of a call must be checked"]
pub struct Answer {
    /// The exit status or signal.
    pub status: ExitStatus,
    /// Standard output: the result or the error object.
    pub stdout: String,
    /// Standard error: the log.
    pub stderr: String,
}

/// The CNI error object of a plugin.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The code, such as 11 (try again later).
    pub code: u64,
    /// The message.
    pub msg: String,
    /// The details; empty if there are none.
    pub details: String,
}

impl Answer {
    /// Returns the JSON value on standard output.
    ///
    /// # Panics
    /// If standard output is anything but one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("stdout is not one JSON value ({e}): {self:#?}"))
    }

    /// Asserts that the call succeeded, and returns the result.
    ///
    /// # Panics
    /// If it failed or printed no result.
    pub fn ok(&self) -> Value {
        assert!(self.status.success(), "the call failed: {self:#?}");
        let result = self.json();
        assert!(result.is_object(), "the result is not an object: {self:#?}");
        result
    }

    /// Asserts that the call succeeded and printed nothing.
    ///
    /// # Panics
    /// If it failed or printed anything.
    pub fn done(&self) {
        assert!(self.status.success(), "the call failed: {self:#?}");
        assert_eq!(self.stdout, "", "standard output must be empty");
    }

    /// Asserts that the call failed with this code and printed only the error object, which is returned.
    ///
    /// # Panics
    /// In any other case.
    pub fn error(&self, code: u64) -> Refusal {
        let refusal = self.refusal();
        assert_eq!(refusal.code, code, "another code was expected: {refusal:#?}");
        refusal
    }

    /// Asserts that the call failed with any code and printed only the error object, which is returned.
    ///
    /// # Panics
    /// If it succeeded, was killed, or printed anything else.
    pub fn refusal(&self) -> Refusal {
        assert_eq!(self.status.code(), Some(1), "exit code 1 was expected: {self:#?}");
        let object = self.json();
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (msg, details) = (text("msg"), text("details"));
        let code = object["code"].as_u64().unwrap_or_else(|| panic!("the error has no code: {self:#?}"));
        assert!(!msg.is_empty(), "the error has no message: {self:#?}");
        assert!(!msg.contains("bug in silkrail"), "the plugin panicked: {self:#?}");
        Refusal { code, msg, details }
    }

    /// Whether the plugin was ended by a signal.
    pub fn was_killed(&self) -> bool {
        self.status.code().is_none()
    }
}

impl Refusal {
    /// Asserts that the message contains all these parts.
    ///
    /// # Panics
    /// If one is missing.
    pub fn says(&self, parts: &[&str]) -> &Self {
        for part in parts {
            assert!(self.msg.contains(part), "the message does not contain {part:?}: {self:#?}");
        }
        self
    }
}
