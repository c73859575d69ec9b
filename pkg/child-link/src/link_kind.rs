//! What one kind of child link has of its own.

use cni::{CallContext, Error};
use identifiers::{LinkName, MacAddr};
use rtnl::{Link, LinkMessage};

/// A kind of link that sits on a parent.
pub trait ChildLinkKind: Sync + 'static {
    /// The plugin's name, which is also the kernel's name of the kind.
    const NAME: &'static str;
    /// Another kind that the kernel does not let sit on the same parent.
    const CONFLICTING: &'static str;
    /// Whether the link is of use without addresses.
    const LAYER_2: bool;
    /// Whether it can follow another plugin, whose addresses and whose interface as parent it then takes.
    const CHAINED: bool;
    /// Its settings, like the mode.
    type Mode;

    /// Reads its settings.
    ///
    /// # Errors
    /// A wrong value.
    fn mode(&self, common: &CallContext<'_>) -> Result<Self::Mode, Error>;

    /// Whether a link of this kind has an address of its own, and not its parent's.
    fn has_own_mac(mode: &Self::Mode) -> bool;

    /// The address the configuration asks for, if it asks for one.
    ///
    /// # Errors
    /// A wrong value.
    fn mac(&self, common: &CallContext<'_>) -> Result<Option<MacAddr>, Error>;

    /// The message that makes the link.
    fn message(&self, name: &LinkName, parent: u32, mode: &Self::Mode) -> LinkMessage;

    /// Whether a link is of this kind.
    fn is(link: &Link) -> bool;

    /// How a link of this kind differs from its settings.
    fn difference(&self, link: &Link, mode: &Self::Mode) -> Option<String>;
}
