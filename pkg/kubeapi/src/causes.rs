//! Errors of kube with their causes, which contain most of the information.

use std::error::Error;

/// Returns the message of an error with those of its causes, unless it already contains them.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    // kube appends the complete response.
    match text.split_once(" (Status {") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}
