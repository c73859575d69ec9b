//! What the user wrote.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{Spanned, options};

use crate::error::LineError;

/// The `client_auth_type` without which nobody has to show a certificate.
pub(crate) const VERIFIED: &str = "RequireAndVerifyClientCert";

/// The file as it was written: every key of it is known, and nothing else is sure yet.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebConfigFile {
    #[serde(default, deserialize_with = "present")]
    tls_server_config: Option<Spanned<TlsServerConfig>>,
    #[serde(default, deserialize_with = "present")]
    http_server_config: Option<HttpServerConfig>,
    #[serde(default, deserialize_with = "present")]
    basic_auth_users: Option<BTreeMap<String, Spanned<String>>>,
}

/// What a key that is there says. One with nothing behind it says that somebody wanted something: it must not be taken for one
/// that is not there, which opens the port.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + IsEmpty,
{
    match Option::<T>::deserialize(deserializer)? {
        Some(value) if !value.is_nothing() => Ok(Some(value)),
        _ => Err(de::Error::custom("a key has nothing behind it; leave it out, or say what is wanted")),
    }
}

/// What can be empty.
trait IsEmpty {
    fn is_nothing(&self) -> bool {
        false
    }
}

impl IsEmpty for bool {}
impl IsEmpty for HttpServerConfig {}
impl<T> IsEmpty for Spanned<T> {}

impl<T> IsEmpty for Vec<T> {
    fn is_nothing(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> IsEmpty for BTreeMap<K, V> {
    fn is_nothing(&self) -> bool {
        self.is_empty()
    }
}

/// `tls_server_config`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsServerConfig {
    #[serde(default, deserialize_with = "present")]
    pub(crate) cert: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) key: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) client_ca: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) cert_file: Option<Spanned<PathBuf>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) key_file: Option<Spanned<PathBuf>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) client_ca_file: Option<Spanned<PathBuf>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) client_auth_type: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) client_allowed_sans: Option<Vec<Spanned<String>>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) min_version: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) max_version: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) cipher_suites: Option<Vec<Spanned<String>>>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) prefer_server_cipher_suites: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) curve_preferences: Option<Vec<Spanned<String>>>,
}

/// `http_server_config`. `http2` says what a server may do, and this one may do without.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpServerConfig {
    #[serde(rename = "http2", default, deserialize_with = "present")]
    _http2: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    headers: Option<BTreeMap<String, Spanned<String>>>,
}

impl WebConfigFile {
    /// Reads the file's text.
    ///
    /// # Errors
    /// It is no YAML, empty, or has a key that is not known.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let is_empty = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(is_empty) {
            // What is left of a file that could not be written must not open the port to everybody.
            return Err(LineError::at(1, "nothing is here; for neither TLS nor logins write {}"));
        }
        serde_saphyr::from_str_with_options(text, options! { with_snippet: false }).map_err(|error| {
            let line = error.location().map_or(1, |at| at.line());
            LineError::at(line, message(&error))
        })
    }

    pub(crate) fn tls(&self) -> Option<&Spanned<TlsServerConfig>> {
        self.tls_server_config.as_ref()
    }

    pub(crate) fn users(&self) -> Option<&BTreeMap<String, Spanned<String>>> {
        self.basic_auth_users.as_ref()
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (&String, &Spanned<String>)> {
        self.http_server_config.iter().flat_map(|http| http.headers.iter().flatten())
    }

    /// What is demanded of clients, by the keys that demand it.
    pub(crate) fn demands(&self) -> Vec<&'static str> {
        let tls = self.tls().map(|tls| &tls.value);
        let demanded =
            |tls: &TlsServerConfig| tls.client_auth_type.as_ref().is_some_and(|it| it.value == VERIFIED);
        [
            ("tls_server_config", tls.is_some()),
            ("client_auth_type RequireAndVerifyClientCert", tls.is_some_and(demanded)),
            ("client_allowed_sans", tls.is_some_and(|tls| tls.client_allowed_sans.is_some())),
            ("basic_auth_users", self.users().is_some()),
        ]
        .into_iter()
        .filter_map(|(key, is_demanded)| is_demanded.then_some(key))
        .collect()
    }

    /// Whether a private key is in the file itself.
    pub(crate) fn has_key(&self) -> bool {
        self.tls().is_some_and(|tls| tls.value.key.is_some())
    }
}

/// The parser's words without where it is: that is said before them.
fn message(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::MultipleDocuments { .. } => {
            return "a second document begins; expected one".to_owned();
        }
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            return format!("key {key:?} is there twice; remove one");
        }
        _ => {}
    }
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.rsplit_once(" at line ").map_or(first, |(what, _)| what).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (u64, String) {
        let wrong = WebConfigFile::parse(text).unwrap_err();
        (wrong.line, wrong.why)
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, part) in [
            ("tls_server_config:\n  cert_fil: a\n", 2, "cert_fil"),
            ("tls_server_config:\n  cert_file: a\n  cert_file: b\n", 3, "\"cert_file\" is there twice"),
            ("basic_auth_users:\n  a: [b]\n", 2, "string"),
            ("a: b\n", 1, "unknown field `a`"),
            ("rate_limit:\n  burst: 3\n", 1, "rate_limit"),
            ("tls_server_config: {}\n---\na: b\n", 3, "second document"),
            ("tls_server_config:\n\tcert_file: a\n", 2, "tab"),
            ("tls_server_config:\n", 1, "nothing behind it"),
            ("a: 1\nbasic_auth_users:\n", 1, "unknown field `a`"),
            ("basic_auth_users:\n", 1, "nothing behind it"),
            ("basic_auth_users: {}\n", 1, "nothing behind it"),
            ("basic_auth_users: ~\n", 1, "nothing behind it"),
            ("http_server_config:\n  headers:\n", 2, "nothing behind it"),
            ("tls_server_config:\n  cert_file: a\n  client_auth_type:\n", 3, "nothing behind it"),
            ("tls_server_config:\n  cert_file: a\n  client_allowed_sans:\n", 3, "nothing behind it"),
            ("tls_server_config:\n  client_allowed_sans: []\n", 2, "nothing behind it"),
            ("", 1, "write {}"),
            ("# later\n\n", 1, "write {}"),
        ] {
            let (at, why) = wrong(text);
            assert_eq!(at, line, "{text:?}: {why}");
            assert!(why.contains(part), "{text:?}: {why}");
        }
    }

    #[test]
    fn every_key_of_the_form_is_known() {
        let text = "
tls_server_config:
  cert_file: a
  key_file: b
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: c
  client_allowed_sans: [prometheus]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: true
  curve_preferences: [X25519]
http_server_config:
  http2: true
  headers:
    X-Frame-Options: deny
basic_auth_users:
  alice: x
";
        let written = WebConfigFile::parse(text).unwrap();
        assert_eq!(written.users().unwrap()["alice"].referenced.line(), 18);
        assert_eq!(written.headers().count(), 1);
        assert!(!written.has_key() && WebConfigFile::parse("tls_server_config: {key: k}").unwrap().has_key());
        assert!(WebConfigFile::parse("{}").unwrap().tls().is_none());
    }
}
