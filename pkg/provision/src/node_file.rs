//! The node file: the wanted configuration of a node.

use std::path::PathBuf;

use dcb::WantedDcb;
use identifiers::{LinkName, PciAddress};
use inventory::{Inventory, Pf};
use rdma::NetnsMode;
use serde::Deserialize;
use serde_json::{Map, Value};
use yaml::serde_errors;

use crate::{GuidFile, InvalidNodeFile};

/// The content of a node file, `/etc/silkrail/node.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFile {
    /// The RDMA mode; unchanged if `None`.
    #[serde(default, with = "mode")]
    pub rdma_mode: Option<NetnsMode>,
    /// The PFs. Other PFs are never changed.
    #[serde(default)]
    pub pfs: Vec<PfSpec>,
    /// A file of GUIDs, for PFs with `guid: file`.
    pub guid_file: Option<PathBuf>,
    /// The devices for the kubelet, which are read by silkraild.
    #[serde(default)]
    pub device_plugin: Option<Map<String, Value>>,
    /// The content of that file; the caller reads it.
    #[serde(skip)]
    pub guids: GuidFile,
}

/// The wanted configuration of the PFs that a selector matches.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PfSpec {
    /// Selects the PFs.
    #[serde(rename = "match")]
    pub matches: PfSelector,
    /// The number of VFs of each PF.
    pub vfs: u32,
    /// The PF's MTU in bytes; unchanged if `None`.
    pub mtu: Option<u32>,
    /// The PF's DCB settings; unchanged if `None`.
    pub dcb: Option<WantedDcb>,
    /// The wanted configuration of its VFs.
    #[serde(default)]
    pub vf: VfSpec,
    /// Whether another program manages the PF. It is then compared, and never changed.
    #[serde(default)]
    pub externally_managed: bool,
    /// Whether it is not an error if no PF matches.
    #[serde(default)]
    pub optional: bool,
    /// Whether it is changed even if the node's own traffic may run over it.
    #[serde(default)]
    pub force: bool,
}

/// A selector of PFs. A PF must match all keys that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PfSelector {
    /// The PCI address, like `0000:af:00.0`.
    pub pci: Option<PciAddress>,
    /// The name of the link, like `ens6f0np0`.
    pub link: Option<LinkName>,
    /// The name of the RDMA device, like `mlx5_0`.
    pub rdma: Option<String>,
    /// The PCI vendor ID, like `15b3`.
    pub vendor: Option<String>,
    /// The PCI device ID, like `101d`.
    pub device: Option<String>,
    /// The driver, like `mlx5_core`.
    pub driver: Option<String>,
}

/// The wanted configuration of VFs. Settings that are `None` are not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VfSpec {
    /// The source of their MAC addresses.
    #[serde(default)]
    pub mac: MacPolicy,
    /// The source of their GUIDs, on InfiniBand.
    #[serde(default)]
    pub guid: GuidPolicy,
    /// Whether they may change their MAC addresses and use promiscuous mode (`ip link set … vf … trust`).
    pub trust: Option<bool>,
    /// Whether frames with other source addresses are dropped.
    pub spoof_check: Option<bool>,
    /// The state of their links (`ip link set … vf … state`).
    pub link_state: Option<LinkState>,
    /// Their MTU in bytes.
    pub mtu: Option<u32>,
}

/// The source of the MAC addresses of VFs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MacPolicy {
    /// Derived from the PF's own address and the VF index: stable across boots, and unique.
    #[default]
    Stable,
    /// The address that the driver chooses; with most drivers a new one after each boot.
    Keep,
}

/// The source of the GUIDs of InfiniBand VFs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuidPolicy {
    /// Derived from the PF's own GUID and the VF index.
    #[default]
    Stable,
    /// The GUID that the driver chooses.
    Keep,
    /// From the file that `guidFile` names.
    File,
}

/// The link state of a VF, relative to the port of its PF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// It follows the state of the port.
    Auto,
    /// It is always up, so that VFs of one port reach each other even if the port is down.
    Enable,
    /// It is always down.
    Disable,
}

const LOWEST_MTU: u32 = 68;
const HIGHEST_MTU: u32 = 65_535;

impl NodeFile {
    /// Parses the YAML text of a node file.
    ///
    /// # Errors
    /// [`InvalidNodeFile`], also for unknown keys, which are usually misspelled.
    pub fn parse(text: &str) -> Result<Self, InvalidNodeFile> {
        let mut documents = yaml::documents(text)?;
        let document = match (documents.pop(), documents.len()) {
            (Some(document), 0) => document,
            (last, others) => return Err(InvalidNodeFile::Documents(others + usize::from(last.is_some()))),
        };
        has_shape(&document)?;
        let file: Self = serde_path_to_error::deserialize(document).map_err(|error| {
            let what = serde_errors::text(&error.inner().to_string(), meaning);
            InvalidNodeFile::Content { path: error.path().to_string(), what }
        })?;
        for (number, pf) in file.pfs.iter().enumerate() {
            pf.check().map_err(|(key, what)| InvalidNodeFile::Content {
                path: format!("pfs[{number}].{key}"),
                what,
            })?;
        }
        if file.guid_file.is_none() && file.pfs.iter().any(|pf| pf.vf.guid == GuidPolicy::File) {
            let what = "is missing: a PF has `guid: file`".to_owned();
            return Err(InvalidNodeFile::Content { path: "guidFile".into(), what });
        }
        Ok(file)
    }
}

/// Checks that mappings are mappings: serde would also accept a list of the values.
fn has_shape(document: &Value) -> Result<(), InvalidNodeFile> {
    let Some(keys) = document.as_object() else {
        return Err(InvalidNodeFile::Shape(serde_errors::kind(document)));
    };
    let wrong = |path: String, is: &Value| InvalidNodeFile::Content {
        path,
        what: format!("expected a mapping, found {}", serde_errors::kind(is)),
    };
    for (number, pf) in keys.get("pfs").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let Some(settings) = pf.as_object() else { return Err(wrong(format!("pfs[{number}]"), pf)) };
        for key in ["match", "vf", "dcb"] {
            if let Some(value) = settings.get(key).filter(|value| !value.is_object()) {
                return Err(wrong(format!("pfs[{number}].{key}"), value));
            }
        }
    }
    Ok(())
}

/// The purpose of a required key, with an example.
fn meaning(key: &str) -> &'static str {
    match key {
        "vfs" => "the number of VFs of each PF, like `vfs: 8`",
        "match" => "the selection of PFs, like `match: {link: ens6f0np0}`",
        _ => "`silkrail apply --help` shows an example",
    }
}

impl PfSpec {
    fn check(&self) -> Result<(), (String, String)> {
        if self.matches == PfSelector::default() {
            let what = "is empty: expected at least one of pci, link, rdma, vendor, device, driver";
            return Err(("match".into(), what.into()));
        }
        for (key, mtu) in [("mtu", self.mtu), ("vf.mtu", self.vf.mtu)] {
            if mtu.is_some_and(|mtu| !(LOWEST_MTU..=HIGHEST_MTU).contains(&mtu)) {
                return Err((key.into(), format!("must be between {LOWEST_MTU} and {HIGHEST_MTU} bytes")));
            }
        }
        if let (Some(pf), Some(vf)) = (self.mtu, self.vf.mtu)
            && vf > pf
        {
            return Err((
                "vf.mtu".into(),
                format!("{vf} exceeds the MTU {pf} of the PF, which limits its VFs"),
            ));
        }
        if let Some(Err(wrong)) = self.dcb.as_ref().map(WantedDcb::check) {
            return Err((format!("dcb.{}", wrong.key), wrong.what));
        }
        Ok(())
    }
}

impl PfSelector {
    /// Whether a PF matches all keys that are set.
    pub fn holds(&self, pf: &Pf) -> bool {
        let ids = pf.ids.as_ref();
        let is = |said: &Option<String>, is: Option<&String>| {
            said.as_ref().is_none_or(|said| {
                is.is_some_and(|is| is.eq_ignore_ascii_case(said.trim_start_matches("0x")))
            })
        };
        self.pci.is_none_or(|pci| pci == pf.pci)
            && self.link.as_ref().is_none_or(|link| pf.link.as_ref().is_some_and(|is| is.name == *link))
            && self.rdma.as_ref().is_none_or(|device| pf.rdma.contains(device))
            && is(&self.vendor, ids.map(|ids| &ids.vendor))
            && is(&self.device, ids.map(|ids| &ids.device))
            && is(&self.driver, pf.driver.as_ref())
    }

    /// Returns the PFs that match.
    pub(crate) fn find<'a>(&self, inventory: &'a Inventory) -> Vec<&'a Pf> {
        inventory.pfs.iter().filter(|pf| self.holds(pf)).collect()
    }
}

impl std::fmt::Display for PfSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = [
            ("pci", self.pci.map(|pci| pci.to_string())),
            ("link", self.link.as_ref().map(ToString::to_string)),
            ("rdma", self.rdma.clone()),
            ("vendor", self.vendor.clone()),
            ("device", self.device.clone()),
            ("driver", self.driver.clone()),
        ];
        let said: Vec<_> =
            said.into_iter().filter_map(|(key, value)| Some(format!("{key}: {}", value?))).collect();
        write!(f, "{{{}}}", said.join(", "))
    }
}

impl LinkState {
    /// The kernel's number, `IFLA_VF_LINK_STATE_*` in linux/if_link.h.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Auto => 0,
            Self::Enable => 1,
            Self::Disable => 2,
        }
    }
}

/// Deserializes a mode; only the spellings of `silkrail mode` are valid.
mod mode {
    use super::{Deserialize, NetnsMode};

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Option<NetnsMode>, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Some).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        NodeFile::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_node_file_is_parsed() {
        let text = "
rdmaMode: exclusive
pfs:
  - match: {link: ens6f0np0}
    vfs: 8
    mtu: 9000
    vf: {trust: true, spoofCheck: false, linkState: enable, mtu: 9000, mac: keep}
  - match: {vendor: 15b3, device: '101d'}
    vfs: 4
    optional: true
";
        let file = NodeFile::parse(text).unwrap();
        assert_eq!(file.rdma_mode, Some(NetnsMode::Exclusive));
        assert_eq!((file.pfs[0].vfs, file.pfs[0].mtu, file.pfs[0].vf.mac), (8, Some(9000), MacPolicy::Keep));
        assert_eq!(file.pfs[0].vf.link_state, Some(LinkState::Enable));
        assert_eq!((file.pfs[1].vf.mac, file.pfs[1].optional), (MacPolicy::Stable, true));
    }

    /// study case V30.
    #[test]
    fn an_unknown_key_is_an_error_that_lists_the_known_ones() {
        let error = error("pfs:\n  - match: {pci: 0000:af:00.0}\n    numvf: 8\n    vfs: 1\n");
        assert!(error.starts_with("pfs[0].numvf: unknown key `numvf`"), "{error}");
        assert!(error.contains("`vfs`"), "{error}");
    }

    /// study case B22.
    #[test]
    fn a_mode_has_one_spelling() {
        for mode in ["Exclusive", "0", "''", "both"] {
            let error = error(&format!("rdmaMode: {mode}\n"));
            assert!(error.starts_with("rdmaMode: "), "{mode}: {error}");
        }
        assert_eq!(NodeFile::parse("pfs: []\n").unwrap().rdma_mode, None);
    }

    /// study case V28.
    #[test]
    fn a_vf_cannot_have_more_than_its_pf() {
        let pf = "pfs:\n  - match: {pci: 0000:af:00.0}\n    vfs: 1\n";
        assert_eq!(
            error(&format!("{pf}    mtu: 1500\n    vf: {{mtu: 9000}}\n")),
            "pfs[0].vf.mtu: 9000 exceeds the MTU 1500 of the PF, which limits its VFs"
        );
        for (key, bad) in [("mtu", 67), ("mtu", 65_536), ("vf.mtu", 67), ("vf.mtu", 65_536)] {
            let line = if key == "mtu" { format!("mtu: {bad}") } else { format!("vf: {{mtu: {bad}}}") };
            let expected = format!("pfs[0].{key}: must be between 68 and 65535 bytes");
            assert_eq!(error(&format!("{pf}    {line}\n")), expected);
        }
        for good in [68, 65_535] {
            NodeFile::parse(&format!("{pf}    mtu: {good}\n    vf: {{mtu: {good}}}\n")).unwrap();
        }
    }

    #[test]
    fn a_pf_must_match_all_keys() {
        let pf = Pf { rdma: vec!["mlx5_0".into(), "mlx5_9".into()], ..crate::tests::pf(0) };
        let parts = [
            ("pci: 0000:af:00.0", "pci: 0000:af:00.1"),
            ("link: ens6f0np0", "link: ens6f1np1"),
            ("rdma: mlx5_9", "rdma: mlx5_1"),
            ("vendor: '0x15B3'", "vendor: '8086'"),
            ("device: 101D", "device: 101e"),
            ("driver: mlx5_core", "driver: ice"),
        ];
        let holds = |keys: &[&str]| {
            let file =
                NodeFile::parse(&format!("pfs: [{{match: {{{}}}, vfs: 1}}]", keys.join(", "))).unwrap();
            file.pfs[0].matches.holds(&pf)
        };
        assert!(holds(&parts.map(|(right, _)| right)));
        for (number, (right, wrong)) in parts.into_iter().enumerate() {
            assert!(holds(&[right]) && !holds(&[wrong]), "{right}");
            let mut keys = parts.map(|(right, _)| right);
            keys[number] = wrong;
            assert!(!holds(&keys), "{wrong}");
        }
    }

    #[test]
    fn an_invalid_value_is_reported_with_its_path() {
        for (pf, path) in [
            ("[1]", "pfs[1]: expected a mapping"),
            ("{match: [a], vfs: 1}", "pfs[1].match: expected a mapping"),
            ("{match: {link: p0}, vfs: 1, vf: [a]}", "pfs[1].vf: expected a mapping"),
            ("{match: {link: p0}, vfs: 1, dcb: [a]}", "pfs[1].dcb: expected a mapping"),
            ("{match: {link: p0}, vfs: 1, dcb: {pfc: [8]}}", "pfs[1].dcb.pfc: "),
            ("{match: {link: p0}}", "pfs[1]: vfs is missing"),
        ] {
            let error = error(&format!("pfs: [{{match: {{link: p0}}, vfs: 1}}, {pf}]"));
            assert!(error.starts_with(path), "{pf}: {error}");
        }
    }

    #[test]
    fn an_empty_match_is_refused() {
        assert!(error("pfs:\n  - match: {}\n    vfs: 1\n").starts_with("pfs[0].match: is empty"));
        assert!(error("pfs:\n  - match: {pci: af00.0}\n    vfs: 1\n").starts_with("pfs[0].match.pci: "));
        assert!(error("").starts_with("the file is empty: expected keys like rdmaMode"));
        assert!(error("pfs: []\n---\npfs: []\n").starts_with("expected one YAML document, found 2: remove"));
    }
}
