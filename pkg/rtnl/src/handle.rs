//! The rtnetlink handle of one network namespace.

use std::{cell::RefCell, fmt};

use netlink::Socket;
use netns::NetNs;

use crate::message::{Message, Rtnetlink};

/// The error of an rtnetlink request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused the request, or did not reply.
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] netns::Error),
}

impl Error {
    /// Whether the link, address or route does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Netlink(error) if error.is_not_found())
    }

    /// Whether the link, address or route already exists.
    pub fn is_exists(&self) -> bool {
        matches!(self, Self::Netlink(netlink::Error::Exists { .. }))
    }
}

/// A handle to the links, addresses and routes of one network namespace.
#[derive(Debug)]
pub struct Handle {
    socket: RefCell<Socket<Rtnetlink>>,
}

impl Handle {
    /// Opens a handle in the calling thread's namespace.
    ///
    /// # Errors
    /// If the socket cannot be opened.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: RefCell::new(Socket::open()?) })
    }

    /// Opens a handle in another namespace.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or the socket cannot be opened in it.
    pub fn open_in(netns: &NetNs) -> Result<Self, Error> {
        Ok(Self { socket: RefCell::new(netns.run(Socket::open)??) })
    }

    pub(crate) fn execute(
        &self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: Message,
        flags: u16,
    ) -> Result<(), Error> {
        Ok(self.socket.borrow_mut().execute(operation, object, message, flags)?)
    }

    pub(crate) fn get(
        &self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: Message,
    ) -> Result<Message, Error> {
        Ok(self.socket.borrow_mut().get_at_once(operation, object, message)?)
    }

    pub(crate) fn expect_long_answer(&self, bytes: usize) {
        self.socket.borrow_mut().expect_long_answer(bytes);
    }

    pub(crate) fn filter_lists(&self) {
        self.socket.borrow_mut().filter_lists();
    }

    pub(crate) fn dump<T: Default>(
        &self,
        operation: &'static str,
        object: &dyn fmt::Display,
        message: Message,
        visit: impl FnMut(&mut T, Message),
    ) -> Result<T, Error> {
        Ok(self.socket.borrow_mut().dump(operation, object, message, visit)?)
    }
}

/// Formats a link's index for error messages.
pub(crate) struct LinkIndexText(pub(crate) u32);

impl fmt::Display for LinkIndexText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link with index {}", self.0)
    }
}
