//! Pools of the cluster: `"store": "cluster"`. The node has blocks of their addresses, from which an ADD takes them. It asks the
//! daemon of the node only if none is free.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use ipam::{AgentRequest, AgentRequestError, LocalStore, Pool};
use plugin_runtime::{Error, Node};

use crate::error::IpamError;

/// The timeout for a block, which needs a few requests to the API server.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// The pools of the cluster, as `silkraild ipam` gives them to the node.
#[derive(Debug)]
pub(crate) struct ClusterPools {
    directory: PathBuf,
}

impl ClusterPools {
    /// Returns those of the node with this state directory.
    pub(crate) fn of(state: &Path) -> Self {
        Self { directory: state.join("cluster") }
    }

    /// Returns the directory of the pools.
    pub(crate) fn pools_dir(&self) -> PathBuf {
        self.directory.join("pools")
    }

    /// Returns the directory of the pods, which exists if the agent watches them.
    pub(crate) fn pods_dir(&self) -> PathBuf {
        self.directory.join("pods")
    }

    /// Checks that the daemon has written the pools since the node was booted.
    ///
    /// # Errors
    /// If it has not.
    pub(crate) fn check_is_ready(&self) -> Result<(), Error> {
        let directory = self.pools_dir();
        // The daemon writes this file last.
        if directory.join("pools.json").is_file() {
            return Ok(());
        }
        let text = format!(
            "the pools of the cluster are not known on this node yet (there is no pools.json in {}); is `silkraild ipam` running, and can it \
             reach the API server? Try again later",
            directory.display()
        );
        Err(IpamError::BlockUnavailable(text).into())
    }

    /// Returns the pools with those addresses only that are in blocks of the node, without the pools that have none.
    ///
    /// # Errors
    /// If the blocks cannot be read.
    pub(crate) fn on_node(store: &LocalStore, pools: &[&Pool]) -> Result<Vec<Pool>, Error> {
        let blocks = store.blocks()?;
        let pools = pools.iter().map(|pool| pool.in_blocks(&blocks));
        Ok(pools.filter(|pool| !pool.ranges.is_empty()).collect())
    }

    /// Returns when the node has a block with a free address of one of these pools, and which: the first that is not exhausted.
    ///
    /// # Errors
    /// If it does not get one.
    pub(crate) fn request_block_of<'p>(
        &self,
        node: &Node,
        pools: &[&'p Pool],
    ) -> Result<Vec<&'p Pool>, Error> {
        let names: Vec<_> = pools.iter().map(|pool| pool.name.as_str()).collect();
        let name = self.request_block(node, AgentRequest::BlockOf(&names))?;
        let chosen = pools.iter().copied().filter(|pool| Some(pool.name.as_str()) == name.as_deref());
        Ok(chosen.collect())
    }

    /// Returns when the node has the block with this address of a pool.
    ///
    /// # Errors
    /// If it does not get it.
    pub(crate) fn request_block_with(&self, node: &Node, pool: &Pool, address: IpAddr) -> Result<(), Error> {
        self.request_block(node, AgentRequest::BlockWith(pool.name.as_str(), address)).map(drop)
    }

    /// Returns when addresses of this node are reserved for a pod.
    ///
    /// # Errors
    /// If they are not.
    pub(crate) fn reserve(&self, node: &Node, request: AgentRequest<'_>) -> Result<(), Error> {
        let deadline = node.budget.until("the reservation of an address", BLOCK_TIMEOUT);
        match request.send(&self.socket(), deadline.at()) {
            Ok(_) => Ok(()),
            Err(error) => {
                let text = format!("the address of the pod is not reserved: {error}");
                Err(IpamError::BlockUnavailable(text).into())
            }
        }
    }

    /// Returns when there is a file of the pod with this UID.
    ///
    /// # Errors
    /// If there is none in time.
    pub(crate) fn request_pod(&self, node: &Node, uid: &str, timeout: Duration) -> Result<(), Error> {
        let deadline = node.budget.until("the pod", timeout);
        match AgentRequest::Pod(uid).send(&self.socket(), deadline.at()) {
            Ok(_) => Ok(()),
            Err(error) => {
                Err(IpamError::UnknownPod(format!("the pools of the pod are not known: {error}")).into())
            }
        }
    }

    /// Sends a request for a block, and returns the name of the pool in the answer.
    fn request_block(&self, node: &Node, request: AgentRequest<'_>) -> Result<Option<String>, Error> {
        let deadline = node.budget.until("a block of addresses", BLOCK_TIMEOUT);
        request.send(&self.socket(), deadline.at()).map_err(|error| {
            match error {
                AgentRequestError::Refused(problem) => IpamError::NoBlock(problem),
                AgentRequestError::Unavailable(_) | AgentRequestError::Socket { .. } => {
                    IpamError::BlockUnavailable(format!("no free address on this node: {error}"))
                }
            }
            .into()
        })
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }
}
