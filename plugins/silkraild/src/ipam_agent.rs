//! `silkraild ipam`: the agent for pools of the cluster.

use std::{convert::Infallible, path::PathBuf};

use clap::Args;
use cluster_ipam::{Agent, AgentError, AgentOptions};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    DaemonError,
    node_name::{self, UnknownNodeName},
};

/// Lease blocks of the cluster's pools for the pods of this node
///
/// Gives the plugins of this node the SpiderIPPool objects of the cluster, for networks whose IPAM has "store": "cluster", and
/// leases blocks of their addresses as IPBlock objects. An ADD takes addresses of the node's blocks and needs neither this
/// program nor the API server; only when the node has no free address, it asks this program for a block. Requires the
/// CustomResourceDefinitions of conf/silkraild-ipam, and the pod's service account or KUBECONFIG.
#[derive(Debug, Args)]
pub(crate) struct IpamArgs {
    /// Name of the node in Kubernetes, if it differs from the hostname
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,
    /// State directory of the plugins
    #[arg(long, default_value = "/run/silkrail", value_name = "DIR")]
    state_dir: PathBuf,
}

/// Why `silkraild ipam` exits.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IpamAgentError {
    #[error(transparent)]
    NodeName(#[from] UnknownNodeName),
    #[error("no Kubernetes API is configured: run it in a pod with a service account, or set KUBECONFIG")]
    NoApi,
    #[error(transparent)]
    Access(#[from] kubeapi::Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// Runs the agent until SIGTERM or SIGINT.
pub(crate) fn run(args: &IpamArgs) -> Result<(), DaemonError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            end = serve(args) => match end? {},
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

async fn serve(args: &IpamArgs) -> Result<Infallible, IpamAgentError> {
    let client = kubeapi::connect().await?.ok_or(IpamAgentError::NoApi)?;
    let node_name = node_name::of(args.node_name.as_deref())?;
    let agent = Agent::start(client, AgentOptions { node_name, state_dir: args.state_dir.clone() })?;
    tracing::info!("serving the plugins of this node");
    Ok(agent.run().await?)
}
