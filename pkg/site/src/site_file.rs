//! The content of a site file.

use dcb::WantedDcb;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use yaml::serde_errors;

use crate::{GpuRole, IgnoredFinding, InvalidSiteFile, PortIdentity, PortRole, PortSelector};

/// The content of a site file, `/etc/silkrail/site.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SiteFile {
    /// The roles of ports, in the order in which they are tried.
    #[serde(default)]
    pub roles: Vec<PortRole>,
    /// The GPUs, in the order in which they are tried.
    #[serde(default)]
    pub gpus: Vec<GpuRole>,
    /// The findings that are not reported.
    #[serde(default)]
    pub ignore: Vec<IgnoredFinding>,
}

/// The keys whose values are mappings, in the elements of the lists.
const MAPPINGS: [&str; 3] = ["match", "pcie", "dcb"];
const LOWEST_MTU: u32 = 68;
const HIGHEST_MTU: u32 = 65_535;

impl SiteFile {
    /// Parses the YAML text of a site file.
    ///
    /// # Errors
    /// [`InvalidSiteFile`], also for unknown keys, which are usually misspelled.
    pub fn parse(text: &str) -> Result<Self, InvalidSiteFile> {
        let mut documents = yaml::documents(text)?;
        let document = match (documents.pop(), documents.len()) {
            (Some(document), 0) => document,
            (last, others) => return Err(InvalidSiteFile::Documents(others + usize::from(last.is_some()))),
        };
        has_shape(&document)?;
        let file: Self = serde_path_to_error::deserialize(document).map_err(|error| {
            let what = serde_errors::text(&error.inner().to_string(), meaning);
            content(error.path().to_string(), what)
        })?;
        file.check()?;
        Ok(file)
    }

    /// Returns the role of a port on a node: the first that selects it.
    pub fn role_of(&self, node: &str, port: &PortIdentity<'_>) -> Option<&PortRole> {
        self.roles_of(node).find(|role| role.matches.matches(port))
    }

    /// Returns the roles that a node has, in the order in which they are tried.
    pub fn roles_of(&self, node: &str) -> impl Iterator<Item = &PortRole> {
        self.roles.iter().filter(move |role| role.nodes.include(node))
    }

    /// Returns the expectations of GPUs that a node has.
    pub fn gpus_of(&self, node: &str) -> impl Iterator<Item = &GpuRole> {
        self.gpus.iter().filter(move |role| role.nodes.include(node))
    }

    /// Returns the entry that accepts a finding about an object, at a time in seconds since 1970.
    pub fn ignores(&self, finding: &str, object: &str, node: &str, now: u64) -> Option<&IgnoredFinding> {
        self.ignore.iter().find(|entry| entry.accepts(finding, object, node, now))
    }

    fn check(&self) -> Result<(), InvalidSiteFile> {
        for (number, role) in self.roles.iter().enumerate() {
            role.check().map_err(|(key, what)| content(format!("roles[{number}].{key}"), what))?;
            if self.roles[..number].iter().any(|other| other.name == role.name) {
                let what = format!("{:?} is the name of two roles", role.name);
                return Err(content(format!("roles[{number}].name"), what));
            }
        }
        for (number, role) in self.gpus.iter().enumerate() {
            if (role.number, role.pcie_width) == (None, None) {
                let what = "says nothing about the GPUs: expected number or pcieWidth".to_owned();
                return Err(content(format!("gpus[{number}]"), what));
            }
        }
        for (number, entry) in self.ignore.iter().enumerate() {
            if entry.reason.trim().is_empty() {
                let what = "is empty: expected why the finding is accepted".to_owned();
                return Err(content(format!("ignore[{number}].reason"), what));
            }
        }
        Ok(())
    }
}

impl PortRole {
    fn check(&self) -> Result<(), (String, String)> {
        let wrong = |key: &str, what: &str| Err((key.to_owned(), what.to_owned()));
        if self.name.is_empty() {
            return wrong("name", "is empty: expected a name like rail");
        }
        if self.matches == PortSelector::default() {
            return wrong(
                "match",
                "is empty: expected at least one of pci, link, rdma, port, vendor, device, driver",
            );
        }
        if self.rate == Some(0) {
            return wrong("rate", "expected a rate in Gb/s, like 400, found 0");
        }
        if self.mtu.is_some_and(|mtu| !(LOWEST_MTU..=HIGHEST_MTU).contains(&mtu)) {
            return Err(("mtu".into(), format!("must be between {LOWEST_MTU} and {HIGHEST_MTU} bytes")));
        }
        if self.firmware.as_ref().is_some_and(Vec::is_empty) {
            return wrong("firmware", "is empty: expected a list of versions, like ['28.43.*']");
        }
        if let Some(Err(error)) = self.dcb.as_ref().map(WantedDcb::check) {
            return Err((format!("dcb.{}", error.key), error.what));
        }
        Ok(())
    }
}

/// Checks that mappings are mappings: serde would also accept a list of the values.
fn has_shape(document: &Value) -> Result<(), InvalidSiteFile> {
    let Some(keys) = document.as_object() else {
        return Err(InvalidSiteFile::Shape(serde_errors::kind(document)));
    };
    let wrong = |path: String, is: &Value| {
        content(path, format!("expected a mapping, found {}", serde_errors::kind(is)))
    };
    for key in ["roles", "gpus", "ignore"] {
        let list = keys.get(key).and_then(Value::as_array);
        for (number, element) in list.into_iter().flatten().enumerate() {
            let path = format!("{key}[{number}]");
            let Some(settings) = element.as_object() else { return Err(wrong(path, element)) };
            for key in MAPPINGS {
                if let Some(value) = settings.get(key).filter(|value| !value.is_object()) {
                    return Err(wrong(format!("{path}.{key}"), value));
                }
            }
        }
    }
    Ok(())
}

fn content(path: String, what: String) -> InvalidSiteFile {
    InvalidSiteFile::Content { path, what }
}

/// The purpose of a required key, with an example.
fn meaning(key: &str) -> &'static str {
    match key {
        "name" => "the name of the role, like `name: rail`",
        "match" => "the selection of ports, like `match: {link: 'ens*np0'}`",
        "finding" => "the kind of finding, like `finding: link-down` (`silkrail doctor --list`)",
        "reason" => "why the finding is accepted, like `reason: slot has eight lanes`",
        _ => "conf/node/site.yaml is an example",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        SiteFile::parse(text).unwrap_err().to_string()
    }

    fn port<'a>(link: &'a str, device: &'a str) -> PortIdentity<'a> {
        PortIdentity {
            link: Some(link),
            device: Some(device),
            vendor: Some("0x15b3"),
            ..PortIdentity::default()
        }
    }

    #[test]
    fn a_port_has_the_first_role_that_selects_it_on_its_node() {
        let text = "
roles:
  - name: spare
    nodes: ['gpu-0[1-3]']
    match: {link: 'ens*np1'}
    cabled: false
  - name: rail
    match: {vendor: '15B3', device: '1021'}
    ports: 8
    rate: 400
    firmware: ['28.43.*']
    dcb: {pfc: [3]}
";
        let file = SiteFile::parse(text).unwrap();
        let role = |node, port: &PortIdentity<'_>| file.role_of(node, port).map(|role| role.name.as_str());
        assert_eq!(role("gpu-02", &port("ens6f0np1", "0x1021")), Some("spare"));
        assert_eq!(role("GPU-02.example.org", &port("ens6f0np1", "0x1021")), Some("spare"));
        assert_eq!(role("gpu-09", &port("ens6f0np1", "0x1021")), Some("rail"));
        assert_eq!(role("gpu-09", &port("ens6f0np1", "0x1019")), None);
        assert!(file.roles[0].is_uncabled() && !file.roles[1].is_uncabled());
    }

    #[test]
    fn an_ignored_finding_ends() {
        let text = "ignore: [{finding: link-down, object: 'eth*', reason: rebuilt, until: 2026-11-20}]\n";
        let file = SiteFile::parse(text).unwrap();
        let ignored = |finding, object, now| file.ignores(finding, object, "gpu-01", now).is_some();
        assert!(ignored("link-down", "eth1", 1_795_161_662));
        assert!(!ignored("link-down", "ib0", 1_795_161_662));
        assert!(!ignored("link-no-carrier", "eth1", 1_795_161_662));
        assert!(!ignored("link-down", "eth1", 1_795_219_200), "the day is over");
    }

    #[test]
    fn any_entry_accepts_findings_on_its_nodes() {
        let text = "
ignore:
  - {finding: link-down, nodes: ['cpu-*'], reason: a}
  - {finding: link-down, object: eth9, reason: b}
  - {finding: mtu-differs, nodes: [gpu-01, 'GPU-02.example.*'], reason: c}
";
        let file = SiteFile::parse(text).unwrap();
        let reason =
            |finding, object, node| file.ignores(finding, object, node, 0).map(|entry| entry.reason.as_str());
        assert_eq!(reason("link-down", "eth1", "cpu-7"), Some("a"));
        assert_eq!(reason("link-down", "eth1", "gpu-01"), None);
        assert_eq!(reason("link-down", "eth9", "gpu-01"), Some("b"));
        for (node, expected) in
            [("gpu-01", Some("c")), ("gpu-02.example.org", Some("c")), ("gpu-02", None), ("gpu-03", None)]
        {
            assert_eq!(reason("mtu-differs", "eth1", node), expected, "{node}");
        }
    }

    #[test]
    fn gpus_are_expected_on_the_nodes_that_are_named() {
        let text = "gpus: [{nodes: ['gpu-*'], number: 8}, {pcieWidth: 16}]";
        let file = SiteFile::parse(text).unwrap();
        let numbers = |node| file.gpus_of(node).map(|role| role.number).collect::<Vec<_>>();
        assert_eq!((numbers("gpu-01"), numbers("cpu-01")), (vec![Some(8), None], vec![None]));
    }

    #[test]
    fn the_lowest_and_the_highest_values_are_valid() {
        for more in ["mtu: 68", "mtu: 65535", "rate: 1"] {
            SiteFile::parse(&format!("roles: [{{name: rail, match: {{link: eth0}}, {more}}}]")).unwrap();
        }
        SiteFile::parse("ignore: [{finding: a, reason: b, until: 2026-12-31}]").unwrap();
    }

    #[test]
    fn wrong_texts_are_refused_with_the_path_of_the_key() {
        let role = "roles: [{name: rail, match: {link: eth0}";
        for (text, expected) in [
            (format!("{role}, speed: 400}}]"), "roles[0].speed: unknown key `speed`"),
            (format!("{role}, rate: fast}}]"), "roles[0].rate: expected a number, found \"fast\""),
            (format!("{role}, rate: 0}}]"), "roles[0].rate: expected a rate in Gb/s"),
            (format!("{role}, mtu: 20}}]"), "roles[0].mtu: must be between 68 and 65535"),
            (format!("{role}, mtu: 67}}]"), "roles[0].mtu: must be between"),
            (format!("{role}, mtu: 65536}}]"), "roles[0].mtu: must be between"),
            ("roles: [{name: '', match: {port: 1}}]".into(), "roles[0].name: is empty"),
            ("roles: [{name: a, match: {link: ''}}]".into(), "roles[0].match.link: is empty"),
            ("ignore: [[a, b]]".into(), "ignore[0]: expected a mapping"),
            (
                "roles: []\n---\nroles: []\n".into(),
                "expected one YAML document with the keys roles, gpus and ignore, found 2",
            ),
            (format!("{role}, linkLayer: roce}}]"), "roles[0].linkLayer: unknown value `roce`, expected"),
            (format!("{role}, firmware: []}}]"), "roles[0].firmware: is empty"),
            (format!("{role}, dcb: {{pfc: [9]}}}}]"), "roles[0].dcb.pfc: expected priorities from 0 to 7"),
            (format!("{role}, dcb: [3]}}]"), "roles[0].dcb: expected a mapping, found a list"),
            (format!("{role}, pcie: {{lanes: 8}}}}]"), "roles[0].pcie.lanes: unknown key `lanes`"),
            (format!("{role}}}, {{name: rail, match: {{port: 1}}}}]"), "roles[1].name: \"rail\" is the name"),
            ("roles: [{name: rail, match: {}}]".into(), "roles[0].match: is empty"),
            ("roles: [{name: rail}]".into(), "roles[0]: match is missing: the selection of ports"),
            ("roles: [{name: rail, match: {link: 'a['}}]".into(), "roles[0].match.link: the pattern \"a[\""),
            ("gpus: [{nodes: [a]}]".into(), "gpus[0]: says nothing about the GPUs"),
            ("ignore: [{finding: link-down}]".into(), "ignore[0]: reason is missing: why"),
            ("ignore: [{finding: a, reason: ' '}]".into(), "ignore[0].reason: is empty"),
            ("ignore: [{finding: a, reason: b, until: soon}]".into(), "ignore[0].until: expected a day"),
            ("rails: []".into(), "rails: unknown key `rails`, expected one of `roles`"),
            ("[]".into(), "expected a mapping with the keys roles"),
            (String::new(), "expected one YAML document with the keys roles, gpus and ignore, found 0"),
        ] {
            let error = error(&text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
