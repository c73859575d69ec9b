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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    #[test]
    fn every_cause_is_named_once_and_the_response_is_not() {
        for (layers, expected) in [
            (&["service error"][..], "service error"),
            (&["service error", "client error", "refused"], "service error: client error: refused"),
            (&["client error: refused", "client error", "refused"], "client error: refused"),
            (&["a", "service: a", "refused"], "a: service: a: refused"),
            (
                &["ApiError: nodes is forbidden (Status { code: 403 })", "Status"],
                "ApiError: nodes is forbidden",
            ),
        ] {
            let error = layers.iter().rev().fold(None, |cause, text| Some(Box::new(Layer(text, cause))));
            assert_eq!(with_causes(&*error.unwrap()), expected);
        }
    }
}
