//! Regular expressions of this directory.

use regex_lite::Regex;

pub(super) fn compiled(pattern: &str) -> Regex {
    #[expect(clippy::expect_used, reason = "the patterns are constants, and each is used by a test")]
    Regex::new(pattern).expect("a pattern of this directory")
}
