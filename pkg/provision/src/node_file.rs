//! The node file: what a node should be like.

use std::path::PathBuf;

use identifiers::{LinkName, PciAddress};
use inventory::{Inventory, Pf};
use rdma::NetnsMode;
use serde::Deserialize;
use serde_json::Value;

use crate::{GuidFile, serde_errors};

/// The content of a node file, `/etc/silkrail/node.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFile {
    /// The RDMA mode; it is left as it is without.
    #[serde(default, with = "mode")]
    pub rdma_mode: Option<NetnsMode>,
    /// The PFs. Others are never touched.
    #[serde(default)]
    pub pfs: Vec<PfSpec>,
    /// A file of GUIDs, for PFs with `guid: file`.
    pub guid_file: Option<PathBuf>,
    /// What that file says, once it was read.
    #[serde(skip)]
    pub guids: GuidFile,
}

/// What some PFs should be like.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PfSpec {
    /// Which PFs.
    #[serde(rename = "match")]
    pub matches: PfSelector,
    /// How many VFs each should have.
    pub vfs: u32,
    /// The PF's MTU; it is left as it is without.
    pub mtu: Option<u32>,
    /// What its VFs should be like.
    #[serde(default)]
    pub vf: VfSpec,
    /// Whether somebody else makes its VFs. Then it is only compared.
    #[serde(default)]
    pub externally_managed: bool,
    /// Whether it may be missing.
    #[serde(default)]
    pub optional: bool,
    /// Whether it is changed although the node's own traffic may run over it.
    #[serde(default)]
    pub force: bool,
}

/// Which PFs: those for which everything holds that is said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PfSelector {
    /// The one at this address.
    pub pci: Option<PciAddress>,
    /// The one with this link.
    pub link: Option<LinkName>,
    /// The one with this RDMA device.
    pub rdma: Option<String>,
    /// Those of this maker, like `15b3`.
    pub vendor: Option<String>,
    /// Those of this model, like `101d`.
    pub device: Option<String>,
    /// Those of this driver, like `mlx5_core`.
    pub driver: Option<String>,
}

/// What VFs should be like. What is not said is left as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VfSpec {
    /// Their MAC addresses.
    #[serde(default)]
    pub mac: MacPolicy,
    /// Their GUIDs, on InfiniBand.
    #[serde(default)]
    pub guid: GuidPolicy,
    /// Whether they may change their MAC addresses, be promiscuous, and the like.
    pub trust: Option<bool>,
    /// Whether frames with other source addresses are dropped.
    pub spoof_check: Option<bool>,
    /// Whether their links follow the port's.
    pub link_state: Option<LinkState>,
    /// Their MTU.
    pub mtu: Option<u32>,
}

/// Where MAC addresses of VFs come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MacPolicy {
    /// From the PF's own and the VF's number: the same after each boot, and no other on the network.
    #[default]
    Stable,
    /// The driver's own: a new one after each boot with most.
    Keep,
}

/// Where GUIDs of InfiniBand VFs come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuidPolicy {
    /// From the PF's own and the VF's number.
    #[default]
    Stable,
    /// The driver's own.
    Keep,
    /// From the file that `guidFile` names.
    File,
}

/// What a VF's link does when the port has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// It follows the port.
    Auto,
    /// It is up, so that VFs of one port still reach each other.
    Enable,
    /// It is down.
    Disable,
}

/// Why a text is no node file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNodeFile {
    /// It is no YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::InvalidYaml),
    /// It has not one document.
    #[error("{}", documents(*.0))]
    Documents(usize),
    /// It is something else than keys and values.
    #[error("expected keys like rdmaMode and pfs, found {0} (`silkrail apply --help` shows a node file)")]
    Shape(&'static str),
    /// Something in it is not understood.
    #[error("{path}: {what}")]
    Content {
        /// Where, like `pfs[0].vfs`.
        path: String,
        /// What is wrong.
        what: String,
    },
}

fn documents(found: usize) -> String {
    match found {
        0 => "the file is empty: expected keys like rdmaMode and pfs (`silkrail apply --help` shows a node file)".into(),
        _ => format!("expected one YAML document, found {found}: remove what is behind the first ---"),
    }
}

const LOWEST_MTU: u32 = 68;
const HIGHEST_MTU: u32 = 65_535;

impl NodeFile {
    /// Reads a text.
    ///
    /// # Errors
    /// [`InvalidNodeFile`]; a key that is not known is one too: whoever wrote it meant something.
    pub fn parse(text: &str) -> Result<Self, InvalidNodeFile> {
        let mut documents = yaml::documents(text)?;
        let document = match (documents.pop(), documents.len()) {
            (Some(document), 0) => document,
            (last, others) => return Err(InvalidNodeFile::Documents(others + usize::from(last.is_some()))),
        };
        has_shape(&document)?;
        let file: Self = serde_path_to_error::deserialize(document).map_err(|error| {
            let what = serde_errors::text(&error.inner().to_string());
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

/// Where keys are expected, serde would take a list of their values too.
fn has_shape(document: &Value) -> Result<(), InvalidNodeFile> {
    let Some(keys) = document.as_object() else {
        return Err(InvalidNodeFile::Shape(serde_errors::kind(document)));
    };
    let wrong = |path: String, is: &Value| InvalidNodeFile::Content {
        path,
        what: format!("expected keys and values, found {}", serde_errors::kind(is)),
    };
    for (number, pf) in keys.get("pfs").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let Some(settings) = pf.as_object() else { return Err(wrong(format!("pfs[{number}]"), pf)) };
        for key in ["match", "vf"] {
            if let Some(value) = settings.get(key).filter(|value| !value.is_object()) {
                return Err(wrong(format!("pfs[{number}].{key}"), value));
            }
        }
    }
    Ok(())
}

impl PfSpec {
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.matches == PfSelector::default() {
            let what = "says nothing: expected at least one of pci, link, rdma, vendor, device, driver";
            return Err(("match", what.into()));
        }
        for (key, mtu) in [("mtu", self.mtu), ("vf.mtu", self.vf.mtu)] {
            if mtu.is_some_and(|mtu| !(LOWEST_MTU..=HIGHEST_MTU).contains(&mtu)) {
                return Err((key, format!("expected {LOWEST_MTU} to {HIGHEST_MTU} bytes")));
            }
        }
        if let (Some(pf), Some(vf)) = (self.mtu, self.vf.mtu)
            && vf > pf
        {
            return Err(("vf.mtu", format!("{vf} is more than the PF's {pf}, which limits its VFs")));
        }
        Ok(())
    }
}

impl PfSelector {
    /// Whether all that is said holds for a PF.
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

    /// The PFs for which it holds.
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
    /// As the kernel counts them (`IFLA_VF_LINK_STATE_*`).
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Auto => 0,
            Self::Enable => 1,
            Self::Disable => 2,
        }
    }
}

/// A mode is written as `silkrail mode` writes it, and in no other way.
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
    fn a_node_file_says_what_is_wanted() {
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
    fn a_key_that_is_not_known_is_an_error_that_names_those_that_are() {
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
            "pfs[0].vf.mtu: 9000 is more than the PF's 1500, which limits its VFs"
        );
        assert_eq!(error(&format!("{pf}    mtu: 20\n")), "pfs[0].mtu: expected 68 to 65535 bytes");
    }

    #[test]
    fn a_match_that_says_nothing_would_take_every_pf() {
        assert!(error("pfs:\n  - match: {}\n    vfs: 1\n").starts_with("pfs[0].match: says nothing"));
        assert!(error("pfs:\n  - match: {pci: af00.0}\n    vfs: 1\n").starts_with("pfs[0].match.pci: "));
        assert!(error("").starts_with("the file is empty: expected keys like rdmaMode"));
        assert!(error("pfs: []\n---\npfs: []\n").starts_with("expected one YAML document, found 2: remove"));
    }
}
