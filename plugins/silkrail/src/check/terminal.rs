//! The terminal: its width, and a line of progress that is rewritten.

use std::io::{self, IsTerminal, Write};

/// The width of output that is not written to a terminal.
const DEFAULT_COLUMNS: usize = 80;

/// Returns the number of columns of standard output.
pub(super) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(DEFAULT_COLUMNS)
}

/// Progress on standard error: a line that is rewritten on a terminal, and one line after another otherwise.
#[derive(Debug)]
pub(super) struct ProgressLine {
    rewrites: bool,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self { rewrites: io::stderr().is_terminal() }
    }

    /// Shows the next state; the last one stays.
    pub(super) fn show(&self, text: &str, is_last: bool) {
        let mut stderr = io::stderr().lock();
        // Progress is not worth an error.
        let _ = match (self.rewrites, is_last) {
            (false, _) => writeln!(stderr, "{text}"),
            (true, false) => write!(stderr, "\r\x1b[K{text}"),
            (true, true) => writeln!(stderr, "\r\x1b[K{text}"),
        };
        let _ = stderr.flush();
    }
}
