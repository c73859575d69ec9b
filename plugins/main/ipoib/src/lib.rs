//! `ipoib`: a pod's own IP over InfiniBand link on a port of the host, which shares the port's RDMA device.
//!
//! Nearly all of its code is in [`child_link`], which macvlan and ipvlan use too. The link is in the partition of its
//! parent, or in the configured one.

#![forbid(unsafe_code)]

use child_link::ChildLinkKind;
use cni::{CallContext, ConfObject, Error};
use identifiers::{LinkName, MacAddr};
use plugin_runtime::{
    delegate,
    policy::{Resource, ResourceUses},
};
use rtnl::{
    InfoData, InfoIpoib, InfoKind, IpoibMode, Link, LinkKind, LinkLayer, LinkMessage, LinkMessageBuilder,
    LinkUnspec,
};

/// Full membership of a partition: every node of it can communicate with the link.
const FULL_MEMBER: u16 = 0x8000;

/// The IP over InfiniBand kind of child link.
#[derive(Debug)]
pub struct IpoibKind;

/// The settings that only IP over InfiniBand has.
#[derive(Debug)]
pub struct IpoibConf {
    /// The partition key without the membership bit; `None` means the parent's.
    pkey: Option<u16>,
}

impl ChildLinkKind for IpoibKind {
    const NAME: &'static str = "ipoib";
    const CONFLICTING: Option<&'static str> = None;
    const LAYER: LinkLayer = LinkLayer::InfiniBand;
    const CAN_PROBE: bool = false;
    const LAYER_2: bool = true;
    const CHAINED: bool = false;
    const DEFAULT_MASTER: bool = false;
    type Mode = IpoibConf;

    fn mode(&self, common: &CallContext<'_>) -> Result<IpoibConf, Error> {
        let fields = common.conf.fields();
        if delegate::needs_link(common)? {
            return Err(Error::config("ipam dhcp type is not supported")
                .with_details("the dhcp plugin needs Ethernet addresses; use another IPAM plugin"));
        }
        Ok(IpoibConf { pkey: pkey(&fields)? })
    }

    fn add_uses(conf: &IpoibConf, uses: &mut ResourceUses) {
        uses.add_some(Resource::Pkey, conf.pkey);
    }

    /// The kernel chooses the address: the number of the link's queue pair, and the GID of the port.
    fn has_own_mac(_: &IpoibConf) -> bool {
        false
    }

    fn mac(&self, _: &CallContext<'_>) -> Result<Option<MacAddr>, Error> {
        Ok(None)
    }

    /// The kernel does not create a link on a link of another partition (`EINVAL`).
    fn require_parent(&self, parent: &Link) -> Result<(), Error> {
        if parent.parent.is_none() {
            return Ok(());
        }
        Err(Error::config(format!(
            "master {} is itself a child link: ipoib needs the link of a port",
            parent.name
        ))
        .with_details("set master to the parent of that link, and pkey to its partition"))
    }

    fn message(&self, name: &LinkName, parent: &Link, conf: &IpoibConf) -> LinkMessage {
        let (pkey, mode) = expected(parent, conf);
        let settings = [InfoIpoib::Pkey(pkey), InfoIpoib::Mode(mode), InfoIpoib::UmCast(1)];
        LinkMessageBuilder::<LinkUnspec>::new_with_info_kind(InfoKind::Ipoib)
            .name(name.to_string())
            .link(parent.index)
            .set_info_data(InfoData::Ipoib(settings.into()))
            .build()
    }

    fn is(link: &Link) -> bool {
        matches!(link.kind, Some(LinkKind::Ipoib(_)))
    }

    fn difference(&self, link: &Link, conf: &IpoibConf) -> Option<String> {
        let Some(LinkKind::Ipoib(Some(is))) = link.kind else { return None };
        let wanted = conf.pkey? | FULL_MEMBER;
        (is.pkey != wanted).then(|| format!("expected the pkey {wanted:#06x}, got {:#06x}", is.pkey))
    }
}

/// Returns partition key and mode of the link to create. The kernel adds full membership.
fn expected(parent: &Link, conf: &IpoibConf) -> (u16, IpoibMode) {
    let (pkey, mode) = match parent.kind {
        Some(LinkKind::Ipoib(Some(parent))) => (parent.pkey, parent.mode),
        _ => (u16::MAX, IpoibMode::Datagram),
    };
    (conf.pkey.unwrap_or(pkey) & !FULL_MEMBER, mode)
}

/// Reads `pkey`, a number or a text like `"0x8001"`. The membership bit is ignored, because the link is a full member.
fn pkey(fields: &ConfObject<'_>) -> Result<Option<u16>, Error> {
    let expected = "a partition key from 0x0001 to 0x7fff, such as \"0x7fff\"";
    let text = match fields.text("pkey") {
        Ok(None | Some("")) => return Ok(None),
        Ok(Some(text)) => text.to_owned(),
        Err(_) => fields.integer("pkey")?.unwrap_or_default().to_string(),
    };
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u16::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    };
    let pkey = number.map(|pkey| pkey & !FULL_MEMBER).filter(|pkey| *pkey != 0);
    pkey.map(Some).ok_or_else(|| fields.invalid("pkey", expected, format!("{text:?}")))
}

#[cfg(test)]
mod tests {
    use cni::NetConf;
    use rtnl::IpoibSettings;

    use super::*;

    fn read(value: &str) -> Result<Option<u16>, Error> {
        let conf = NetConf::parse(format!(r#"{{"name": "ib", "pkey": {value}}}"#).as_bytes()).unwrap();
        pkey(&conf.fields())
    }

    fn link(kind: Option<LinkKind>) -> Link {
        Link {
            index: 7,
            name: "ib0".into(),
            altnames: Vec::new(),
            kind,
            hardware: rtnl::INFINIBAND,
            address: Default::default(),
            mac: None,
            permanent_mac: None,
            mtu: 2044,
            up: true,
            running: true,
            parent: None,
            parent_netns: None,
            controller: None,
            device: None,
            settings: Default::default(),
        }
    }

    #[test]
    fn a_partition_key_is_a_number_or_a_text_and_its_membership_bit_is_ignored() {
        for (value, expected) in [
            ("null", None),
            (r#""""#, None),
            (r#""0x8001""#, Some(1)),
            (r#""0X7fff""#, Some(0x7fff)),
            (r#""0xffff""#, Some(0x7fff)),
            (r#""32769""#, Some(1)),
            ("1", Some(1)),
            ("65535", Some(0x7fff)),
        ] {
            assert_eq!(read(value).unwrap(), expected, "{value}");
        }
        for invalid in
            ["0", "-1", "65536", "32768", r#""0x8000""#, r#""0x10000""#, r#""0x""#, r#""0x+5""#, r#""8 001""#]
        {
            assert!(read(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_link_has_the_partition_and_the_mode_of_its_parent_unless_another_partition_is_configured() {
        let parent =
            link(Some(LinkKind::Ipoib(Some(IpoibSettings { pkey: 0x8005, mode: IpoibMode::Connected }))));
        assert_eq!(expected(&parent, &IpoibConf { pkey: None }), (5, IpoibMode::Connected));
        assert_eq!(expected(&parent, &IpoibConf { pkey: Some(9) }), (9, IpoibMode::Connected));
        // Before Linux 5.10 the link of a port has no kind.
        assert_eq!(expected(&link(None), &IpoibConf { pkey: None }), (0x7fff, IpoibMode::Datagram));
        let difference = |pkey| IpoibKind.difference(&parent, &IpoibConf { pkey });
        assert_eq!((difference(None), difference(Some(5))), (None, None));
        assert!(difference(Some(9)).unwrap().contains("0x8009, got 0x8005"));
    }

    #[test]
    fn the_policy_of_the_node_compares_a_configured_partition() {
        let uses = |pkey| {
            let mut uses = ResourceUses::default();
            IpoibKind::add_uses(&IpoibConf { pkey }, &mut uses);
            uses
        };
        let mut expected = ResourceUses::default();
        assert_eq!(uses(None), expected, "that of the master, which is compared");
        expected.add(Resource::Pkey, &9);
        assert_eq!(uses(Some(9)), expected);
    }

    #[test]
    fn the_parent_is_the_link_of_a_port() {
        let port = link(Some(LinkKind::Ipoib(None)));
        assert!(IpoibKind.require_parent(&port).is_ok());
        assert!(IpoibKind.require_parent(&Link { parent: Some(3), ..port }).is_err());
    }
}
