//! Headers that are added to every response.

use http::{HeaderName, HeaderValue};

use crate::{error::LineError, web_config_file::WebConfigFile};

/// The headers that can be set, with their allowed values; an empty list allows any value.
const KNOWN: [(&str, &[&str]); 5] = [
    ("Content-Security-Policy", &[]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-XSS-Protection", &[]),
    ("Strict-Transport-Security", &[]),
];

/// Returns the configured headers, without those that have an empty value.
pub(crate) fn of(written: &WebConfigFile) -> Result<Vec<(HeaderName, HeaderValue)>, LineError> {
    let set = written.headers().filter(|(_, value)| !value.value.is_empty());
    set.map(|(name, value)| {
        header(name, &value.value).map_err(|why| LineError::at(value.referenced.line(), why))
    })
    .collect()
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let Some((known, values)) = KNOWN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) else {
        let known = KNOWN.map(|(known, _)| known).join(", ");
        return Err(format!("unknown header {name:?}; expected one of {known}"));
    };
    if !values.is_empty() && !values.contains(&value.to_ascii_lowercase().as_str()) {
        return Err(format!("{known}: {value:?}; expected {}", values.join(" or ")));
    }
    let name = HeaderName::try_from(*known).map_err(|error| error.to_string())?;
    let value = HeaderValue::try_from(value)
        .map_err(|_| format!("{known}: {value:?} is not a valid header value"))?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, LineError> {
        of(&WebConfigFile::parse(&format!("http_server_config:\n  headers:\n    {text}\n")).unwrap())
    }

    #[test]
    fn only_known_headers_are_set() {
        let set = headers("X-Frame-Options: deny").unwrap();
        assert_eq!((set[0].0.as_str(), set[0].1.to_str().unwrap()), ("x-frame-options", "deny"));
        assert!(headers("X-Frame-Options: ''").unwrap().is_empty());
        let more = headers(
            "x-content-type-options: NoSniff\n    X-XSS-Protection: ''\n    strict-transport-security: a",
        )
        .unwrap();
        let names: Vec<_> = more.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["strict-transport-security", "x-content-type-options"]);
        for (text, part) in [
            ("X-Frame-Options: all", "expected deny or sameorigin"),
            ("Set-Cookie: a", "unknown header"),
            ("X-XSS-Protection: \"a\\r\\nb: c\"", "not a valid header value"),
        ] {
            let wrong = headers(text).unwrap_err();
            assert!(wrong.line == 3 && wrong.why.contains(part), "{wrong:?}");
        }
    }
}
