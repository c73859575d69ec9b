//! `CNI_ARGS`: extra arguments of the form `K1=V1;K2=V2`.

use crate::{Error, ErrorCode};

/// Keys that the plugins read. Kubernetes runtimes always set the `K8S_` keys.
const KNOWN: [&str; 7] = [
    "IgnoreUnknown",
    "MAC",
    "IP",
    "K8S_POD_NAMESPACE",
    "K8S_POD_NAME",
    "K8S_POD_INFRA_CONTAINER_ID",
    "K8S_POD_UID",
];

/// The arguments of `CNI_ARGS`, in the order written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CniArgs {
    text: String,
    pairs: Vec<(String, String)>,
}

impl CniArgs {
    /// Parses the value of the variable.
    ///
    /// # Errors
    /// [`ErrorCode::INVALID_ENVIRONMENT`] if a pair does not contain exactly one `=`, or if a key is unknown and
    /// `IgnoreUnknown` is not set.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut args = Self::unread(text);
        for pair in text.split(';').filter(|_| !text.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .filter(|(_, value)| !value.contains('='))
                .ok_or_else(|| invalid(format!("ARGS: invalid pair {pair:?}")))?;
            args.pairs.push((key.to_owned(), value.to_owned()));
        }
        if !args.ignores_unknown()? {
            args.refuse_unknown()?;
        }
        Ok(args)
    }

    /// Keeps the value of the variable without parsing it: a DEL continues if `CNI_ARGS` is malformed.
    pub fn unread(text: &str) -> Self {
        Self { text: text.to_owned(), pairs: Vec::new() }
    }

    /// Returns the value of the variable unchanged, to be passed to a delegate.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the value of a key unless it is empty. If a key is repeated, the last value counts.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .rev()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
            .filter(|v| !v.is_empty())
    }

    fn ignores_unknown(&self) -> Result<bool, Error> {
        match self.get("IgnoreUnknown").map(str::to_ascii_lowercase).as_deref() {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(other) => {
                Err(invalid(format!("ARGS: IgnoreUnknown: expected true or false, found {other:?}")))
            }
        }
    }

    fn refuse_unknown(&self) -> Result<(), Error> {
        let unknown: Vec<String> = self
            .pairs
            .iter()
            .filter(|(key, _)| !KNOWN.contains(&key.as_str()))
            .map(|(key, value)| format!("{:?}", format!("{key}={value}")))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(invalid(format!("ARGS: unknown args [{}]", unknown.join(" "))))
    }
}

fn invalid(msg: String) -> Error {
    Error::new(ErrorCode::INVALID_ENVIRONMENT, msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_018_unknown_keys_need_ignore_unknown() {
        assert_eq!(CniArgs::parse("FOO=1").unwrap_err().msg, "ARGS: unknown args [\"FOO=1\"]");
        for yes in ["1", "true", "TRUE"] {
            assert_eq!(CniArgs::parse(&format!("IgnoreUnknown={yes};FOO=1")).unwrap().get("FOO"), Some("1"));
        }
        assert_eq!(CniArgs::parse("A=B=C").unwrap_err().msg, "ARGS: invalid pair \"A=B=C\"");
        assert!(CniArgs::parse("IgnoreUnknown=maybe").is_err());
        for no in ["0", "false", "False", ""] {
            assert!(CniArgs::parse(&format!("IgnoreUnknown={no};FOO=1")).is_err(), "{no}");
        }
        assert!(CniArgs::parse("IP=10.0.0.5;").is_err() && CniArgs::parse("").is_ok());
        assert_eq!(CniArgs::unread("A;B").as_str(), "A;B");
    }

    #[test]
    fn the_last_of_a_repeated_key_counts() {
        let args = CniArgs::parse("IgnoreUnknown=true;MAC=a;IgnoreUnknown=1;MAC=b").unwrap();
        assert_eq!(args.get("MAC"), Some("b"));
    }

    #[test]
    fn kubernetes_keys_are_known() {
        let args = CniArgs::parse("K8S_POD_NAMESPACE=ai;K8S_POD_NAME=job-0;K8S_POD_UID=").unwrap();
        assert_eq!(args.get("K8S_POD_NAME"), Some("job-0"));
        assert_eq!(args.get("K8S_POD_UID"), None);
    }
}
