//! The plugins of a network.

mod coordinator;
mod infiniband;
mod ipam;
mod link;
mod main_plugin;
mod ovs;
mod plugin;
mod sriov;
mod values;

pub(crate) use plugin::Plugin;

use self::{coordinator::Coordinator, ipam::Ipam, values::without_effect};
use crate::{InvalidDocument, Target, cni_type::CniType, fields::Fields};

/// The plugins of a network, in the order in which they are called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chain {
    /// The plugin that creates the master of the main plugin.
    ifacer: Option<Plugin>,
    /// The plugin that creates the link.
    main: Plugin,
    ipam: Option<Ipam>,
    /// `rdma`, and the plugins of `chainCNIJsonData`.
    chained: Vec<Plugin>,
    coordinator: Option<Coordinator>,
    /// After the coordinator.
    tuning: Option<Plugin>,
    /// The resource whose devices the main plugin needs.
    pub(crate) resource: Option<String>,
}

impl Chain {
    /// Reads the settings of a type, and those of all types.
    pub(crate) fn read(
        kind: CniType,
        mut settings: Fields<'_>,
        spec: &mut Fields<'_>,
    ) -> Result<Self, InvalidDocument> {
        let is_disabled = is_ipam_disabled(spec)?;
        let ipam = Ipam::read(kind, &mut settings)?;
        let main = match kind {
            CniType::Macvlan | CniType::Ipvlan => link::read(kind, &mut settings),
            CniType::Vlan => link::read_vlan(&mut settings),
            CniType::Sriov => sriov::read(&mut settings),
            CniType::IbSriov => infiniband::read_vf(&mut settings),
            CniType::Ipoib => infiniband::read_ipoib(&mut settings),
            CniType::Ovs | CniType::Custom => ovs::read(&mut settings),
        }?;
        settings.end()?;
        let mut chained = Vec::from_iter(main.has_rdma.then(|| Plugin::new("rdma")));
        for text in spec.texts("chainCNIJsonData")? {
            chained.push(Plugin::parse(text).map_err(|what| spec.invalid("chainCNIJsonData", what))?);
        }
        Ok(Self {
            ifacer: main.ifacer,
            main: main.main,
            ipam: ipam.filter(|_| !is_disabled),
            chained,
            coordinator: Coordinator::read(spec)?,
            tuning: main.mtu.map(|mtu| Plugin::new("tuning").with("mtu", mtu)),
            resource: main.resource,
        })
    }

    /// Returns the plugins for a node.
    pub(crate) fn plugins(&self, target: Target) -> Vec<Plugin> {
        let mut main = self.main.clone();
        if let Some(ipam) = &self.ipam {
            main = main.with("ipam", ipam.value(target));
        }
        let coordinator = self.coordinator.as_ref().filter(|_| target.has_spiderpool());
        if !target.has_spiderpool() && self.main_detects_conflicts() {
            main = main.with("detectIPConflict", true);
        }
        let mut plugins: Vec<_> = self.ifacer.clone().into_iter().collect();
        plugins.push(main);
        plugins.extend(self.chained.iter().cloned());
        plugins.extend(coordinator.map(Coordinator::plugin));
        plugins.extend(self.tuning.clone());
        plugins
    }

    /// Whether the main plugin does what the coordinator is to do.
    fn main_detects_conflicts(&self) -> bool {
        let can = self.main.is("macvlan") || self.main.is("sriov");
        can && self.coordinator.as_ref().is_some_and(Coordinator::detects_conflicts)
    }

    /// Returns what is otherwise than on a node with Spiderpool, or needs it nevertheless.
    pub(crate) fn remarks(&self, target: Target) -> Vec<String> {
        if target.has_spiderpool() {
            return Vec::new();
        }
        let mut remarks = self.coordinator.as_ref().map(Coordinator::effects).unwrap_or_default();
        if self.main_detects_conflicts() {
            remarks.retain(|remark| !remark.contains("detectIPConflict"));
        }
        if self.ipam.as_ref().is_some_and(Ipam::is_reduced) {
            remarks.push("silkrail-ipam has no matchMasterSubnet: every pool of the list is used".to_owned());
        }
        if self.chained.iter().any(|plugin| plugin.is("coordinator")) {
            remarks.push("chainCNIJsonData contains the coordinator, which needs Spiderpool".to_owned());
        }
        remarks
    }
}

/// Reads `disableIPAM`, and `ipam` of later versions, which overrides it.
fn is_ipam_disabled(spec: &mut Fields<'_>) -> Result<bool, InvalidDocument> {
    let is_disabled = spec.flag("disableIPAM")?.unwrap_or_default();
    let Some(mut ipam) = spec.object("ipam")? else { return Ok(is_disabled) };
    let is_enabled = ipam.flag("enabled")?;
    without_effect(&mut ipam, &["logOptions"]);
    ipam.end()?;
    Ok(is_enabled.map_or(is_disabled, |is_enabled| !is_enabled))
}
