//! `macvlan`: a pod's own link, with its own MAC address, on a host NIC.
//!
//! Nearly all of its code is in [`child_link`], which ipvlan uses too.

#![forbid(unsafe_code)]

use child_link::ChildLinkKind;
use cni::{CallContext, Error};
use identifiers::{LinkName, MacAddr};
use plugin_runtime::policy::{Resource, ResourceUses};
use rtnl::{InfoMacVlan, Link, LinkKind, LinkMacVlan, LinkMessage, MacVlanMode};

/// The macvlan kind of child link.
#[derive(Debug)]
pub struct MacvlanKind;

/// The settings that only macvlan has.
#[derive(Debug)]
pub struct MacvlanConf {
    mode: MacVlanMode,
    /// The length of the broadcast queue in frames (`IFLA_MACVLAN_BC_QUEUE_LEN`); since Linux 5.11.
    broadcast_queue: Option<u32>,
}

impl ChildLinkKind for MacvlanKind {
    const NAME: &'static str = "macvlan";
    const CONFLICTING: Option<&'static str> = Some("ipvlan");
    const LAYER_2: bool = true;
    const CHAINED: bool = false;
    type Mode = MacvlanConf;

    fn mode(&self, common: &CallContext<'_>) -> Result<MacvlanConf, Error> {
        let fields = common.conf.fields();
        let mode = match fields.text("mode")?.unwrap_or("bridge") {
            "bridge" => MacVlanMode::Bridge,
            "private" => MacVlanMode::Private,
            "vepa" => MacVlanMode::Vepa,
            "passthru" => MacVlanMode::Passthrough,
            other => {
                return Err(Error::config(format!("unknown macvlan mode: {other:?}"))
                    .with_details("mode must be bridge, private, vepa or passthru"));
            }
        };
        let broadcast_queue = match fields.integer("bcqueuelen")? {
            None | Some(0) => None,
            Some(length) => match u32::try_from(length) {
                Ok(length) => Some(length),
                Err(_) => return Err(fields.invalid("bcqueuelen", "a number of frames", length)),
            },
        };
        Ok(MacvlanConf { mode, broadcast_queue })
    }

    fn add_uses(conf: &MacvlanConf, uses: &mut ResourceUses) {
        uses.add(Resource::Mode, &conf.mode);
        uses.add_some(Resource::BroadcastQueue, conf.broadcast_queue);
    }

    fn has_own_mac(mode: &MacvlanConf) -> bool {
        mode.mode != MacVlanMode::Passthrough
    }

    fn mac(&self, common: &CallContext<'_>) -> Result<Option<MacAddr>, Error> {
        plugin_runtime::conf::mac(common)
    }

    fn message(&self, name: &LinkName, parent: &Link, mode: &MacvlanConf) -> LinkMessage {
        let builder = LinkMacVlan::new(name.as_str(), parent.index, mode.mode);
        match mode.broadcast_queue {
            Some(length) => builder.append_info_data(InfoMacVlan::BcQueueLen(length)).build(),
            None => builder.build(),
        }
    }

    fn is(link: &Link) -> bool {
        matches!(link.kind, Some(LinkKind::MacVlan(_)))
    }

    fn difference(&self, link: &Link, mode: &MacvlanConf) -> Option<String> {
        let Some(LinkKind::MacVlan(Some(is))) = link.kind else { return None };
        (is != mode.mode).then(|| format!("expected the macvlan mode {}, got {is}", mode.mode))
    }
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};

    use super::*;

    fn mode(keys: &str) -> Result<MacvlanConf, Error> {
        let conf = NetConf::parse(format!(r#"{{"name": "rail", {keys}}}"#).as_bytes()).unwrap();
        MacvlanKind.mode(&CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] })
    }

    #[test]
    fn a_queue_length_of_zero_is_the_kernels_default() {
        for (keys, expected) in [
            (r#""bcqueuelen": null"#, None),
            (r#""bcqueuelen": 0"#, None),
            (r#""bcqueuelen": 1"#, Some(1)),
            (r#""bcqueuelen": 4294967295"#, Some(u32::MAX)),
        ] {
            assert_eq!(mode(keys).unwrap().broadcast_queue, expected, "{keys}");
        }
        assert!(mode(r#""bcqueuelen": 4294967296"#).is_err());
    }

    #[test]
    fn only_a_passthru_link_has_the_mac_address_of_its_parent() {
        for (text, mode_of_kernel) in [
            ("", MacVlanMode::Bridge),
            ("private", MacVlanMode::Private),
            ("vepa", MacVlanMode::Vepa),
            ("passthru", MacVlanMode::Passthrough),
        ] {
            let conf = mode(&format!(r#""mode": "{text}""#)).unwrap();
            assert_eq!((conf.mode, MacvlanKind::has_own_mac(&conf)), (mode_of_kernel, text != "passthru"));
        }
    }
}
