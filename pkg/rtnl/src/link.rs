//! Links: find, make, change, move, delete.

mod message;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use identifiers::{LinkName, MacAddr};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::{IpVlanMode, LinkAttribute, LinkExtentMask, LinkMessage, MacVlanMode, Prop};
use rtnetlink::LinkUnspec;

use self::message::is_prop_list;
pub(crate) use self::message::read;
use crate::{
    Error, Handle, LinkSettings,
    handle::LinkIndexText,
    message::{DELLINK, DELLINKPROP, GETLINK, Message, NEWLINK, NEWLINKPROP},
    old_kernel::{NEW_IFINDEX, knows},
};

/// `ARPHRD_ETHER`, the [`Link::hardware`] of Ethernet.
pub const ETHERNET: u16 = 1;
/// `ARPHRD_INFINIBAND`, the [`Link::hardware`] of IP over InfiniBand.
pub const INFINIBAND: u16 = 32;

/// A link, as the kernel shows it.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its index in its namespace. It may change when the link moves.
    pub index: u32,
    /// Its name. What is no UTF-8 in it is shown as such.
    pub name: String,
    /// Its other names. What is no UTF-8 in one is shown as such.
    pub altnames: Vec<String>,
    /// What kind of virtual link it is; `None` for a physical one.
    pub kind: Option<LinkKind>,
    /// Its hardware type, an `ARPHRD_` number like [`ETHERNET`].
    pub hardware: u16,
    /// Its address; `None` unless it has six bytes.
    pub mac: Option<MacAddr>,
    /// The address its device was made with, as far as the driver knows.
    pub permanent_mac: Option<MacAddr>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it carries traffic.
    pub running: bool,
    /// The index of the link it sits on (`IFLA_LINK`), in that link's namespace.
    pub parent: Option<u32>,
    /// The index of the bond or bridge that owns it (`IFLA_MASTER`).
    pub controller: Option<u32>,
    /// The bus address of the device it belongs to (`IFLA_PARENT_DEV_NAME`, since Linux 5.14).
    pub device: Option<String>,
    /// What else may be set of it.
    pub settings: LinkSettings,
}

/// The kind of a virtual link, with what we look at of its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// macvlan.
    MacVlan(Option<MacVlanMode>),
    /// ipvlan.
    IpVlan(Option<IpVlanMode>),
    /// VLAN.
    Vlan,
    /// bond.
    Bond,
    /// Any other, by name.
    Other(String),
}

impl std::fmt::Display for LinkKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::MacVlan(_) => "macvlan",
            Self::IpVlan(_) => "ipvlan",
            Self::Vlan => "vlan",
            Self::Bond => "bond",
            Self::Other(name) => name,
        })
    }
}

/// A link to make.
#[derive(Debug)]
pub struct NewLink<'a> {
    /// Its name, which `message` has too.
    pub name: &'a LinkName,
    /// Its index: see [`indexes_above`].
    pub index: u32,
    /// The namespace it is made in.
    pub netns: BorrowedFd<'a>,
    /// Its MTU in bytes; the kernel's choice if absent.
    pub mtu: Option<u32>,
    /// Its address; the kernel's choice if absent.
    pub mac: Option<MacAddr>,
    /// Its kind and settings, from one of `rtnetlink`'s builders.
    pub message: LinkMessage,
}

/// Indexes for a new link, above the highest that a namespace has, best first: the next one, then ever larger ones, for
/// those that cannot be had. Where there is nothing above, some that are far below the end follow.
pub fn indexes_above(highest: u32) -> impl Iterator<Item = u32> {
    const LAST: u32 = i32::MAX.cast_unsigned();
    const ELSEWHERE: u32 = 1 << 20;
    let ascending = |from: u32| (0..10).map(move |n| from.saturating_add(8_u32.pow(n)));
    ascending(highest).filter(|index| *index <= LAST).chain(ascending(ELSEWHERE))
}

impl Handle {
    /// The link of that name. A link that has it only as an altname is not meant.
    ///
    /// # Errors
    /// Not found; or any other of [`Error`].
    pub fn link(&self, name: &LinkName) -> Result<Link, Error> {
        let link = self.link_called(name)?;
        if link.name == name.as_str() {
            return Ok(link);
        }
        Err(netlink::Error::not_found("find", format!("link {name}")).into())
    }

    /// The link that has that name, be it as an altname: no other can be called so. If there is one.
    ///
    /// # Errors
    /// Any of [`Error`] but not found.
    pub fn find_link_called(&self, name: &LinkName) -> Result<Option<Link>, Error> {
        optional(self.link_called(name))
    }

    fn link_called(&self, name: &LinkName) -> Result<Link, Error> {
        self.get_link(&format!("link {name}"), LinkUnspec::new_with_name(name.as_str()).build())
    }

    /// The link of that name, if there is one.
    ///
    /// # Errors
    /// Any of [`Error`] but not found.
    pub fn find_link(&self, name: &LinkName) -> Result<Option<Link>, Error> {
        optional(self.link(name))
    }

    /// The link of that index.
    ///
    /// # Errors
    /// Not found; or any other of [`Error`].
    pub fn link_by_index(&self, index: u32) -> Result<Link, Error> {
        self.get_link(&LinkIndexText(index), LinkUnspec::new_with_index(index).build())
    }

    /// The link of that index, if there is one.
    ///
    /// # Errors
    /// Any of [`Error`] but not found.
    pub fn find_link_by_index(&self, index: u32) -> Result<Option<Link>, Error> {
        optional(self.link_by_index(index))
    }

    fn get_link(&self, object: &dyn std::fmt::Display, message: LinkMessage) -> Result<Link, Error> {
        match self.get("find", object, Message::Link(GETLINK, without_statistics(message)))? {
            Message::Link(_, message) => Ok(read(&message)),
            _ => Err(netlink::Error::not_found("find", object.to_string()).into()),
        }
    }

    /// All links.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn links(&self) -> Result<Vec<Link>, Error> {
        let message = Message::Link(GETLINK, without_statistics(LinkMessage::default()));
        self.dump("list", &"links", message, |links: &mut Vec<Link>, message| {
            if let Message::Link(_, message) = message {
                links.push(read(&message));
            }
        })
    }

    /// Makes a link in another namespace, under its final name, in one step.
    ///
    /// The index is chosen by the caller: it is how the link is known again, whatever happens to its name.
    /// It also keeps old kernels (before 6.15) from refusing the link because its name is taken in this
    /// namespace: with an index they do not look for the name. But they refuse one that a link of *this* namespace has.
    ///
    /// # Errors
    /// Exists if the name is taken there, or the index here; refused with `EBUSY` if the index is taken there, or for a
    /// reason of the kind of link; any other of [`Error`].
    pub fn create_link(&self, new: NewLink<'_>) -> Result<(), Error> {
        let NewLink { name, index, netns, mtu, mac, mut message } = new;
        message.header.index = index;
        message.attributes.push(LinkAttribute::NetNsFd(netns.as_raw_fd()));
        message.attributes.extend(mtu.map(LinkAttribute::Mtu));
        message.attributes.extend(mac.map(|mac| LinkAttribute::Address(mac.bytes().to_vec())));
        let object = format!("link {name}");
        self.execute("create", &object, Message::Link(NEWLINK, message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes a virtual link.
    ///
    /// # Errors
    /// Not found; or any other of [`Error`].
    pub fn delete_link(&self, index: u32) -> Result<(), Error> {
        let message = LinkUnspec::new_with_index(index).build();
        self.execute("delete", &LinkIndexText(index), Message::Link(DELLINK, message), 0)
    }

    /// Moves a link into another namespace under another name and, if one is given, an index that is free
    /// there, in one step: no rename is seen in either namespace. The kernel brings the link down and drops
    /// its addresses. Kernels before 5.13 choose an index themselves: the present one, if that is free there.
    ///
    /// # Errors
    /// Exists if the name is taken there: the link has moved then, under its old name. Refused with `EBUSY`
    /// if the index is taken there: the link has not moved. Any other of [`Error`].
    pub fn move_link(
        &self,
        index: u32,
        to: impl AsFd,
        name: &LinkName,
        new_index: Option<u32>,
    ) -> Result<(), Error> {
        let mut message =
            LinkUnspec::new_with_index(index).name(name.as_str()).setns_by_fd(to.as_fd().as_raw_fd()).build();
        let new_index = new_index.filter(|_| knows(NEW_IFINDEX));
        message.attributes.extend(new_index.map(|index| LinkAttribute::NewIfIndex(index.cast_signed())));
        self.change_link("move", index, message)
    }

    /// Sets a link up or down.
    ///
    /// # Errors
    /// Not found; or any other of [`Error`].
    pub fn set_up(&self, index: u32, up: bool) -> Result<(), Error> {
        let builder = LinkUnspec::new_with_index(index);
        let message = if up { builder.up().build() } else { builder.down().build() };
        self.change_link(if up { "set up" } else { "set down" }, index, message)
    }

    /// Renames a link. Kernels before 6.2 refuse while it is up.
    ///
    /// # Errors
    /// Exists if the name is taken; any other of [`Error`].
    pub fn rename(&self, index: u32, name: &LinkName) -> Result<(), Error> {
        self.change_link("rename", index, LinkUnspec::new_with_index(index).name(name.as_str()).build())
    }

    /// Sets a link's address.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn set_mac(&self, index: u32, mac: MacAddr) -> Result<(), Error> {
        let message = LinkUnspec::new_with_index(index).address(mac.bytes().to_vec()).build();
        self.change_link("set the MAC address of", index, message)
    }

    /// Sets a link's MTU in bytes.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn set_mtu(&self, index: u32, mtu: u32) -> Result<(), Error> {
        self.change_link("set the MTU of", index, LinkUnspec::new_with_index(index).mtu(mtu).build())
    }

    /// Takes all of a link's altnames away.
    ///
    /// # Errors
    /// Refused with `EINVAL` if one of them went meanwhile: then some may be left. Any other of [`Error`].
    pub fn remove_altnames(&self, index: u32) -> Result<(), Error> {
        let message = without_statistics(LinkUnspec::new_with_index(index).build());
        let Message::Link(_, found) =
            self.get("find", &LinkIndexText(index), Message::Link(GETLINK, message))?
        else {
            return Ok(());
        };
        // A list of bytes that the kernel told, for a pod may have chosen any.
        let Some(list) = found.attributes.into_iter().find(is_prop_list) else { return Ok(()) };
        let message = LinkUnspec::new_with_index(index).append_extra_attribute(list).build();
        self.execute("remove the altnames of", &LinkIndexText(index), Message::Link(DELLINKPROP, message), 0)
    }

    /// Gives a link an altname.
    ///
    /// # Errors
    /// Exists if any link has that name; any other of [`Error`].
    pub fn add_altname(&self, index: u32, altname: &str) -> Result<(), Error> {
        let names = LinkAttribute::PropList(vec![Prop::AltIfName(altname.to_owned())]);
        let message = LinkUnspec::new_with_index(index).append_extra_attribute(names).build();
        let message = Message::Link(NEWLINKPROP, message);
        self.execute("add an altname to", &LinkIndexText(index), message, NLM_F_CREATE | NLM_F_EXCL)
    }

    pub(crate) fn change_link(
        &self,
        operation: &'static str,
        index: u32,
        message: LinkMessage,
    ) -> Result<(), Error> {
        self.execute(operation, &LinkIndexText(index), Message::Link(NEWLINK, message), 0)
    }
}

fn optional<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Statistics make an answer three times as long, and some drivers ask their firmware for them.
fn without_statistics(mut message: LinkMessage) -> LinkMessage {
    message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    message
}

#[cfg(test)]
mod tests {
    use std::{process, thread};

    use nix::{
        sched::{CloneFlags, unshare},
        sys::socket::{
            AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, sendto, socket,
        },
    };

    use super::*;

    fn in_a_pod(work: impl FnOnce() + Send + 'static) {
        let pod = thread::spawn(|| {
            #[expect(clippy::disallowed_methods, reason = "the thread ends there")]
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            work();
        });
        pod.join().unwrap();
    }

    #[test]
    fn indexes_ascend_and_are_ones_that_a_link_can_have() {
        let above = |highest| indexes_above(highest).collect::<Vec<_>>();
        assert_eq!(above(2)[..4], [3, 10, 66, 514]);
        for highest in [1, 2, 1 << 20, i32::MAX.cast_unsigned() - 1, i32::MAX.cast_unsigned()] {
            let indexes = above(highest);
            assert!(indexes.len() >= 10);
            assert!(
                indexes.iter().all(|index| (1..=i32::MAX.cast_unsigned()).contains(index)),
                "{indexes:?}"
            );
        }
    }

    #[test]
    fn what_another_process_sends_is_left_out_however_long() {
        in_a_pod(|| {
            let links = Handle::open().unwrap();
            links.links().unwrap();
            let protocol = SockProtocol::NetlinkRoute;
            let other =
                socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).unwrap();
            // The first socket of a process in a namespace has its PID for a port.
            let port = NetlinkAddr::new(process::id(), 0);
            sendto(other.as_raw_fd(), &[0; 100 << 10], &port, MsgFlags::empty()).unwrap();
            assert_eq!(links.links().unwrap()[0].name, "lo");
        });
    }

    #[test]
    fn no_number_of_altnames_makes_the_list_of_links_unreadable() {
        in_a_pod(|| {
            let links = Handle::open().unwrap();
            let added = (0..1000).take_while(|n| links.add_altname(1, &format!("{n:0>127}")).is_ok()).count();
            assert!((400..1000).contains(&added), "the kernel took {added}");
            assert_eq!(links.links().unwrap()[0].altnames.len(), added);
        });
    }
}
