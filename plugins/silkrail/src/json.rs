//! JSON, as every command prints it.

use std::io::Write;

use serde::Serialize;

use crate::exit::CommandError;

/// Prints a value for scripts.
pub(crate) fn print(value: &impl Serialize, out: &mut dyn Write) -> Result<(), CommandError> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}
