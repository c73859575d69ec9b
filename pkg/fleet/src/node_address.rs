//! The address of a node's daemon.

use std::str::FromStr;

/// The port of silkraild.
const PORT: u16 = 9879;

/// The address of a node's daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// The host: a name or an IP address, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
}

/// A text is not the address of a daemon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address of a daemon: expected HOST, HOST:PORT, http://HOST:PORT or https://HOST:PORT")]
pub struct InvalidNodeAddress(pub String);

impl FromStr for NodeAddress {
    type Err = InvalidNodeAddress;

    fn from_str(text: &str) -> Result<Self, InvalidNodeAddress> {
        let invalid = || InvalidNodeAddress(text.to_owned());
        let (is_tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(invalid()),
            None => (false, text),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = if let Some(inner) = rest.strip_prefix('[') {
            let (host, port) = inner.split_once(']').ok_or_else(invalid)?;
            (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some("")).ok_or_else(invalid)?)
        } else if rest.matches(':').count() > 1 {
            (rest, "") // an IPv6 address
        } else {
            rest.split_once(':').unwrap_or((rest, ""))
        };
        let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || host.starts_with('-') || !host.chars().all(is_valid) {
            return Err(invalid());
        }
        let port = if port.is_empty() { PORT } else { port.parse().map_err(|_| invalid())? };
        Ok(Self { host: host.to_owned(), port, is_tls })
    }
}

impl std::fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_urls_are_addresses() {
        for (text, shown, is_tls) in [
            ("gpu-01", "gpu-01:9879", false),
            ("gpu-01.example.org:80", "gpu-01.example.org:80", false),
            ("10.0.0.7", "10.0.0.7:9879", false),
            ("fd00::7", "[fd00::7]:9879", false),
            ("[fd00::7]:81", "[fd00::7]:81", false),
            ("http://gpu-01/", "gpu-01:9879", false),
            ("https://[fd00::7]", "[fd00::7]:9879", true),
            ("https://gpu-01:443", "gpu-01:443", true),
        ] {
            let address: NodeAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.is_tls), (shown, is_tls), "{text}");
        }
        for text in ["", "ftp://a", "a:port", "a/b", "http://", "[::1", "-a", "a b", "a\r\nb", "a:99999"] {
            assert!(text.parse::<NodeAddress>().is_err(), "{text:?}");
        }
    }
}
