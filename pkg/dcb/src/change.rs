//! Changing the settings of a link.
//!
//! Every change needs `CAP_NET_ADMIN` in the user namespace of the link's network namespace.

use identifiers::LinkName;
use netlink_packet_core::DefaultNla;
use nix::errno::Errno;

use crate::{
    AppPriority, AppSelector, DcbMessage, DcbxMode, Error, Ets, Handle, InvalidEts,
    attribute::nest,
    handle::request,
    ieee_pfc::bitmap,
    status::Status,
    uapi::{
        DCB_ATTR_DCB_APP_TRUST_TABLE, DCB_ATTR_DCBX, DCB_ATTR_IEEE, DCB_ATTR_IEEE_APP_TABLE,
        DCB_ATTR_IEEE_ETS, DCB_ATTR_IEEE_PFC, DCB_CMD_IEEE_DEL, DCB_CMD_IEEE_SET, DCB_CMD_SDCBX, RTM_SETDCB,
    },
};

const PFC: &str = "PFC";
const ETS: &str = "ETS";
const APP: &str = "application priorities";
const TRUST: &str = "the trust order";
const DCBX: &str = "the DCBX mode";

impl Handle {
    /// Enables PFC for these priorities, and disables it for all others. The other fields of [`crate::Pfc`] stay.
    ///
    /// mlx5 takes the link down and up if it changes; ice and bnxt may reset their queues.
    ///
    /// # Errors
    /// [`Error::InvalidPriority`]; [`Error::Unsupported`] if the driver has no PFC; [`Error::Refused`] with `EINVAL` if the
    /// card's firmware manages DCB, or cannot have PFC for that number of traffic classes; [`Error::NotApplied`].
    ///
    /// # Kernel
    /// `DCB_CMD_IEEE_SET` with `DCB_ATTR_IEEE_PFC`. It is read before, for the other fields, and after: the kernel reports
    /// success if the driver cannot set it.
    pub fn set_pfc(&self, link: &LinkName, priorities: &[u8]) -> Result<(), Error> {
        let enabled = bitmap(priorities)
            .ok_or_else(|| Error::InvalidPriority { link: link.clone(), priorities: priorities.to_vec() })?;
        let before = supported(link, PFC, self.settings(link)?.pfc)?;
        let change = DefaultNla::new(DCB_ATTR_IEEE_PFC, before.encode(enabled));
        confirm(link, PFC, self.ieee(link, PFC, DCB_CMD_IEEE_SET, change)?)?;
        let after = supported(link, PFC, self.settings(link)?.pfc)?;
        if bitmap(&after.enabled) == Some(enabled) {
            return Ok(());
        }
        let (requested, found) = (format!("{priorities:?}"), format!("{:?}", after.enabled));
        Err(Error::NotApplied { link: link.clone(), what: PFC, requested, found })
    }

    /// Sets the traffic classes. Start with those of [`Handle::settings`]: every field is sent.
    ///
    /// It is read again: ice, while a DSCP has a priority, accepts any classes, and keeps one for each priority.
    ///
    /// # Errors
    /// [`Error::InvalidEts`]; [`Error::NotApplied`] if frames are transmitted in another way than requested; [`Error::Unsupported`] if the driver has no ETS; [`Error::Refused`] with `EINVAL` if the card's
    /// firmware manages DCB, or does not support the algorithm.
    ///
    /// # Kernel
    /// `DCB_CMD_IEEE_SET` with `DCB_ATTR_IEEE_ETS`.
    pub fn set_ets(&self, link: &LinkName, ets: &Ets) -> Result<(), Error> {
        let invalid = |source: InvalidEts| Error::InvalidEts { link: link.clone(), source };
        let before = supported(link, ETS, self.settings(link)?.ets)?;
        ets.check(before.max_classes).map_err(invalid)?;
        let change = DefaultNla::new(DCB_ATTR_IEEE_ETS, ets.encode());
        confirm(link, ETS, self.ieee(link, ETS, DCB_CMD_IEEE_SET, change)?)?;
        let after = supported(link, ETS, self.settings(link)?.ets)?;
        if after.transmits_as(ets) {
            return Ok(());
        }
        let text =
            |ets: &Ets| format!("{:?} {:?} {:?}", ets.priority_class, ets.algorithm, ets.transmit_bandwidth);
        Err(Error::NotApplied { link: link.clone(), what: ETS, requested: text(ets), found: text(&after) })
    }

    /// Adds an application priority.
    ///
    /// mlx5 and ice accept only DSCPs, and trust DSCP from the first one on. mlx5 replaces the priority that the DSCP had; with
    /// other drivers both are in the list.
    ///
    /// # Errors
    /// [`Error::InvalidApp`]; [`Error::Refused`] with `EEXIST` if the kernel has the entry.
    ///
    /// # Kernel
    /// `DCB_CMD_IEEE_SET` with one entry in `DCB_ATTR_IEEE_APP_TABLE`: the kernel ignores all entries after the first that the
    /// driver does not reply 0 to.
    pub fn add_app(&self, link: &LinkName, app: AppPriority) -> Result<(), Error> {
        self.change_app(link, app, DCB_CMD_IEEE_SET)
    }

    /// Removes an application priority.
    ///
    /// # Errors
    /// [`Error::InvalidApp`]; [`Error::Refused`] with `ENOENT` if the kernel does not have the entry.
    ///
    /// # Kernel
    /// `DCB_CMD_IEEE_DEL` with one entry in `DCB_ATTR_IEEE_APP_TABLE`.
    pub fn del_app(&self, link: &LinkName, app: AppPriority) -> Result<(), Error> {
        self.change_app(link, app, DCB_CMD_IEEE_DEL)
    }

    /// Sets what the port derives the priority of a received frame from, in order of precedence.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with mlx5, bnxt and ice, and before Linux 6.2: there, add or remove the application priorities
    /// with a DSCP; [`Error::Refused`] if the port cannot have this order.
    ///
    /// # Kernel
    /// `DCB_CMD_IEEE_SET` with `DCB_ATTR_DCB_APP_TRUST_TABLE`. It is read before: older kernels ignore the attribute.
    pub fn set_trust(&self, link: &LinkName, order: &[AppSelector]) -> Result<(), Error> {
        supported(link, TRUST, self.settings(link)?.trust)?;
        confirm(link, TRUST, self.ieee(link, TRUST, DCB_CMD_IEEE_SET, trust_table(order))?)
    }

    /// Sets who negotiates with the peer.
    ///
    /// To let the host manage the settings, set `host` and `ieee`. With mlx5 the mode without any flag lets the firmware manage
    /// them. bnxt and ice change to or from their firmware by other means (NVRAM, `ethtool --set-priv-flags … fw-lldp-agent`).
    ///
    /// # Errors
    /// [`Error::Unsupported`]; [`Error::DriverCode`] with 1 if the driver refuses the mode, and with ice also if it is the
    /// current one.
    ///
    /// # Kernel
    /// `DCB_CMD_SDCBX` with `DCB_ATTR_DCBX`.
    pub fn set_dcbx(&self, link: &LinkName, mode: DcbxMode) -> Result<(), Error> {
        let change = DefaultNla::new(DCB_ATTR_DCBX, vec![mode.bits()]);
        let request = request(link, RTM_SETDCB, DCB_CMD_SDCBX, vec![change]);
        confirm(link, DCBX, self.status(link, DCBX, request, DCB_ATTR_DCBX)?)
    }

    /// A positive number of the driver may mean success: ice replies 1 or 2 if the change needed no reset. So the list decides.
    fn change_app(&self, link: &LinkName, app: AppPriority, command: u8) -> Result<(), Error> {
        app.check().map_err(|source| Error::InvalidApp { link: link.clone(), source })?;
        let table = nest(DCB_ATTR_IEEE_APP_TABLE, &[app.encode()]);
        let status = self.ieee(link, APP, command, table)?;
        match status {
            Status::DriverCode(_) if is_in_effect(&self.settings(link)?.apps, app, command) => Ok(()),
            _ => confirm(link, APP, status),
        }
    }

    fn ieee(
        &self,
        link: &LinkName,
        what: &'static str,
        command: u8,
        change: DefaultNla,
    ) -> Result<Status, Error> {
        self.status(link, what, ieee_request(link, command, change), DCB_ATTR_IEEE)
    }

    fn status(
        &self,
        link: &LinkName,
        what: &'static str,
        request: DcbMessage,
        attribute: u16,
    ) -> Result<Status, Error> {
        let command = request.command;
        let reply = self.exchange("change", link, what, request)?;
        Status::parse(&reply, command, attribute).map_err(|source| Error::malformed(link, source))
    }
}

/// Whether a list is as it is after an application priority was added or removed.
fn is_in_effect(apps: &[AppPriority], app: AppPriority, command: u8) -> bool {
    apps.contains(&app) == (command == DCB_CMD_IEEE_SET)
}

fn ieee_request(link: &LinkName, command: u8, change: DefaultNla) -> DcbMessage {
    request(link, RTM_SETDCB, command, vec![nest(DCB_ATTR_IEEE, &[change])])
}

fn trust_table(order: &[AppSelector]) -> DefaultNla {
    let entry = |selector: &AppSelector| DefaultNla::new(selector.attribute(), vec![selector.number()]);
    nest(DCB_ATTR_DCB_APP_TRUST_TABLE, &order.iter().map(entry).collect::<Vec<_>>())
}

fn supported<T>(link: &LinkName, what: &'static str, part: Option<T>) -> Result<T, Error> {
    part.ok_or_else(|| Error::Unsupported { link: link.clone(), what })
}

fn confirm(link: &LinkName, what: &'static str, status: Status) -> Result<(), Error> {
    let link = link.clone();
    match status {
        Status::Done => Ok(()),
        Status::Failed(Errno::EOPNOTSUPP) => Err(Error::Unsupported { link, what }),
        Status::Failed(errno) => Err(Error::Refused { link, what, errno }),
        Status::DriverCode(code) => Err(Error::DriverCode { link, what, code }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> LinkName {
        "eth0".parse().unwrap()
    }

    /// Returns the attributes of a request after the link's name.
    fn change(command: u8, attribute: DefaultNla) -> Vec<u8> {
        let request = ieee_request(&link(), command, attribute);
        assert_eq!((request.kind, request.command), (RTM_SETDCB, command));
        let (name, rest) = request.attributes.split_at(12);
        assert_eq!(name, [9, 0, 1, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0]);
        rest.to_vec()
    }

    #[test]
    fn an_application_priority_is_nested_twice() {
        let app = AppPriority { selector: AppSelector::Dscp, protocol: 26, priority: 3 };
        let table = nest(DCB_ATTR_IEEE_APP_TABLE, &[app.encode()]);
        let expected = [16, 0, 13, 0x80, 12, 0, 3, 0x80, 8, 0, 1, 0, 5, 3, 26, 0];
        assert_eq!(change(DCB_CMD_IEEE_DEL, table), expected);
    }

    #[test]
    fn a_trust_order_has_the_attribute_type_of_each_selector() {
        let expected = [24, 0, 13, 0x80, 20, 0, 11, 0x80, 5, 0, 1, 0, 5, 0, 0, 0, 5, 0, 2, 0, 255, 0, 0, 0];
        assert_eq!(change(DCB_CMD_IEEE_SET, trust_table(&[AppSelector::Dscp, AppSelector::Pcp])), expected);
    }

    #[test]
    fn the_list_shows_whether_an_application_priority_was_changed() {
        let app = |priority| AppPriority { selector: AppSelector::Dscp, protocol: 26, priority };
        let is = |apps: &[AppPriority]| {
            [DCB_CMD_IEEE_SET, DCB_CMD_IEEE_DEL].map(|it| is_in_effect(apps, app(3), it))
        };
        assert_eq!(
            [is(&[app(1), app(3)]), is(&[app(1)]), is(&[])],
            [[true, false], [false, true], [false, true]]
        );
    }

    #[test]
    fn the_status_of_a_change_says_what_to_do() {
        let text = |status| confirm(&link(), PFC, status).unwrap_err().to_string();
        assert!(confirm(&link(), PFC, Status::Done).is_ok());
        assert_eq!(
            text(Status::Failed(Errno::EINVAL)),
            "link eth0: its driver refused to change PFC: Invalid argument; check the values against the card's number of \
             traffic classes, and that the host manages DCB (DCBX mode host), not the card's firmware"
        );
        assert_eq!(
            text(Status::Failed(Errno::EOPNOTSUPP)),
            "link eth0: PFC is not supported by its driver or by this kernel; use a PF whose driver has it"
        );
        assert!(text(Status::Failed(Errno::EEXIST)).ends_with("; remove the entry first"));
        assert_eq!(
            text(Status::DriverCode(1)),
            "link eth0: its driver replied 1 to a change of PFC: expected 0; read the settings to see its effect"
        );
    }

    #[test]
    fn a_reply_without_a_status_is_malformed() {
        let reply = |command, attributes: &[u8]| DcbMessage {
            kind: RTM_SETDCB,
            command,
            attributes: attributes.to_vec(),
        };
        let status = |reply: &DcbMessage| Status::parse(reply, DCB_CMD_IEEE_SET, DCB_ATTR_IEEE);
        let refused = [5, 0, 13, 0, 0xea, 0, 0, 0];
        assert_eq!(status(&reply(DCB_CMD_IEEE_SET, &refused)).unwrap(), Status::Failed(Errno::EINVAL));
        assert!(status(&reply(DCB_CMD_IEEE_DEL, &refused)).is_err());
        for length in 0..5 {
            assert!(status(&reply(DCB_CMD_IEEE_SET, &refused[..length])).is_err(), "{length}");
        }
        assert!(status(&reply(DCB_CMD_IEEE_SET, &[6, 0, 13, 0, 0, 0, 0, 0])).is_err());
    }
}
