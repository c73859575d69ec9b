//! The commands of ethtool netlink. A request and its reply have different numbers, from different enums.

/// A command that reads, or one that changes something, which has no reply.
#[derive(Debug)]
pub(crate) struct Command {
    /// The name in `linux/ethtool_netlink.h`.
    pub(crate) name: &'static str,
    /// The number of the request.
    pub(crate) request: u8,
    /// The number of the reply; 0 if it has none.
    pub(crate) reply: u8,
    /// The attribute type of the header.
    pub(crate) header: u16,
}

const fn command(name: &'static str, request: u8, reply: u8, header: u16) -> Command {
    Command { name, request, reply, header }
}

pub(crate) const LINKMODES_GET: Command = command("ETHTOOL_MSG_LINKMODES_GET", 4, 4, 1);
pub(crate) const LINKSTATE_GET: Command = command("ETHTOOL_MSG_LINKSTATE_GET", 6, 6, 1);
pub(crate) const RINGS_GET: Command = command("ETHTOOL_MSG_RINGS_GET", 15, 16, 1);
pub(crate) const RINGS_SET: Command = command("ETHTOOL_MSG_RINGS_SET", 16, 0, 1);
pub(crate) const COALESCE_GET: Command = command("ETHTOOL_MSG_COALESCE_GET", 19, 20, 1);
pub(crate) const COALESCE_SET: Command = command("ETHTOOL_MSG_COALESCE_SET", 20, 0, 1);
pub(crate) const PAUSE_GET: Command = command("ETHTOOL_MSG_PAUSE_GET", 21, 22, 1);
pub(crate) const FEC_GET: Command = command("ETHTOOL_MSG_FEC_GET", 29, 30, 1);
pub(crate) const MODULE_EEPROM_GET: Command = command("ETHTOOL_MSG_MODULE_EEPROM_GET", 31, 32, 1);
pub(crate) const STATS_GET: Command = command("ETHTOOL_MSG_STATS_GET", 32, 33, 2);
pub(crate) const MODULE_GET: Command = command("ETHTOOL_MSG_MODULE_GET", 34, 35, 1);
