//! What a network takes of the node.

use std::fmt;

/// What a network can take of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// The link that a pod's link, a VLAN or a bond is on, by its name or an altname of it.
    Master,
    /// How the master is shared: the mode of macvlan or ipvlan, or `bond`.
    Mode,
    /// A PCI function or an auxiliary device.
    Device,
    /// The VF's `trust`, `on` or `off`.
    Trust,
    /// The VF's `spoofchk`, `on` or `off`.
    SpoofCheck,
    /// The VF's `link_state`: `auto`, `enable` or `disable`.
    LinkState,
    /// A requested MAC address.
    Mac,
    /// A requested GUID.
    Guid,
    /// An address pool; a directory or an agent that provides pools, by its path; or [`Resource::INLINE_POOLS`].
    Pool,
    /// An IPAM plugin of another project.
    Ipam,
    /// A state directory besides the default one.
    StateDir,
    /// A log file.
    LogFile,
    /// The RDMA device of a PF that the node uses, `on`.
    AllowPf,
    /// A VLAN ID.
    Vlan,
    /// A VLAN priority besides 0.
    VlanQos,
    /// A partition key without the membership bit.
    Pkey,
    /// The VF's minimum transmit rate in Mbit/s.
    MinTxRate,
    /// The VF's maximum transmit rate in Mbit/s, 0 for no limit.
    MaxTxRate,
    /// The length of the broadcast queue, in frames.
    BroadcastQueue,
}

impl Resource {
    /// The name for the pools that a network brings with it. No pool can have it.
    pub const INLINE_POOLS: &'static str = "(inline)";

    /// The name for addresses of a `prevResult`. No pool can have it.
    pub const PREVIOUS_RESULT: &'static str = "(prevResult)";

    /// All of them. Those with numbers follow those with texts.
    pub const ALL: [Self; 19] = [
        Self::Master,
        Self::Mode,
        Self::Device,
        Self::Trust,
        Self::SpoofCheck,
        Self::LinkState,
        Self::Mac,
        Self::Guid,
        Self::Pool,
        Self::Ipam,
        Self::StateDir,
        Self::LogFile,
        Self::AllowPf,
        Self::Vlan,
        Self::VlanQos,
        Self::Pkey,
        Self::MinTxRate,
        Self::MaxTxRate,
        Self::BroadcastQueue,
    ];

    /// Returns the key of a rule that lists the allowed values.
    pub fn key(self) -> &'static str {
        const KEYS: [&str; Resource::ALL.len()] = [
            "masters",
            "modes",
            "devices",
            "trust",
            "spoofchk",
            "link_state",
            "macs",
            "guids",
            "pools",
            "ipam",
            "stateDir",
            "logFile",
            "allowPf",
            "vlans",
            "vlanQoS",
            "pkeys",
            "min_tx_rate",
            "max_tx_rate",
            "bcqueuelen",
        ];
        KEYS[self as usize]
    }

    pub(crate) fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.key() == key)
    }

    /// Whether its values have hexadecimal digits, of which the case does not matter.
    pub(crate) fn is_address(self) -> bool {
        matches!(self, Self::Device | Self::Mac | Self::Guid)
    }

    /// Whether its values are numbers, and those of a rule ranges.
    pub(crate) fn has_numbers(self) -> bool {
        self as usize >= Self::Vlan as usize
    }
}

/// What an ADD takes of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceUses(pub(crate) Vec<ResourceUse>);

/// The use of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceUse {
    pub(crate) resource: Resource,
    /// The names of one object, of which one must be allowed. The first one is for messages. A number is in decimal digits.
    pub(crate) names: Vec<String>,
}

impl ResourceUses {
    /// Adds the use of a resource with a value.
    pub fn add(&mut self, resource: Resource, value: &dyn fmt::Display) {
        self.add_named(resource, vec![value.to_string()]);
    }

    /// Adds the use of a resource if it has a value.
    pub fn add_some(&mut self, resource: Resource, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.add(resource, &value);
        }
    }

    /// Adds the use of `on` or `off`, if it is set.
    pub fn add_switch(&mut self, resource: Resource, on: Option<bool>) {
        self.add_some(resource, on.map(|on| if on { "on" } else { "off" }));
    }

    /// Adds the use of an object that has several names. A rule allows it if it lists one of them.
    pub fn add_named(&mut self, resource: Resource, names: Vec<String>) {
        self.0.push(ResourceUse { resource, names });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_is_found_by_its_key() {
        for (number, resource) in Resource::ALL.into_iter().enumerate() {
            assert_eq!((resource as usize, Resource::of_key(resource.key())), (number, Some(resource)));
        }
        assert!(Resource::Vlan.has_numbers() && !Resource::LogFile.has_numbers());
    }
}
