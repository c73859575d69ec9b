//! A handle to the links of one network namespace.

use std::cell::RefCell;

use identifiers::LinkName;
use netlink::Socket;
use netlink_packet_core::DefaultNla;

use crate::{
    DcbMessage, DcbSettings, Error,
    attribute::encode,
    message::DcbFamily,
    uapi::{DCB_ATTR_IFNAME, DCB_CMD_IEEE_GET, RTM_GETDCB},
};

/// A handle to the DCB settings of the links of one network namespace.
#[derive(Debug)]
pub struct Handle {
    socket: RefCell<Socket<DcbFamily>>,
}

impl Handle {
    /// Opens a handle in the calling thread's namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: RefCell::new(Socket::open()?) })
    }

    /// Reads the settings of a link.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the driver has no DCB (virtual links and most VFs have none), or the kernel was built without
    /// it (`CONFIG_DCB`); [`Error::NoSuchLink`].
    ///
    /// # Kernel
    /// `RTM_GETDCB` with `DCB_CMD_IEEE_GET`.
    pub fn settings(&self, link: &LinkName) -> Result<DcbSettings, Error> {
        let request = request(link, RTM_GETDCB, DCB_CMD_IEEE_GET, Vec::new());
        let reply = self.exchange("read", link, "DCB", request)?;
        DcbSettings::parse(&reply).map_err(|source| Error::malformed(link, source))
    }

    pub(crate) fn exchange(
        &self,
        operation: &'static str,
        link: &LinkName,
        what: &'static str,
        request: DcbMessage,
    ) -> Result<DcbMessage, Error> {
        let object = format_args!("{what} of link {link}");
        let reply = self.socket.borrow_mut().get_at_once(operation, &object, request);
        reply.map_err(|error| Error::of_request(link, what, error))
    }
}

/// Returns a request for a link.
pub(crate) fn request(
    link: &LinkName,
    kind: u16,
    command: u8,
    mut attributes: Vec<DefaultNla>,
) -> DcbMessage {
    let name = [link.as_str().as_bytes(), &[0]].concat();
    attributes.insert(0, DefaultNla::new(DCB_ATTR_IFNAME, name));
    DcbMessage { kind, command, attributes: encode(&attributes) }
}
