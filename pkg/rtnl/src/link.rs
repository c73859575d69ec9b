//! Links: finding, creating, changing, moving and deleting them.

mod message;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use identifiers::{LinkName, MacAddr};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkExtentMask, LinkMessage, Prop};
use nix::errno::Errno;
use rtnetlink::{LinkMessageBuilder, LinkUnspec};

use self::message::is_prop_list;
pub(crate) use self::message::read;
pub use self::message::{ETHERNET, INFINIBAND, IpoibSettings, Link, LinkKind, LinkLayer};
use crate::{
    Error, Handle,
    handle::LinkIndexText,
    message::{DELLINK, DELLINKPROP, GETLINK, Message, NEWLINK, NEWLINKPROP},
    old_kernel::{NEW_IFINDEX, knows},
};

/// The attributes of a link to create.
#[derive(Debug)]
pub struct NewLink<'a> {
    /// The name, which `message` contains too.
    pub name: &'a LinkName,
    /// The index: see [`indexes_above`].
    pub index: u32,
    /// The network namespace in which it is created.
    pub netns: BorrowedFd<'a>,
    /// The MTU in bytes; `None` means the kernel's default.
    pub mtu: Option<u32>,
    /// The MAC address; `None` means the kernel's choice.
    pub mac: Option<MacAddr>,
    /// The kind and its settings, from one of `rtnetlink`'s builders.
    pub message: LinkMessage,
}

/// Returns candidate indexes for a new link, the best first. They are above the highest of a namespace: the next one, then
/// increasingly larger ones in case some are taken. If `highest` is near the maximum, some from a lower range follow.
pub fn indexes_above(highest: u32) -> impl Iterator<Item = u32> {
    const LAST: u32 = i32::MAX.cast_unsigned();
    const LOWER_RANGE: u32 = 1 << 20;
    let ascending = |from: u32| (0..10).map(move |n| from.saturating_add(8_u32.pow(n)));
    ascending(highest).filter(|index| *index <= LAST).chain(ascending(LOWER_RANGE))
}

impl Handle {
    /// Returns the link of that name. A link that only has it as an altname does not match.
    ///
    /// # Errors
    /// Not found; or any other of [`Error`].
    pub fn link(&self, name: &LinkName) -> Result<Link, Error> {
        let link = self.link_called(name.as_str())?;
        if link.name == name.as_str() {
            return Ok(link);
        }
        Err(netlink::Error::not_found("find", format!("link {name}")).into())
    }

    /// Returns the link that has that name or altname, if there is one. Names and altnames are unique in a namespace.
    ///
    /// # Errors
    /// Any of [`Error`] but not found.
    pub fn find_link_called(&self, name: &str) -> Result<Option<Link>, Error> {
        optional(self.link_called(name))
    }

    /// Returns the link that has that name or altname.
    ///
    /// # Errors
    /// Not found; or any other of [`Error`].
    pub fn link_called(&self, name: &str) -> Result<Link, Error> {
        // The kernel looks up the attribute of a name among the altnames, too, but accepts no longer one than a name in it
        // (`net/core/rtnetlink.c: rtnl_dev_get`).
        const IFLA_ALT_IFNAME: u16 = 53;
        let message = if name.len() > LinkName::MAX {
            let attribute = DefaultNla::new(IFLA_ALT_IFNAME, [name.as_bytes(), b"\0"].concat());
            LinkMessageBuilder::<LinkUnspec>::default()
                .append_extra_attribute(LinkAttribute::Other(attribute))
                .build()
        } else {
            LinkUnspec::new_with_name(name).build()
        };
        self.get_link(&format!("link {name}"), message)
    }

    /// Returns the link of that name, if there is one.
    ///
    /// # Errors
    /// Any of [`Error`] but not found.
    pub fn find_link(&self, name: &LinkName) -> Result<Option<Link>, Error> {
        optional(self.link(name))
    }

    /// Returns the link of that index.
    ///
    /// # Errors
    /// Not found; or any other of [`Error`].
    pub fn link_by_index(&self, index: u32) -> Result<Link, Error> {
        self.get_link(&LinkIndexText(index), LinkUnspec::new_with_index(index).build())
    }

    /// Returns the link of that index, if there is one.
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

    /// Returns all links of the namespace.
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

    /// Creates a link in another namespace, with its final name, in one step.
    ///
    /// The caller chooses the index, by which it identifies the link later even if that is renamed. An index also avoids a
    /// problem of kernels before 6.15, which refuse a link without one if its name is taken in *this* namespace. But they
    /// refuse an index that a link of *this* namespace has.
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

    /// Moves a link to another namespace and renames it in one step, without a rename event in either namespace. It gets
    /// `new_index` if that is set. The kernel sets the link down and removes its addresses. Kernels before 5.13 choose
    /// the index themselves: the current one, if that is free there.
    ///
    /// # Errors
    /// Exists if the name is taken there: the link has then moved under its old name. Refused with `EBUSY`
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

    /// Renames a link. Kernels before 6.2 refuse this while it is up.
    ///
    /// # Errors
    /// Exists if the name is taken; any other of [`Error`].
    pub fn rename(&self, index: u32, name: &LinkName) -> Result<(), Error> {
        self.change_link("rename", index, LinkUnspec::new_with_index(index).name(name.as_str()).build())
    }

    /// Sets a link's MAC address.
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

    /// Removes all altnames of a link.
    ///
    /// # Errors
    /// Refused with `EINVAL` if one of them was removed meanwhile: then some may remain. Any other of [`Error`].
    pub fn remove_altnames(&self, index: u32) -> Result<(), Error> {
        let message = without_statistics(LinkUnspec::new_with_index(index).build());
        let Message::Link(_, found) =
            self.get("find", &LinkIndexText(index), Message::Link(GETLINK, message))?
        else {
            return Ok(());
        };
        // The list is sent as the bytes that the kernel returned, because a pod may have chosen any.
        let Some(list) = found.attributes.into_iter().find(is_prop_list) else { return Ok(()) };
        let message = LinkUnspec::new_with_index(index).append_extra_attribute(list).build();
        self.execute("remove the altnames of", &LinkIndexText(index), Message::Link(DELLINKPROP, message), 0)
    }

    /// Adds a link to a bond: see [`Link::controller`]. It must be down; the kernel sets it up.
    ///
    /// # Errors
    /// Refused with `EPERM` if it is up; any other of [`Error`].
    pub fn set_controller(&self, index: u32, controller: u32) -> Result<(), Error> {
        let message = LinkUnspec::new_with_index(index).controller(controller).build();
        self.change_link("add to a bond the", index, message)
    }

    /// Whether the kernel supports links of a kind that have Ethernet addresses. If necessary, it loads the module.
    ///
    /// The request has a MAC address of one byte, which a kernel that supports the kind refuses with `EINVAL`. No link is created.
    ///
    /// # Errors
    /// Refused with `EPERM`; any other of [`Error`].
    pub fn supports(&self, kind: InfoKind) -> Result<bool, Error> {
        let object = format!("kind {kind}");
        let message = LinkMessageBuilder::<LinkUnspec>::new_with_info_kind(kind).address(vec![0]).build();
        match self.execute("look up", &object, Message::Link(NEWLINK, message), NLM_F_CREATE | NLM_F_EXCL) {
            Err(Error::Netlink(error)) if error.errno() == Some(Errno::EOPNOTSUPP) => Ok(false),
            Err(Error::Netlink(error)) if error.errno() == Some(Errno::EINVAL) => Ok(true),
            other => other.map(|()| true),
        }
    }

    /// Adds an altname to a link.
    ///
    /// # Errors
    /// Exists if any link has that name or altname; any other of [`Error`].
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

/// Excludes statistics: they make a reply three times as long, and some drivers query their firmware for them.
fn without_statistics(mut message: LinkMessage) -> LinkMessage {
    message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    message
}

#[cfg(test)]
mod tests {
    use std::{
        process, thread,
        time::{Duration, Instant},
    };

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
    fn a_kind_that_the_kernel_supports_is_known_without_creating_a_link() {
        in_a_pod(|| {
            let links = Handle::open().unwrap();
            assert!(links.supports(InfoKind::Dummy).unwrap() || links.supports(InfoKind::MacVlan).unwrap());
            assert!(!links.supports(InfoKind::Other("nonexistent".into())).unwrap());
            assert_eq!(links.links().unwrap().len(), 1, "only lo");
        });
    }

    #[test]
    fn what_another_process_sends_is_left_out_however_long() {
        in_a_pod(|| {
            let links = Handle::open().unwrap();
            links.links().unwrap();
            let protocol = SockProtocol::NetlinkRoute;
            let other =
                socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).unwrap();
            // The port of the first socket of a process in a namespace is its PID.
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
            assert!((400..1000).contains(&added), "the kernel accepted {added}");
            assert_eq!(links.links().unwrap()[0].altnames.len(), added);
        });
    }

    #[test]
    fn a_link_is_called_by_its_altnames_which_are_all_removed() {
        in_a_pod(|| {
            let (links, named) = (Handle::open().unwrap(), |name: &str| name.parse::<LinkName>().unwrap());
            for altname in ["one", &"two".repeat(42)] {
                links.add_altname(1, altname).unwrap();
                assert_eq!(links.find_link_called(altname).unwrap().unwrap().index, 1);
            }
            assert!(links.find_link(&named("one")).unwrap().is_none(), "it is not its name");
            links.remove_altnames(1).unwrap();
            assert!(links.link_by_index(1).unwrap().altnames.is_empty());
            links.remove_altnames(1).unwrap();
            assert!(links.find_link_called("one").unwrap().is_none());
            assert!(links.link_by_index(99).unwrap_err().is_not_found());
        });
    }

    #[test]
    fn a_wait_ends_with_the_event_that_it_is_for_or_with_the_earlier_limit() {
        in_a_pod(|| {
            let (links, long, short) =
                (Handle::open().unwrap(), Duration::from_secs(20), Duration::from_millis(10));
            let (of_links, of_addresses) = (crate::events(false).unwrap(), crate::events(true).unwrap());
            let later = || Instant::now() + long;
            links.set_up(1, true).unwrap();
            for events in [&of_links, &of_addresses] {
                assert!(events.wait(later(), long).unwrap());
                assert!(!events.wait(later(), short).unwrap(), "all events were received");
            }
            links.add_address(1, "10.9.0.2/24".parse().unwrap()).unwrap();
            assert!(of_addresses.wait(later(), long).unwrap());
            links.add_address(1, "fd00::2/64".parse().unwrap()).unwrap();
            assert!(of_addresses.wait(later(), long).unwrap());
            assert!(!of_links.wait(later(), short).unwrap());
            let began = Instant::now();
            assert!(!of_links.wait(began + short, long).unwrap());
            assert!(began.elapsed() < long / 2);
        });
    }
}
