//! Requests that restore the settings of a link.

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkXdp};
use rtnetlink::LinkUnspec;

use crate::{Error, Handle, LinkSettings, link_settings::FLAGS};

impl Handle {
    /// Removes the XDP programs of a link that are not in `former`. This must be done before other changes: a program
    /// blocks some MTUs, channels and offloads.
    ///
    /// # Errors
    /// Refused with `EBUSY` if a running process holds a program on the link (by a `bpf_link`). Any other of [`Error`].
    #[doc(alias = "ip link set xdp off")]
    pub fn remove_programs(
        &self,
        index: u32,
        now: &LinkSettings,
        former: &LinkSettings,
    ) -> Result<(), Error> {
        now.programs_besides(former).iter().try_for_each(|flags| {
            let mut message = LinkUnspec::new_with_index(index).build();
            message.attributes.push(LinkAttribute::Xdp(vec![LinkXdp::Fd(-1), LinkXdp::Flags(*flags)]));
            self.change_link("remove the XDP program from", index, message)
        })
    }

    /// Changes the settings of a link from `now` to `former`, except XDP programs: see [`Handle::remove_programs`].
    ///
    /// # Errors
    /// Any of [`Error`].
    pub fn restore_settings(
        &self,
        index: u32,
        now: &LinkSettings,
        former: &LinkSettings,
    ) -> Result<(), Error> {
        const OPERATION: &str = "restore the settings of";
        let mut flags = LinkUnspec::new_with_index(index).build();
        flags.header.change_mask = LinkFlags::from_bits_retain(now.flags ^ former.flags) & FLAGS;
        flags.header.flags = LinkFlags::from_bits_retain(former.flags);
        let mut result = Ok(());
        if !flags.header.change_mask.is_empty() {
            result = self.change_link(OPERATION, index, flags);
        }
        let message = |attributes| {
            let mut message = LinkUnspec::new_with_index(index).build();
            message.attributes = attributes;
            message
        };
        let changes = now.changes(former);
        if changes.is_empty() || self.change_link(OPERATION, index, message(changes.clone())).is_ok() {
            return result;
        }
        // Set them one by one, so that a setting that the driver refuses does not affect the others.
        for change in changes {
            result = result.and(self.change_link(OPERATION, index, message(vec![change])));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Observe, TestNode};

    use super::*;

    fn settings(links: &Handle) -> LinkSettings {
        links.link(&"v0".parse().unwrap()).unwrap().settings
    }

    #[test]
    fn every_changed_setting_is_restored() {
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        node.run_ip("link set v0 alias rail group 7 gso_max_size 60000 gro_max_size 50000");
        let links = Handle::open().unwrap();
        let (index, before, shown) =
            (links.link(&"v0".parse().unwrap()).unwrap().index, settings(&links), node.link("v0"));
        for change in [
            "promisc on allmulticast on multicast off arp off dynamic on trailers off",
            "alias evil group 9 txqueuelen 3 mode dormant",
            "broadcast 02:66:66:66:66:66",
            "gso_max_size 3000 gso_max_segs 3 gro_max_size 3000",
        ] {
            for change in change.split(' ').collect::<Vec<_>>().chunks(2) {
                node.run_ip(&format!("link set v0 {}", change.join(" ")));
            }
            let now = settings(&links);
            assert_ne!(now, before, "{change}");
            links.restore_settings(index, &now, &before).unwrap();
            assert_eq!(node.link("v0"), shown, "{change}");
            assert_eq!(settings(&links), before, "{change}");
        }
    }

    #[test]
    fn a_new_alias_is_removed_and_an_unreadable_former_one_is_not_restored() {
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        let links = Handle::open().unwrap();
        let (index, before) = (links.link(&"v0".parse().unwrap()).unwrap().index, settings(&links));
        node.run_ip("link set v0 alias evil");
        links.restore_settings(index, &settings(&links), &before).unwrap();
        assert!(node.link("v0").unwrap()["ifalias"].is_null());
        node.run_ip("link set v0 alias evil");
        let unknown = LinkSettings { alias: "\u{fffd}".into(), ..before };
        links.restore_settings(index, &settings(&links), &unknown).unwrap();
        assert_eq!(node.link("v0").unwrap()["ifalias"], "evil");
    }

    #[test]
    fn a_setting_that_the_driver_refuses_does_not_affect_the_others() {
        let node = TestNode::new();
        node.run_ip("link add v0 type veth peer name v1");
        let links = Handle::open().unwrap();
        let (index, before) = (links.link(&"v0".parse().unwrap()).unwrap().index, settings(&links));
        node.run_ip("link set v0 promisc on group 9 txqueuelen 3 gso_max_size 3000");
        // The alias is set first, and the kernel refuses one of this length.
        let former = LinkSettings { alias: "a".repeat(300), ..before.clone() };
        links.restore_settings(index, &settings(&links), &former).unwrap_err();
        assert_eq!(settings(&links), before);
    }
}
