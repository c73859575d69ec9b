//! `ipoib`: a pod's own IP over InfiniBand link on a port of the host, which shares the port's RDMA device.
//!
//! Nearly all of its code is in [`child_link`], which macvlan and ipvlan use too. The link is in the partition of its
//! parent, or in the configured one.

#![forbid(unsafe_code)]

use child_link::ChildLinkKind;
use cni::{CallContext, ConfObject, Error};
use identifiers::{LinkName, MacAddr};
use plugin_runtime::delegate;
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
