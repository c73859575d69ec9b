//! ADD: moves the RDMA devices of the chain's function to the pod.

use cni::{AddRequest, AddResult, Error as CniError};
use exclusive_rdma::{ExclusiveRdmaRequirement, PLUGIN, RdmaAdd, RdmaChange};
use plugin_runtime::{
    Error, Node,
    attachment::{self, JournalSpec},
};
use state::claim::{self, ClaimKind};
use sysfs::Function;

use crate::{conf, error::RdmaError, pf};

/// Moves the RDMA devices of the chain's function to the pod, and returns `prevResult`.
pub(crate) fn add(node: &Node, request: &AddRequest<'_>) -> Result<AddResult, CniError> {
    let Some(prev) = request.common.conf.prev_result()? else {
        return Err(CniError::config("RDMA-CNI is expected to be called as part of a plugin chain")
            .with_details("put rdma after sriov in the plugins of the network"));
    };
    let need = ExclusiveRdmaRequirement::of(&request.common)?;
    let allows_pf = conf::allows_pf(&request.common)?;
    let pod = plugin_runtime::netns_of(&request.netns, request.own_netns_allowed)?;
    exclusive_rdma::require_exclusive_mode(node)?;
    let function = conf::function(request, &pod, &prev)?;
    require_movable(node, request, &function)?;
    if !allows_pf {
        pf::refuse_in_use(&node.sysfs, &function)?;
    }
    let beginning = JournalSpec {
        plugin: PLUGIN,
        attachment: &request.attachment,
        network: &request.common.conf.name,
        netns_path: &request.netns,
        netns: Some(pod.id()),
    };
    let journal = attachment::begin(node, &beginning)?;
    let addition = RdmaAdd { request, node, pod: &pod, function: &function, moves_ipoib: false };
    let addresses: Vec<_> = prev.ips.iter().map(|ip| ip.address.ip()).collect();
    attachment::run_or_revert(journal, node, |journal| {
        let moved = addition.attach(journal)?;
        addition.wait_until_ready(need, &moved, &addresses)?;
        addition.update_pod_map(journal, &moved)
    })?;
    Ok(prev)
}

/// Checks that the function exists and its VF and RDMA device do not belong to another attachment or plugin.
fn require_movable(node: &Node, request: &AddRequest<'_>, function: &Function) -> Result<(), Error> {
    if !node.sysfs.has(function)? {
        return Err(CniError::config(format!("deviceID: there is no device {function} on this node")).into());
    }
    if claim::is_claimed_by_other(
        &node.state,
        node.claims_lock().at(),
        ClaimKind::Vf,
        function,
        &request.attachment,
    )? {
        return Err(RdmaError::InUse(function.clone()).into());
    }
    // A claim that a killed ADD of this plugin left has a journal of this plugin.
    let owner = claim::owner_of(&node.state, node.claims_lock().at(), ClaimKind::Rdma, function)?;
    if owner.as_ref() == Some(&request.attachment)
        && attachment::find::<RdmaChange>(node, PLUGIN, &request.attachment)?.is_none()
    {
        let msg = format!("the pod already has the RDMA device of {function}: sriov has rdmaIsolation");
        let details = "remove rdma from the chain, or rdmaIsolation from sriov; nothing was changed";
        return Err(CniError::config(msg).with_details(details).into());
    }
    Ok(())
}
