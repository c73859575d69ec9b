//! A handle to the links of one network namespace.

use std::cell::RefCell;

use identifiers::LinkName;
use netlink::Socket;
use netlink_packet_core::DefaultNla;
use nix::errno::Errno;

use crate::{
    Error, Malformed,
    command::Command,
    genl::{GenericNetlink, GenlMessage, family_id},
    header::{FLAG_STATS, header},
};

/// A handle to the physical state of the links of one network namespace.
///
/// Each method sends one request and waits for its reply; [`Handle::module`] sends several. The kernel holds RTNL, or the
/// lock of the link, while the driver asks the card's firmware, which takes from microseconds to milliseconds.
#[derive(Debug)]
pub struct Handle {
    socket: RefCell<Socket<GenericNetlink>>,
    family: u16,
}

impl Handle {
    /// Opens a handle in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kernel has no ethtool netlink; [`Error::Netlink`].
    ///
    /// # Kernel
    /// `CTRL_CMD_GETFAMILY` with the name `ethtool`.
    pub fn open() -> Result<Self, Error> {
        let mut socket = Socket::open().map_err(|error| match error.errno() {
            Some(Errno::EPROTONOSUPPORT) => Error::Unsupported,
            _ => error.into(),
        })?;
        let family = family_id(&mut socket, "ethtool")?.ok_or(Error::Unsupported)?;
        Ok(Self { socket: RefCell::new(socket), family })
    }

    /// Sends a request and returns the reply's attributes; `None` if the driver does not support it.
    pub(crate) fn request(
        &self,
        link: &LinkName,
        command: &'static Command,
        flags: u32,
        rest: Vec<DefaultNla>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let attributes = [vec![header(command.header, link, flags)], rest].concat();
        let message = GenlMessage::new(self.family, command.request, &attributes);
        let object = format_args!("link {link}");
        let reply = self.socket.borrow_mut().get_at_once::<GenlMessage>(command.name, &object, message);
        match reply {
            Ok(reply) => checked(link, command, reply).map(Some),
            Err(error) if error.errno() == Some(Errno::EOPNOTSUPP) => Ok(None),
            Err(error) if error.is_not_found() => Err(Error::NoSuchLink { link: link.clone() }),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes attributes of a link.
    pub(crate) fn change(
        &self,
        link: &LinkName,
        command: &'static Command,
        changes: Vec<DefaultNla>,
    ) -> Result<(), Error> {
        let attributes = [vec![header(command.header, link, 0)], changes].concat();
        let message = GenlMessage::new(self.family, command.request, &attributes);
        self.socket.borrow_mut().execute(command.name, &format_args!("link {link}"), message, 0).map_err(
            |error| {
                if error.is_not_found() { Error::NoSuchLink { link: link.clone() } } else { error.into() }
            },
        )
    }

    /// As [`Self::request`], with statistics in the reply. Kernels refuse the flag if they are older than the statistics of a
    /// command, those of the link state for example before 6.3: then the request is repeated without it.
    pub(crate) fn request_with_statistics(
        &self,
        link: &LinkName,
        command: &'static Command,
    ) -> Result<Option<Vec<u8>>, Error> {
        match self.request(link, command, FLAG_STATS, Vec::new()) {
            Ok(None) | Err(Error::Netlink(netlink::Error::Refused { errno: Errno::EINVAL, .. })) => {
                self.request(link, command, 0, Vec::new())
            }
            reply => reply,
        }
    }
}

fn checked(link: &LinkName, command: &'static Command, reply: GenlMessage) -> Result<Vec<u8>, Error> {
    if reply.command == command.reply {
        return Ok(reply.attributes);
    }
    let source = Malformed::Command { command: reply.command, expected: command.reply };
    Err(malformed(link, command)(source))
}

/// Returns a function that adds to an error what was read.
pub(crate) fn malformed(link: &LinkName, command: &'static Command) -> impl Fn(Malformed) -> Error {
    move |source| Error::Malformed { object: format!("link {link}"), request: command.name, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{FEC_GET, MODULE_GET};

    #[test]
    fn a_reply_to_another_command_is_refused() {
        let reply = |command| GenlMessage { family: 21, command, attributes: vec![1] };
        let link = "eth0".parse().unwrap();
        assert_eq!(checked(&link, &FEC_GET, reply(30)).unwrap(), [1]);
        let error = checked(&link, &FEC_GET, reply(29)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "link eth0: the kernel's reply to ETHTOOL_MSG_FEC_GET is malformed: it has the command 29, expected 30; \
             report it with the kernel's version"
        );
    }

    #[test]
    fn a_command_without_statistics_is_repeated_without_their_flag() {
        let (handle, link) = (Handle::open().unwrap(), "lo".parse().unwrap());
        let refused = handle.request(&link, &MODULE_GET, FLAG_STATS, Vec::new()).unwrap_err();
        assert!(
            matches!(refused, Error::Netlink(netlink::Error::Refused { errno: Errno::EINVAL, .. })),
            "{refused}"
        );
        assert!(handle.request_with_statistics(&link, &MODULE_GET).unwrap().is_some());
    }
}
