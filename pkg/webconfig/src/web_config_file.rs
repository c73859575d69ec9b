//! The parsed configuration file.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::{Spanned, options};

use crate::error::LineError;

/// The `client_auth_type` that requires a certificate of every client.
pub(crate) const VERIFIED: &str = "RequireAndVerifyClientCert";

/// The parsed configuration file. All keys are known; values are not checked yet.
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

/// Deserializes the value of a key that is present. An empty value is an error: treating it as an absent key could disable
/// authentication.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + IsEmpty,
{
    match Option::<T>::deserialize(deserializer)? {
        Some(value) if !value.is_empty_value() => Ok(Some(value)),
        _ => Err(de::Error::custom("a key has no value; remove it, or set a value")),
    }
}

/// Values that may be empty.
trait IsEmpty {
    fn is_empty_value(&self) -> bool {
        false
    }
}

impl IsEmpty for bool {}
impl IsEmpty for HttpServerConfig {}
impl<T> IsEmpty for Spanned<T> {}

impl<T> IsEmpty for Vec<T> {
    fn is_empty_value(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> IsEmpty for BTreeMap<K, V> {
    fn is_empty_value(&self) -> bool {
        self.is_empty()
    }
}

/// The mapping `tls_server_config`.
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

/// The mapping `http_server_config`. `http2` is accepted and ignored: HTTP/1.1 is always allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpServerConfig {
    #[serde(rename = "http2", default, deserialize_with = "present")]
    _http2: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    headers: Option<BTreeMap<String, Spanned<String>>>,
}

impl WebConfigFile {
    /// Parses the text of the file.
    ///
    /// # Errors
    /// [`LineError`]: the text is not valid YAML, is empty, or has an unknown key.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let is_empty = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(is_empty) {
            // A file that was truncated by a failed write must not disable authentication.
            return Err(LineError::at(1, "the file is empty; write {} to serve without TLS and logins"));
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

    /// Returns the keys that require something of clients.
    pub(crate) fn requirements(&self) -> Vec<&'static str> {
        let tls = self.tls().map(|tls| &tls.value);
        let requires_certificate =
            |tls: &TlsServerConfig| tls.client_auth_type.as_ref().is_some_and(|it| it.value == VERIFIED);
        [
            ("tls_server_config", tls.is_some()),
            ("client_auth_type RequireAndVerifyClientCert", tls.is_some_and(requires_certificate)),
            ("client_allowed_sans", tls.is_some_and(|tls| tls.client_allowed_sans.is_some())),
            ("basic_auth_users", self.users().is_some()),
        ]
        .into_iter()
        .filter_map(|(key, is_required)| is_required.then_some(key))
        .collect()
    }

    /// Whether the file itself contains a private key.
    pub(crate) fn has_key(&self) -> bool {
        self.tls().is_some_and(|tls| tls.value.key.is_some())
    }
}

/// Returns the message of the parser without its location, which the caller adds.
fn message(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::MultipleDocuments { .. } => {
            return "a second document starts; expected one document".to_owned();
        }
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            return format!("duplicate key {key:?}; remove one");
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
    fn errors_contain_the_line() {
        for (text, line, part) in [
            ("tls_server_config:\n  cert_fil: a\n", 2, "cert_fil"),
            ("tls_server_config:\n  cert_file: a\n  cert_file: b\n", 3, "duplicate key \"cert_file\""),
            ("basic_auth_users:\n  a: [b]\n", 2, "string"),
            ("a: b\n", 1, "unknown field `a`"),
            ("rate_limit:\n  burst: 3\n", 1, "rate_limit"),
            ("tls_server_config: {}\n---\na: b\n", 3, "second document"),
            ("tls_server_config:\n\tcert_file: a\n", 2, "tab"),
            ("tls_server_config:\n", 1, "has no value"),
            ("a: 1\nbasic_auth_users:\n", 1, "unknown field `a`"),
            ("basic_auth_users:\n", 1, "has no value"),
            ("basic_auth_users: {}\n", 1, "has no value"),
            ("basic_auth_users: ~\n", 1, "has no value"),
            ("http_server_config:\n  headers:\n", 2, "has no value"),
            ("tls_server_config:\n  cert_file: a\n  client_auth_type:\n", 3, "has no value"),
            ("tls_server_config:\n  cert_file: a\n  client_allowed_sans:\n", 3, "has no value"),
            ("tls_server_config:\n  client_allowed_sans: []\n", 2, "has no value"),
            ("", 1, "write {}"),
            ("# later\n\n", 1, "write {}"),
        ] {
            let (at, why) = wrong(text);
            assert_eq!(at, line, "{text:?}: {why}");
            assert!(why.contains(part), "{text:?}: {why}");
        }
    }

    #[test]
    fn every_key_of_the_format_is_known() {
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
        let all = [
            "tls_server_config",
            "client_auth_type RequireAndVerifyClientCert",
            "client_allowed_sans",
            "basic_auth_users",
        ];
        assert_eq!(written.requirements(), all);
        for (less, required) in [
            (text.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"), [all[0], all[2], all[3]]),
            (text.replace("  client_allowed_sans: [prometheus]\n", ""), [all[0], all[1], all[3]]),
            (text.replace("basic_auth_users:\n  alice: x\n", ""), [all[0], all[1], all[2]]),
        ] {
            assert_eq!(WebConfigFile::parse(&less).unwrap().requirements(), required, "{less}");
        }
        assert!(WebConfigFile::parse("{}").unwrap().requirements().is_empty());
        assert!(!written.has_key() && WebConfigFile::parse("tls_server_config: {key: k}").unwrap().has_key());
        assert!(WebConfigFile::parse("{}").unwrap().tls().is_none());
    }
}
