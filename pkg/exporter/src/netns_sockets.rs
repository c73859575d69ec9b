//! The sockets by which a place is asked, for one collection.

use std::sync::{Arc, atomic::Ordering};

use netns::NetNs;
use sysfs::Sysfs;

use crate::{
    collect_error::BoxError,
    netns_target::{NetnsTarget, SysfsView},
};

/// Sockets of a place. They keep its namespace alive, so they are closed when the collection is done.
#[derive(Debug)]
pub(crate) struct NetnsSockets {
    pub(crate) place: Arc<NetnsTarget>,
    pub(crate) rdma: rdma::Handle,
    ethtool: Option<ethtool::EthtoolSocket>,
    /// The node's sysfs.
    pub(crate) node: Sysfs,
    home: Arc<NetNs>,
}

impl NetnsSockets {
    /// Opens them; `None` if the place is gone.
    pub(crate) fn open(
        place: Arc<NetnsTarget>,
        node: &Sysfs,
        home: &Arc<NetNs>,
    ) -> Result<Option<Self>, BoxError> {
        // Twins and InfiniBand have no links. If it turns out that one has, it is entered once more.
        let has_links = place.has_links.swap(false, Ordering::Relaxed);
        let ethtool = || has_links.then(ethtool::EthtoolSocket::open).and_then(Result::ok);
        let open = || Ok::<_, BoxError>((rdma::Handle::open(node)?, ethtool()));
        let sockets = place.run_in_netns(home, open)?;
        let Some((rdma, ethtool)) = sockets.transpose()? else { return Ok(None) };
        Ok(Some(Self { place, rdma, ethtool, node: node.clone(), home: home.clone() }))
    }

    /// The devices of the place.
    pub(crate) fn devices(&mut self) -> Result<Vec<rdma::Device>, rdma::Error> {
        self.place.devices(&self.home, || self.rdma.devices())
    }

    /// By which a link is asked.
    pub(crate) fn ethtool(&mut self) -> Option<&ethtool::EthtoolSocket> {
        self.place.has_links.store(true, Ordering::Relaxed);
        if self.ethtool.is_none() {
            let opened = self.place.run_in_netns(&self.home, ethtool::EthtoolSocket::open);
            self.ethtool = opened.ok().flatten().and_then(Result::ok);
        }
        self.ethtool.as_ref()
    }

    /// The sysfs of the place; `None` if the place is gone.
    pub(crate) fn view(&self) -> Result<Option<Arc<SysfsView>>, BoxError> {
        Ok(self.place.view(&self.home)?)
    }
}
