//! The configuration of a child link.

use std::time::Duration;

use cni::{AddResult, CallContext, Dns, Error};
use identifiers::{AnyLinkName, MacAddr};
use pod_routing::PodRouting;
use rtnl::LinkLayer;

use crate::ChildLinkKind;

/// A configuration that was read and checked.
pub(crate) struct ChildLinkConf<K: ChildLinkKind> {
    pub(crate) settings: ParentConf,
    pub(crate) mode: K::Mode,
    pub(crate) mac: Option<MacAddr>,
    /// The `prevResult` of the chain, if the kind takes its addresses from it.
    pub(crate) chained: Option<AddResult>,
    /// The `dns` of the configuration, for the result.
    pub(crate) dns: Dns,
    pub(crate) routing: PodRouting,
}

/// The settings that every kind has.
#[derive(Debug, Clone)]
pub struct ParentConf {
    /// `master`, the parent's name or an altname of it; `None` means that of the chain, or else the link that has the default route.
    pub master: Option<AnyLinkName>,
    /// `mtu` in bytes; `None` means the parent's. Not yet compared with the parent's.
    pub mtu: Option<i64>,
    /// `linkInContainer`: whether the parent is in the pod.
    pub link_in_container: bool,
    /// `rdma`: whether the pod requires RDMA.
    pub rdma: SharedRdmaRequirement,
}

/// Whether a pod requires RDMA: `rdma.require`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedRdmaRequirement {
    /// The pod starts without RDMA if there is none.
    Optional,
    /// The pod does not start without RDMA. The value is `rdma.timeoutMs`, in which its address must become a GID.
    Required(Duration),
}

/// The default of `rdma.timeoutMs`: how long a pod's address may take to become a GID. The kernel needs milliseconds,
/// busy firmware of a card may need seconds.
const DEFAULT_GID_TIMEOUT: Duration = Duration::from_secs(10);

impl<K: ChildLinkKind> ChildLinkConf<K> {
    /// Reads a configuration.
    ///
    /// # Errors
    /// If a value is invalid; the message contains its key.
    pub(crate) fn of(kind: &K, common: &CallContext<'_>) -> Result<Self, Error> {
        let fields = common.conf.fields();
        let chained = if K::CHAINED { common.conf.prev_result()? } else { None };
        let master = match fields.text("master")? {
            Some(name) => Some(
                name.parse()
                    .map_err(|why| fields.invalid("master", "a link name", format!("{name:?} ({why})")))?,
            ),
            None => None,
        };
        let settings = ParentConf {
            master,
            mtu: fields.integer("mtu")?.filter(|mtu| *mtu != 0),
            link_in_container: fields.flag("linkInContainer")?.unwrap_or(false),
            rdma: rdma(common)?,
        };
        if settings.link_in_container && settings.rdma != SharedRdmaRequirement::Optional {
            let why =
                "rdma.require cannot be combined with linkInContainer: the RDMA device belongs to the node";
            return Err(Error::config(why));
        }
        let (mode, mac, dns) = (kind.mode(common)?, kind.mac(common)?, common.conf.dns()?);
        let routing = PodRouting::of(common)?;
        let routing = if K::CAN_PROBE { routing } else { routing.without_conflict_detection(K::NAME)? };
        Ok(Self { settings, mode, mac, chained, dns, routing })
    }

    /// Takes the parent of an ADD from the chain, unless the configuration has a `master`. The `prevResult` of a CHECK has
    /// the pod's link instead.
    ///
    /// # Errors
    /// If the chain does not have exactly one interface.
    pub(crate) fn or_chained_master(mut self) -> Result<Self, Error> {
        if let (None, Some(chained)) = (&self.settings.master, &self.chained) {
            self.settings.master = Some(only_interface(chained)?);
        }
        Ok(self)
    }

    /// Whether the `prevResult` has addresses. They are the pod's without an IPAM plugin.
    pub(crate) fn has_chained_addresses(&self) -> bool {
        self.chained.as_ref().is_some_and(|prev| !prev.ips.is_empty())
    }

    /// Checks, for ADD, that a link that needs addresses will get some.
    ///
    /// # Errors
    /// If the configuration has no source of addresses.
    pub(crate) fn require_addresses(&self, common: &CallContext<'_>) -> Result<(), Error> {
        if common.conf.ipam_type()?.is_some() || self.has_chained_addresses() {
            return Ok(());
        }
        if self.settings.rdma != SharedRdmaRequirement::Optional && K::LAYER == LinkLayer::Ethernet {
            return Err(Error::config("rdma.require needs addresses: without ipam no address becomes a GID"));
        }
        if !K::LAYER_2 {
            return Err(Error::config(format!(
                "ipam: {} needs an IPAM plugin, or a previous plugin in the chain that assigns addresses",
                K::NAME
            )));
        }
        common.conf.require_results_without_addresses()
    }
}

/// Returns the parent of a chained link: the only interface of `prevResult`.
fn only_interface(prev: &AddResult) -> Result<AnyLinkName, Error> {
    let chained = || Error::config("chained master failure. PrevResult lacks a single named interface");
    match prev.interfaces.as_slice() {
        [interface] => interface.name.parse().map_err(|_| chained()),
        _ => Err(chained()),
    }
}

fn rdma(common: &CallContext<'_>) -> Result<SharedRdmaRequirement, Error> {
    let Some(rdma) = common.conf.fields().object("rdma")? else { return Ok(SharedRdmaRequirement::Optional) };
    if !rdma.flag("require")?.unwrap_or(false) {
        return Ok(SharedRdmaRequirement::Optional);
    }
    let timeout = match rdma.integer("timeoutMs")? {
        None => DEFAULT_GID_TIMEOUT,
        Some(ms) => match u32::try_from(ms) {
            Ok(ms) if (1..=100_000).contains(&ms) => Duration::from_millis(ms.into()),
            _ => return Err(rdma.invalid("timeoutMs", "milliseconds from 1 to 100000", ms)),
        },
    };
    Ok(SharedRdmaRequirement::Required(timeout))
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf, ResultInterface};

    use super::*;
    use crate::fixture::ChainedKind;

    fn with<T>(keys: &str, read: impl FnOnce(&CallContext<'_>) -> T) -> T {
        let stdin = format!(r#"{{"cniVersion": "1.1.0", "name": "rail", {keys}}}"#);
        let conf = NetConf::parse(stdin.as_bytes()).unwrap();
        read(&CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: stdin.as_bytes() })
    }

    fn conf(keys: &str) -> Result<ChildLinkConf<ChainedKind>, Error> {
        with(keys, |common| ChildLinkConf::of(&ChainedKind, common))
    }

    #[test]
    fn a_pod_requires_rdma_only_if_it_says_so_and_waits_for_the_configured_time() {
        let read = |keys: &str| with(&format!(r#""rdma": {keys}"#), rdma);
        for optional in ["null", "{}", r#"{"require": false}"#, r#"{"require": false, "timeoutMs": 0}"#] {
            assert_eq!(read(optional).unwrap(), SharedRdmaRequirement::Optional, "{optional}");
        }
        for (timeout, milliseconds) in [("null", 10_000), ("1", 1), ("100000", 100_000)] {
            let required = SharedRdmaRequirement::Required(Duration::from_millis(milliseconds));
            assert_eq!(read(&format!(r#"{{"require": true, "timeoutMs": {timeout}}}"#)).unwrap(), required);
        }
        for invalid in ["0", "-1", "100001"] {
            assert!(read(&format!(r#"{{"require": true, "timeoutMs": {invalid}}}"#)).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_link_in_the_pod_cannot_require_the_nodes_rdma_device() {
        let required = r#""rdma": {"require": true}"#;
        assert!(conf(&format!(r#""linkInContainer": true, {required}"#)).is_err());
        assert!(conf(&format!(r#""linkInContainer": false, {required}"#)).is_ok());
        assert!(conf(r#""linkInContainer": true, "rdma": {"require": false}"#).is_ok());
    }

    #[test]
    fn an_mtu_of_zero_is_that_of_the_parent() {
        for (keys, expected) in
            [(r#""mtu": 0"#, None), (r#""mtu": null"#, None), (r#""mtu": 1400"#, Some(1400))]
        {
            assert_eq!(conf(keys).unwrap().settings.mtu, expected, "{keys}");
        }
    }

    #[test]
    fn the_parent_is_the_master_or_else_the_only_interface_of_the_chain() {
        let prev = |interfaces: &str| {
            format!(r#""prevResult": {{"cniVersion": "1.1.0", "interfaces": [{interfaces}]}}"#)
        };
        let master = |keys: &str| conf(keys).unwrap().or_chained_master().map(|conf| conf.settings.master);
        let (one, two) = (r#"{"name": "vlan7"}"#, r#"{"name": "a"}, {"name": "b"}"#);
        assert_eq!(master(&prev(one)).unwrap().unwrap().as_str(), "vlan7");
        assert_eq!(master(&format!(r#""master": "eth0", {}"#, prev(one))).unwrap().unwrap().as_str(), "eth0");
        assert_eq!(master(&format!(r#""master": "eth0", {}"#, prev(two))).unwrap().unwrap().as_str(), "eth0");
        assert!(master(&prev(two)).is_err() && master(&prev("")).is_err());
        assert_eq!(master(r#""mtu": 0"#).unwrap(), None, "it is not in a chain");
        let unnamed = AddResult { interfaces: vec![ResultInterface::default()], ..AddResult::default() };
        assert!(only_interface(&unnamed).is_err());
    }

    #[test]
    fn the_addresses_are_those_of_ipam_or_of_the_chain() {
        let required = |keys: &str| {
            with(keys, |common| ChildLinkConf::of(&ChainedKind, common)?.require_addresses(common))
        };
        let prev = |ips: &str| format!(r#""prevResult": {{"cniVersion": "1.1.0", "ips": [{ips}]}}"#);
        assert!(required(r#""ipam": {"type": "static"}"#).is_ok());
        assert!(required(&prev(r#"{"address": "10.7.0.5/24"}"#)).is_ok());
        assert!(required(&prev("")).is_err() && required(r#""ipam": {}"#).is_err());
    }
}
