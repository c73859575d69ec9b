//! What a plugin answered.

use std::process::ExitStatus;

use serde_json::Value;

/// A plugin's answer, not yet judged.
#[derive(Debug)]
#[must_use = "an answer that nobody judges proves nothing"]
pub struct Answer {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it logged.
    pub stderr: String,
}

/// The error object of a plugin.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Its code.
    pub code: u64,
    /// What it says.
    pub msg: String,
    /// What it says besides.
    pub details: String,
}

impl Answer {
    /// The one JSON value it printed.
    ///
    /// # Panics
    /// If it printed anything else.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("stdout is not one JSON value ({e}): {self:#?}"))
    }

    /// It succeeded, and this is the result.
    ///
    /// # Panics
    /// If it failed or printed no result.
    pub fn ok(&self) -> Value {
        assert!(self.status.success(), "it failed: {self:#?}");
        let result = self.json();
        assert!(result.is_object(), "the result is no object: {self:#?}");
        result
    }

    /// It succeeded and printed nothing.
    ///
    /// # Panics
    /// If it failed or printed anything.
    pub fn done(&self) {
        assert!(self.status.success(), "it failed: {self:#?}");
        assert_eq!(self.stdout, "", "nothing may be printed");
    }

    /// It failed with this code and printed nothing but the error.
    ///
    /// # Panics
    /// If it did anything else.
    pub fn error(&self, code: u64) -> Refusal {
        let refusal = self.refusal();
        assert_eq!(refusal.code, code, "another code was expected: {refusal:#?}");
        refusal
    }

    /// It failed, with whatever code, and printed nothing but the error.
    ///
    /// # Panics
    /// If it succeeded, was killed, or printed anything else.
    pub fn refusal(&self) -> Refusal {
        assert_eq!(self.status.code(), Some(1), "exit code 1 was expected: {self:#?}");
        let object = self.json();
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (msg, details) = (text("msg"), text("details"));
        let code = object["code"].as_u64().unwrap_or_else(|| panic!("the error has no code: {self:#?}"));
        assert!(!msg.is_empty(), "the error says nothing: {self:#?}");
        assert!(!msg.contains("bug in silkrail"), "it panicked: {self:#?}");
        Refusal { code, msg, details }
    }

    /// Whether a signal ended it.
    pub fn was_killed(&self) -> bool {
        self.status.code().is_none()
    }
}

impl Refusal {
    /// Its message has all these parts.
    ///
    /// # Panics
    /// If one is missing.
    pub fn says(&self, parts: &[&str]) -> &Self {
        for part in parts {
            assert!(self.msg.contains(part), "the message does not say {part:?}: {self:#?}");
        }
        self
    }
}
