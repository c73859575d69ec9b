//! The profile: the desired settings of a node.

use serde::Deserialize;

/// A profile. [`TuneProfile::default`] applies without a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TuneProfile {
    /// Whether to disable automatic NUMA balancing (`kernel.numa_balancing`). Migrating pages costs latency, and pages that
    /// are pinned for RDMA cannot be migrated anyway.
    pub numa_balancing_off: bool,
    /// Minimum size of the neighbour tables (`gc_thresh3`): it must cover all rails of all nodes, and their pods. If a table
    /// is full, RoCE connections fail with "neighbour table overflow".
    pub neighbours: u32,
    /// Whether to set ARP and reverse path filtering for several rails in one subnet (`arp_ignore`, `arp_announce`, loose
    /// `rp_filter`).
    pub multi_rail: bool,
    /// The frequency governor of all CPUs; if empty, governors are not changed.
    pub governor: String,
    /// Whether containers may lock unlimited memory (`LimitMEMLOCK`): RDMA locks all registered memory.
    pub memlock: bool,
    /// The type of service of `rdma_cm` connections, 0 to 255, as the fabric requires. `None` leaves it unchanged.
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

/// A text is not a valid profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProfile {
    /// The text is not valid YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::InvalidYaml),
    /// A key or a value is invalid.
    #[error("{path}: {what}")]
    Content {
        /// The path of the key, for example `roceTos`.
        path: String,
        /// What is wrong with it.
        what: String,
    },
}

const MAX_NEIGHBOURS: u32 = 1_000_000;

impl TuneProfile {
    /// Parses a profile in YAML. Keys that are missing have the values of [`TuneProfile::default`].
    ///
    /// # Errors
    /// [`InvalidProfile`].
    pub fn parse(text: &str) -> Result<Self, InvalidProfile> {
        let Some(document) = yaml::documents(text)?.into_iter().next() else { return Ok(Self::default()) };
        let invalid = |path: String, what: String| InvalidProfile::Content { path, what };
        let profile: Self = serde_path_to_error::deserialize(document)
            .map_err(|error| invalid(error.path().to_string(), error.inner().to_string()))?;
        if profile.neighbours > MAX_NEIGHBOURS {
            return Err(invalid("neighbours".into(), format!("expected at most {MAX_NEIGHBOURS}")));
        }
        if !profile.governor.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
            return Err(invalid(
                "governor".into(),
                "expected the name of a governor, like performance".into(),
            ));
        }
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_keys_have_default_values() {
        assert_eq!(TuneProfile::parse("").unwrap(), TuneProfile::default());
        let profile = TuneProfile::parse("roceTos: 106\ngovernor: ''\n").unwrap();
        assert_eq!(
            profile,
            TuneProfile { roce_tos: Some(106), governor: String::new(), ..TuneProfile::default() }
        );
    }

    #[test]
    fn an_invalid_key_is_named() {
        assert_eq!(TuneProfile::parse("neighbours: 1000000").unwrap().neighbours, 1_000_000);
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
