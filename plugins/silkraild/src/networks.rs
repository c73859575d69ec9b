//! `silkraild networks`: NetworkAttachmentDefinitions of SpiderMultusConfig objects.

use std::convert::Infallible;

use clap::{Args, ValueEnum};
use network_controller::NetworkController;
use spider_multus::Target;

use crate::cluster_pools::{self, ClusterPoolsError};

/// Keep NetworkAttachmentDefinitions in step with SpiderMultusConfig objects
///
/// To be run once in a cluster, in place of Spiderpool's controller. For each SpiderMultusConfig there is the
/// NetworkAttachmentDefinition that `silkrail render` prints. It is changed with the object, and belongs to it: the API server
/// deletes it when the object is deleted. One that does not belong to the object is not touched. What is wrong with an object is
/// reported as an event of it.
#[derive(Debug, Args)]
pub(crate) struct NetworksArgs {
    /// The pools of the networks
    #[arg(long, value_enum, default_value = "cluster")]
    pools: NetworkPools,
}

/// Where the networks get their addresses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NetworkPools {
    /// silkrail-ipam with the pools of the cluster (conf/silkraild-ipam)
    Cluster,
    /// silkrail-ipam with the pools of each node
    Node,
    /// Spiderpool, whose agent runs on the nodes: its IPAM plugin and coordinator are in the chain
    Spiderpool,
}

/// Runs the controller until SIGTERM or SIGINT.
pub(crate) fn run(args: &NetworksArgs) -> Result<(), ClusterPoolsError> {
    cluster_pools::until_terminated(control(args))
}

async fn control(args: &NetworksArgs) -> Result<Infallible, ClusterPoolsError> {
    let client = kubeapi::connect().await?.ok_or(ClusterPoolsError::NoApi)?;
    let target = match args.pools {
        NetworkPools::Cluster => Target::SilkrailCluster,
        NetworkPools::Node => Target::Silkrail,
        NetworkPools::Spiderpool => Target::Spiderpool,
    };
    tracing::info!("keeping the networks of the cluster up to date");
    Ok(NetworkController::run(client, target).await)
}
