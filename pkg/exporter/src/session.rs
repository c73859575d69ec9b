//! The sockets by which a place is asked, for one collection.

use std::sync::Arc;

use netns::NetNs;
use sysfs::Sysfs;

use crate::{
    place::{Place, View},
    trouble::Failure,
};

/// Sockets of a place. They keep its namespace alive, so they are closed when the collection is done.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) place: Arc<Place>,
    pub(crate) rdma: rdma::Socket,
    pub(crate) ethtool: Option<ethtool::Socket>,
    /// The node's sysfs.
    pub(crate) node: Sysfs,
    home: Arc<NetNs>,
}

impl Session {
    /// Opens them; `None` if the place is gone.
    pub(crate) fn open(place: Arc<Place>, node: &Sysfs, home: &Arc<NetNs>) -> Result<Option<Self>, Failure> {
        let open = || Ok::<_, Failure>((rdma::open(node)?, ethtool::Socket::open().ok()));
        let sockets = place.enter(home, open)?;
        let Some((rdma, ethtool)) = sockets.transpose()? else { return Ok(None) };
        Ok(Some(Self { place, rdma, ethtool, node: node.clone(), home: home.clone() }))
    }

    /// The sysfs of the place; `None` if the place is gone.
    pub(crate) fn view(&self) -> Result<Option<Arc<View>>, Failure> {
        Ok(self.place.view(&self.home)?)
    }
}
