//! The JSON output of the commands.

use std::io::Write;

use serde::Serialize;

use crate::exit::CommandError;

/// Prints a value as indented JSON, with a newline at the end.
pub(crate) fn print(value: &impl Serialize, out: &mut dyn Write) -> Result<(), CommandError> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}
