//! The name of an extended resource.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};

/// The name of an extended resource, `domain/name`, as the kubelet accepts it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName {
    domain: String,
    name: String,
}

/// Why the kubelet would refuse a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResourceName {
    /// It has no domain, or several slashes.
    #[error("{0:?} is not a resource: expected a domain and a name, such as \"rdma/hca_shared_devices\"")]
    Shape(String),
    /// The domain is no DNS subdomain.
    #[error(
        "the domain {0:?} is invalid: expected lower-case letters, digits, '-' and '.', at most 253 bytes"
    )]
    Domain(String),
    /// The domain belongs to Kubernetes.
    #[error("the domain {0:?} is reserved for Kubernetes: choose a domain of your own")]
    Reserved(String),
    /// The name is invalid.
    #[error(
        "the name {0:?} is invalid: expected letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, \
         at most 63 bytes"
    )]
    Name(String),
}

/// Maximum length of the name.
const MAX_NAME: usize = 63;
/// Maximum length of the domain. The kubelet prepends `requests.` for quotas.
const MAX_DOMAIN: usize = 253 - "requests.".len();

/// Maximum length of domain and name in the name of a file.
const MAX_FILE_NAME: usize = 50;

impl ResourceName {
    /// Returns the name without the domain.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of its socket.
    pub fn socket_name(&self) -> String {
        format!("silkrail_{}.sock", self.file_name())
    }

    /// Returns the name of its directory, which the kubelet remembers: unlike `domain/name`, it is a file name. The path of a socket has at most 107 bytes, so
    /// the middle of a long name is replaced by its hash.
    pub fn file_name(&self) -> String {
        let name = format!("{}_{}", self.domain, self.name);
        if name.len() <= MAX_FILE_NAME {
            return name;
        }
        let (start, digest) = (&name[..MAX_FILE_NAME - 17], Sha256::digest(&name));
        let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{start}_{hash}")
    }

    /// Returns the suffix of environment variables: upper case, with `_` in place of `.` and `/`.
    pub fn variable(&self) -> String {
        format!("{}_{}", self.domain, self.name).to_uppercase().replace('.', "_")
    }
}

impl FromStr for ResourceName {
    type Err = InvalidResourceName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((domain, name)) = text.split_once('/').filter(|(_, name)| !name.contains('/')) else {
            return Err(InvalidResourceName::Shape(text.to_owned()));
        };
        if !is_domain(domain) {
            return Err(InvalidResourceName::Domain(domain.to_owned()));
        }
        if domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") || domain.starts_with("requests.")
        {
            return Err(InvalidResourceName::Reserved(domain.to_owned()));
        }
        if !is_name(name) {
            return Err(InvalidResourceName::Name(name.to_owned()));
        }
        Ok(Self { domain: domain.to_owned(), name: name.to_owned() })
    }
}

fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty() && label.bytes().all(allowed) && !label.starts_with('-') && !label.ends_with('-')
    };
    domain.len() <= MAX_DOMAIN && domain.split('.').all(is_label)
}

fn is_name(name: &str) -> bool {
    let ends = [name.bytes().next(), name.bytes().last()];
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(allowed)
        && ends.into_iter().flatten().all(|b| b.is_ascii_alphanumeric())
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_domain_and_name() {
        let name: ResourceName = "spidernet.io/mellanox-rdma_1.a".parse().unwrap();
        assert_eq!(name.to_string(), "spidernet.io/mellanox-rdma_1.a");
        assert_eq!(name.variable(), "SPIDERNET_IO_MELLANOX-RDMA_1_A");
        assert_eq!(name.socket_name(), "silkrail_spidernet.io_mellanox-rdma_1.a.sock");
    }

    #[test]
    fn the_path_of_a_socket_is_short_enough() {
        let file_name = |end: &str| {
            let name: ResourceName =
                format!("{}.example.com/{}{end}", "d".repeat(40), "n".repeat(60)).parse().unwrap();
            name.socket_name()
        };
        assert_ne!(file_name("a"), file_name("b"));
        assert_eq!(file_name("a"), file_name("a"));
        assert!("/var/lib/kubelet/device-plugins/".len() + file_name("a").len() <= 107);
    }

    /// A text, its error, and the part that the error contains.
    type Case<'a> = (&'a str, fn(String) -> InvalidResourceName, &'a str);

    #[test]
    fn names_that_the_kubelet_refuses_are_refused() {
        use InvalidResourceName::{Domain, Name, Reserved, Shape};
        let long = "a".repeat(64);
        let cases: [Case<'_>; 14] = [
            ("rdma", Shape, "rdma"),
            ("a/b/c", Shape, "a/b/c"),
            ("/x", Domain, ""),
            ("A.io/x", Domain, "A.io"),
            ("a..io/x", Domain, "a..io"),
            ("-a.io/x", Domain, "-a.io"),
            ("kubernetes.io/x", Reserved, "kubernetes.io"),
            ("a.kubernetes.io/x", Reserved, "a.kubernetes.io"),
            ("requests.a/x", Reserved, "requests.a"),
            ("rdma/", Name, ""),
            ("rdma/_x", Name, "_x"),
            ("rdma/x.", Name, "x."),
            ("rdma/x y", Name, "x y"),
            (&format!("rdma/{long}"), Name, &long),
        ];
        for (text, error, part) in cases {
            assert_eq!(text.parse::<ResourceName>(), Err(error(part.to_owned())), "{text}");
        }
        let domain = "d".repeat(245);
        assert!(matches!(format!("{domain}/x").parse::<ResourceName>(), Err(Domain(_))));
        assert!("rdma/x".parse::<ResourceName>().is_ok());
        assert!(format!("{}/x", &domain[..244]).parse::<ResourceName>().is_ok());
    }
}
