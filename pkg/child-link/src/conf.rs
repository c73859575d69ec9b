//! The configuration of a child link: what was written, checked and turned into what it means.

use std::time::Duration;

use cni::{AddResult, CallContext, Dns, Error};
use identifiers::{LinkName, MacAddr};

use crate::ChildLinkKind;

/// What a configuration means.
pub(crate) struct ChildLinkConf<K: ChildLinkKind> {
    pub(crate) settings: ParentConf,
    pub(crate) mode: K::Mode,
    pub(crate) mac: Option<MacAddr>,
    /// The result of the chain before, where the kind takes its addresses from it.
    pub(crate) chained: Option<AddResult>,
    /// The resolver settings of the result.
    pub(crate) dns: Dns,
}

/// The settings every kind has.
#[derive(Debug, Clone)]
pub struct ParentConf {
    /// The parent's name; absent means the link that has the default route.
    pub master: Option<LinkName>,
    /// The MTU in bytes; absent means the parent's. Not yet compared with the parent's.
    pub mtu: Option<i64>,
    /// Whether the parent is in the pod.
    pub link_in_container: bool,
    /// What the pod needs of RDMA.
    pub rdma: SharedRdmaRequirement,
}

/// What a pod needs of RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedRdmaRequirement {
    /// To have it where it is there.
    Optional,
    /// Not to start without it; and how long its address may take to become a GID.
    Required(Duration),
}

/// How long a pod's address may take to become a GID, unless the configuration says otherwise. The kernel
/// needs milliseconds; a card's firmware that is busy may need seconds.
const DEFAULT_GID_TIMEOUT: Duration = Duration::from_secs(10);

impl<K: ChildLinkKind> ChildLinkConf<K> {
    /// Reads a configuration.
    ///
    /// # Errors
    /// A wrong value, named with its key.
    pub(crate) fn of(kind: &K, common: &CallContext<'_>) -> Result<Self, Error> {
        let fields = common.conf.fields();
        let chained = if K::CHAINED { common.conf.prev_result()? } else { None };
        let master = match fields.text("master")? {
            Some(name) => Some(
                name.parse()
                    .map_err(|why| fields.wrong("master", "a link's name", format!("{name:?} ({why})")))?,
            ),
            None => chained.as_ref().map(only_interface).transpose()?,
        };
        let settings = ParentConf {
            master,
            mtu: fields.integer("mtu")?.filter(|mtu| *mtu != 0),
            link_in_container: fields.flag("linkInContainer")?.unwrap_or(false),
            rdma: rdma(common)?,
        };
        if settings.link_in_container && settings.rdma != SharedRdmaRequirement::Optional {
            let why = "rdma.require cannot be combined with linkInContainer: the parent's RDMA device is the node's";
            return Err(Error::config(why));
        }
        let (mode, mac, dns) = (kind.mode(common)?, kind.mac(common)?, common.conf.dns()?);
        Ok(Self { settings, mode, mac, chained, dns })
    }

    /// Refuses a configuration whose link would have no addresses where it needs them. For ADD.
    ///
    /// # Errors
    /// That there are none.
    pub(crate) fn require_addresses(&self, common: &CallContext<'_>) -> Result<(), Error> {
        if common.conf.ipam_type()?.is_some()
            || self.chained.as_ref().is_some_and(|prev| !prev.ips.is_empty())
        {
            return Ok(());
        }
        if self.settings.rdma != SharedRdmaRequirement::Optional {
            return Err(Error::config("rdma.require needs addresses: without ipam no address becomes a GID"));
        }
        if !K::LAYER_2 {
            return Err(Error::config(format!(
                "ipam: {} needs an IPAM plugin, or a plugin before it in the chain that gives addresses",
                K::NAME
            )));
        }
        // These versions cannot express a result without addresses: say so before anything is made.
        AddResult::default().to_value(common.conf.version).map(drop)
    }
}

/// The parent of a chained link: the chain's one interface.
fn only_interface(prev: &AddResult) -> Result<LinkName, Error> {
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
            _ => return Err(rdma.wrong("timeoutMs", "milliseconds from 1 to 100000", ms)),
        },
    };
    Ok(SharedRdmaRequirement::Required(timeout))
}
