//! `ipvlan`: a pod's own link, with the MAC address of its parent, a host NIC.
//!
//! Nearly all of its code is in [`child_link`], which macvlan uses too. It may follow another plugin in a
//! chain: then that plugin's interface is the parent, and its addresses are used.

#![forbid(unsafe_code)]

use child_link::ChildLinkKind;
use cni::{CallContext, Error};
use identifiers::{LinkName, MacAddr};
use plugin_runtime::policy::{Resource, ResourceUses};
use rtnl::{IpVlanMode, Link, LinkIpVlan, LinkKind, LinkMessage};

/// The ipvlan kind of child link.
#[derive(Debug)]
pub struct IpvlanKind;

impl ChildLinkKind for IpvlanKind {
    const NAME: &'static str = "ipvlan";
    const CONFLICTING: Option<&'static str> = Some("macvlan");
    // The kernel passes the answer to the parent: the address of the probe's sender, 0.0.0.0, belongs to no link.
    const CAN_PROBE: bool = false;
    const LAYER_2: bool = false;
    const CHAINED: bool = true;
    type Mode = IpVlanMode;

    fn mode(&self, common: &CallContext<'_>) -> Result<IpVlanMode, Error> {
        match common.conf.fields().text("mode")?.unwrap_or("l2") {
            "l2" => Ok(IpVlanMode::L2),
            "l3" => Ok(IpVlanMode::L3),
            "l3s" => Ok(IpVlanMode::L3S),
            other => Err(Error::config(format!("unknown ipvlan mode: {other:?}"))
                .with_details("mode must be l2, l3 or l3s")),
        }
    }

    fn add_uses(mode: &IpVlanMode, uses: &mut ResourceUses) {
        uses.add(Resource::Mode, mode);
    }

    fn has_own_mac(_: &IpVlanMode) -> bool {
        false
    }

    fn mac(&self, _: &CallContext<'_>) -> Result<Option<MacAddr>, Error> {
        Ok(None)
    }

    fn message(&self, name: &LinkName, parent: &Link, mode: &IpVlanMode) -> LinkMessage {
        LinkIpVlan::new(name.as_str(), parent.index, *mode).build()
    }

    fn is(link: &Link) -> bool {
        matches!(link.kind, Some(LinkKind::IpVlan(_)))
    }

    fn difference(&self, link: &Link, mode: &IpVlanMode) -> Option<String> {
        let Some(LinkKind::IpVlan(Some(is))) = link.kind else { return None };
        (is != *mode).then(|| format!("expected the ipvlan mode {mode}, got {is}"))
    }
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};

    use super::*;

    #[test]
    fn the_mode_is_l2_unless_another_is_configured() {
        for (text, expected) in
            [("", IpVlanMode::L2), ("l2", IpVlanMode::L2), ("l3", IpVlanMode::L3), ("l3s", IpVlanMode::L3S)]
        {
            let stdin = format!(r#"{{"name": "rail", "mode": "{text}"}}"#);
            let conf = NetConf::parse(stdin.as_bytes()).unwrap();
            let call = CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] };
            assert_eq!(IpvlanKind.mode(&call).unwrap(), expected, "{text:?}");
        }
    }
}
