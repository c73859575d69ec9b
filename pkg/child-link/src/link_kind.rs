//! The part that differs between the kinds of child links.

use cni::{CallContext, Error};
use identifiers::{LinkName, MacAddr};
use plugin_runtime::policy::ResourceUses;
use rtnl::{Link, LinkLayer, LinkMessage};

/// A kind of link that has a parent.
pub trait ChildLinkKind: Sync + 'static {
    /// The plugin's `type`, which is also the kernel's `IFLA_INFO_KIND`: `macvlan`.
    const NAME: &'static str;
    /// The kind that the kernel does not allow on the same parent, if there is one.
    const CONFLICTING: Option<&'static str>;
    /// The link layer of the parent and of the link.
    const LAYER: LinkLayer = LinkLayer::Ethernet;

    /// Whether a link receives the answers to ARP probes.
    const CAN_PROBE: bool = true;
    /// Whether the link can be used without addresses.
    const LAYER_2: bool;
    /// Whether the plugin can follow another one in a chain. It then takes the addresses of `prevResult`, and its
    /// interface as the parent.
    const CHAINED: bool;
    /// Whether the link that has the default route is the parent if the configuration has no `master`.
    const DEFAULT_MASTER: bool = true;
    /// The settings of this kind, such as the mode.
    type Mode;

    /// Reads the settings of this kind from the configuration.
    ///
    /// # Errors
    /// If a value is invalid.
    fn mode(&self, common: &CallContext<'_>) -> Result<Self::Mode, Error>;

    /// Adds what these settings take of the node, besides the parent.
    fn add_uses(mode: &Self::Mode, uses: &mut ResourceUses);

    /// Whether a link of this kind has a MAC address of its own, as opposed to its parent's.
    fn has_own_mac(mode: &Self::Mode) -> bool;

    /// Returns the MAC address that the configuration requests, if any.
    ///
    /// # Errors
    /// If the value is invalid.
    fn mac(&self, common: &CallContext<'_>) -> Result<Option<MacAddr>, Error>;

    /// Checks that a link of the right layer can be the parent.
    ///
    /// # Errors
    /// Why it cannot.
    fn require_parent(&self, parent: &Link) -> Result<(), Error> {
        let _ = parent;
        Ok(())
    }

    /// Returns the `RTM_NEWLINK` message that creates the link.
    fn message(&self, name: &LinkName, parent: &Link, mode: &Self::Mode) -> LinkMessage;

    /// Whether a link is of this kind.
    fn is(link: &Link) -> bool;

    /// Describes how a link of this kind differs from its settings; `None` if it does not.
    fn difference(&self, link: &Link, mode: &Self::Mode) -> Option<String>;
}
