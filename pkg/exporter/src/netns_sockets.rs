//! The netlink and ethtool sockets in a network namespace, for one collection.

use std::sync::{Arc, atomic::Ordering};

use netns::NetNs;
use sysfs::Sysfs;

use crate::{
    collect_error::BoxError,
    netns_target::{NetnsTarget, SysfsView},
};

/// Sockets in a network namespace. They keep the namespace alive, so they are closed at the end of the collection.
#[derive(Debug)]
pub(crate) struct NetnsSockets {
    pub(crate) place: Arc<NetnsTarget>,
    pub(crate) rdma: rdma::Handle,
    ethtool: Option<ethtool::EthtoolSocket>,
    /// The sysfs of the host.
    pub(crate) node: Sysfs,
    host: Arc<NetNs>,
}

impl NetnsSockets {
    /// Opens the sockets; `None` if the namespace is gone.
    pub(crate) fn open(
        place: Arc<NetnsTarget>,
        node: &Sysfs,
        host: &Arc<NetNs>,
    ) -> Result<Option<Self>, BoxError> {
        // InfiniBand ports have no links, for example. If a port has one, `ethtool` opens the socket later.
        let has_links = place.has_links.swap(false, Ordering::Relaxed);
        let ethtool = || has_links.then(ethtool::EthtoolSocket::open).and_then(Result::ok);
        // Each collection reads first whether the RDMA core is loaded.
        let open = || Ok::<_, BoxError>((rdma::Handle::open_here()?, ethtool()));
        let sockets = place.run_in_netns(host, open)?;
        let Some((rdma, ethtool)) = sockets.transpose()? else { return Ok(None) };
        Ok(Some(Self { place, rdma, ethtool, node: node.clone(), host: host.clone() }))
    }

    /// Returns the RDMA devices of the namespace.
    pub(crate) fn devices(&mut self) -> Result<Vec<rdma::Device>, rdma::Error> {
        self.place.devices(&self.host, || self.rdma.devices())
    }

    /// Returns the ethtool socket; opens it if necessary. `None` if that fails.
    pub(crate) fn ethtool(&mut self) -> Option<&ethtool::EthtoolSocket> {
        self.place.has_links.store(true, Ordering::Relaxed);
        if self.ethtool.is_none() {
            let opened = self.place.run_in_netns(&self.host, ethtool::EthtoolSocket::open);
            self.ethtool = opened.ok().flatten().and_then(Result::ok);
        }
        self.ethtool.as_ref()
    }

    /// Returns the sysfs of the namespace; `None` if the namespace is gone.
    pub(crate) fn view(&self) -> Result<Option<Arc<SysfsView>>, BoxError> {
        Ok(self.place.view(&self.host)?)
    }
}
