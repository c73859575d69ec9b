//! The IPAM plugin.

use serde_json::{Value, json};

use crate::{InvalidDocument, Target, cni_type::CniType, fields::Fields};

/// The pools of a network.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ipam {
    ipv4: Vec<String>,
    ipv6: Vec<String>,
    matches_master_subnet: bool,
}

impl Ipam {
    /// Reads `ippools`. Without it, the pools are those of the node, of the namespace or of the pod.
    pub(super) fn read(kind: CniType, settings: &mut Fields<'_>) -> Result<Option<Self>, InvalidDocument> {
        let Some(mut pools) = settings.object("ippools")? else { return Ok(Some(Self::default())) };
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let ipam = Self {
            ipv4: names(pools.texts("ipv4")?),
            ipv6: names(pools.texts("ipv6")?),
            matches_master_subnet: pools.flag("matchMasterSubnet")?.unwrap_or_default(),
        };
        if ipam.matches_master_subnet && kind != CniType::Sriov {
            return Err(pools.invalid("matchMasterSubnet", "only a network with cniType sriov can have it"));
        }
        pools.end()?;
        Ok(Some(ipam))
    }

    pub(super) fn value(&self, target: Target) -> Value {
        let mut ipam = json!({"type": target.ipam()});
        if let Some(store) = target.store() {
            ipam["store"] = store.into();
        }
        for (key, pools) in [("default_ipv4_ippool", &self.ipv4), ("default_ipv6_ippool", &self.ipv6)] {
            if !pools.is_empty() {
                ipam[key] = json!(pools);
            }
        }
        if self.matches_master_subnet && target.has_spiderpool() {
            ipam["match_master_subnet"] = true.into();
        }
        ipam
    }

    /// Whether `silkrail-ipam` does not do what is set.
    pub(super) fn is_reduced(&self) -> bool {
        self.matches_master_subnet
    }
}
