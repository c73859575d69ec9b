//! What a node's settings should be.

use serde::Deserialize;

/// A profile. Without a file it is [`TuneProfile::default`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TuneProfile {
    /// Whether the kernel leaves the pages of processes where they are. Moving them costs latency, and what is pinned
    /// for RDMA cannot be moved anyway.
    pub numa_balancing_off: bool,
    /// How many neighbours the kernel remembers at least: every node with its rails, and their pods. Beyond that, RoCE
    /// connections fail with "neighbour table overflow".
    pub neighbours: u32,
    /// Whether pods on several rails of one subnet answer and are answered on the right one (`arp_ignore`,
    /// `arp_announce`, loose `rp_filter`).
    pub multi_rail: bool,
    /// The governor of all CPUs; empty leaves it.
    pub governor: String,
    /// Whether containers may pin as much memory as they like: RDMA pins whatever it sends.
    pub memlock: bool,
    /// The type of service of what `rdma_cm` connects, 0 to 255; the fabric says which. Left as it is without.
    pub roce_tos: Option<u8>,
}

impl Default for TuneProfile {
    fn default() -> Self {
        Self {
            numa_balancing_off: true,
            neighbours: 16_384,
            multi_rail: false,
            governor: "performance".into(),
            memlock: true,
            roce_tos: None,
        }
    }
}

/// Why a text is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProfile {
    /// It is no YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::InvalidYaml),
    /// Something in it is not understood.
    #[error("{path}: {what}")]
    Content {
        /// Where.
        path: String,
        /// What is wrong.
        what: String,
    },
}

const MOST_NEIGHBOURS: u32 = 1_000_000;

impl TuneProfile {
    /// Reads a text. What it does not say is as without a file.
    ///
    /// # Errors
    /// [`InvalidProfile`].
    pub fn parse(text: &str) -> Result<Self, InvalidProfile> {
        let Some(document) = yaml::documents(text)?.into_iter().next() else { return Ok(Self::default()) };
        let wrong = |path: String, what: String| InvalidProfile::Content { path, what };
        let profile: Self = serde_path_to_error::deserialize(document)
            .map_err(|error| wrong(error.path().to_string(), error.inner().to_string()))?;
        if profile.neighbours > MOST_NEIGHBOURS {
            return Err(wrong("neighbours".into(), format!("expected at most {MOST_NEIGHBOURS}")));
        }
        if !profile.governor.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
            return Err(wrong("governor".into(), "expected a governor's name, like performance".into()));
        }
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_profile_does_not_say_is_as_without_one() {
        assert_eq!(TuneProfile::parse("").unwrap(), TuneProfile::default());
        let profile = TuneProfile::parse("roceTos: 106\ngovernor: ''\n").unwrap();
        assert_eq!(
            profile,
            TuneProfile { roce_tos: Some(106), governor: String::new(), ..TuneProfile::default() }
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, said) in [
            ("tcpBuffers: big", "tcpBuffers: unknown field"),
            ("roceTos: 256", "roceTos: "),
            ("neighbours: 2000000", "neighbours: expected at most"),
            ("governor: ../../x", "governor: expected"),
        ] {
            let error = TuneProfile::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
