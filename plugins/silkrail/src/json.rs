//! JSON, as every command prints it.

use std::io::Write;

use serde::Serialize;

use crate::exit::Failure;

/// Prints a value for scripts.
pub(crate) fn print(value: &impl Serialize, out: &mut dyn Write) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}
