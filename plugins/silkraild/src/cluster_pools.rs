//! `silkraild ipam` and `silkraild ipam-controller`: pools of the cluster.

use std::{convert::Infallible, io, path::PathBuf, time::Duration};

use clap::Args;
use cluster_ipam::{Agent, AgentError, AgentOptions, Controller, ControllerOptions};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    node_name::{self, UnknownNodeName},
    seconds::seconds,
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
    /// Kubeconfig file of this node's kubelet, to let annotations and labels of pods select pools
    ///
    /// For example /etc/kubernetes/kubelet.conf. With it the pods of this node are watched; since version 1.32 the API server
    /// lets a kubelet read no other node's pods. Then the annotations ipam.spidernet.io/ippool, ippools and routes of a pod, default-ipv4-ippool
    /// and default-ipv6-ippool of its namespace, and podAffinity and namespaceAffinity of pools have their effect, and an ADD
    /// waits until its pod is known. Without it, annotations are ignored, and pools with those selectors are not used.
    #[arg(long, value_name = "FILE")]
    kubelet_kubeconfig: Option<PathBuf>,
}

/// Reclaim the blocks of nodes that are gone, and write the status of pools
///
/// To be run once in a cluster that uses `silkraild ipam`. The blocks of a node are given to others if its Node object has not
/// existed for the hold-down time, or has the taint node.kubernetes.io/out-of-service. A node that cannot be reached keeps its
/// blocks. Without this program, only blocks of nodes that are gone remain unavailable.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// Time for which a Node must not exist before its blocks are given to others, in seconds
    #[arg(long, default_value = "600", value_name = "SECONDS", value_parser = hold_down)]
    hold_down: Duration,
    /// Interval at which the status of pools is updated, in seconds
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = seconds)]
    status_interval: Duration,
    /// For tests: agents renew their blocks less often
    #[arg(long, hide = true, value_name = "SECONDS", value_parser = seconds)]
    short_hold_down: Option<Duration>,
}

/// Parses a hold-down time. Within it, an agent learns that its Node object does not exist, and renews its blocks.
fn hold_down(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        long if long >= Duration::from_secs(480) => Ok(long),
        _ => Err(format!(
            "{text:?}: expected at least 480 seconds: an agent may learn after five minutes that its Node does not exist, and \
             renews its blocks every minute"
        )),
    }
}

/// Why one of them exits.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterPoolsError {
    #[error(transparent)]
    NodeName(#[from] UnknownNodeName),
    #[error("no Kubernetes API is configured: run it in a pod with a service account, or set KUBECONFIG")]
    NoApi,
    #[error(transparent)]
    Access(#[from] kubeapi::Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Runs the agent until SIGTERM or SIGINT.
pub(crate) fn run_agent(args: &IpamArgs) -> Result<(), ClusterPoolsError> {
    until_terminated(serve(args))
}

/// Runs the controller until SIGTERM or SIGINT.
pub(crate) fn run_controller(args: &ControllerArgs) -> Result<(), ClusterPoolsError> {
    until_terminated(control(args))
}

/// Runs a program until SIGTERM or SIGINT.
pub(crate) fn until_terminated(
    program: impl Future<Output = Result<Infallible, ClusterPoolsError>>,
) -> Result<(), ClusterPoolsError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            end = program => match end? {},
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        }
    })
}

async fn serve(args: &IpamArgs) -> Result<Infallible, ClusterPoolsError> {
    let client = kubeapi::connect().await?.ok_or(ClusterPoolsError::NoApi)?;
    let node_name = node_name::of(args.node_name.as_deref())?;
    let options = AgentOptions {
        node_name,
        state_dir: args.state_dir.clone(),
        kubelet_kubeconfig: args.kubelet_kubeconfig.clone(),
    };
    let agent = Agent::start(client, options)?;
    tracing::info!("serving the plugins of this node");
    Ok(agent.run().await?)
}

async fn control(args: &ControllerArgs) -> Result<Infallible, ClusterPoolsError> {
    let client = kubeapi::connect().await?.ok_or(ClusterPoolsError::NoApi)?;
    tracing::info!("serving the cluster");
    let options = ControllerOptions {
        hold_down: args.short_hold_down.unwrap_or(args.hold_down),
        status_interval: args.status_interval,
    };
    Ok(Controller::run(client, options).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_down_time_is_longer_than_an_agent_needs_to_learn_of_its_node() {
        assert_eq!(hold_down("480"), Ok(Duration::from_secs(480)));
        assert!(hold_down("479.9").unwrap_err().contains("at least 480 seconds"));
        assert!(hold_down("0").is_err());
    }
}
