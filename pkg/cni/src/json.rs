//! JSON text in the format of the reference implementation.

use serde::Serialize;
use serde_json::{Serializer, ser::PrettyFormatter};

/// Encodes JSON as the reference implementation does: indented by four spaces, without a newline at the end.
pub(crate) fn pretty(object: &impl Serialize) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b"    "));
    match object.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(e) => format!("{{\"code\": 999, \"msg\": \"cannot encode the result: {e}\"}}"),
    }
}
