//! ADD: the function, its RDMA devices, into the pod.

use std::time::{Duration, Instant};

use cni::{Add, AddResult, Code, Error as CniError, Plugin};
use journal::Journal;
use plugin::{
    Error, Node, Pod,
    attachment::{self, Beginning},
    claim::{self, Claim, Part},
};
use podmap::Mode;
use rdma::{Device, NetnsMode};
use sysfs::Function;
use tracing::info;

use crate::{
    NAME,
    change::{Change, Described},
    conf,
    device_move::DeviceMove,
};

/// How long a device may be on its way home from its former pod.
const RETURN: Duration = Duration::from_secs(20);

/// How long a device may be without its name in sysfs, while the kernel registers it anew.
const REGISTRATION: Duration = Duration::from_secs(2);

/// Gives a pod the RDMA devices of its function.
pub(crate) fn add(request: &Add<'_>, builtin_ipam: &'static dyn Plugin) -> Result<AddResult, CniError> {
    let Some(prev) = request.common.conf.prev_result()? else {
        return Err(CniError::config("RDMA-CNI is expected to be called as part of a plugin chain")
            .with_details("put rdma after sriov in the plugins of the network"));
    };
    let node = Node::of(&request.common, builtin_ipam)?;
    let pod = Pod::open(&request.netns, request.own_netns_allowed)?;
    mode_is_exclusive(&node)?;
    let function = conf::function(request, &pod, &prev)?;
    may_be_moved(&node, request, &function)?;
    let journal = attachment::begin(&node, &Beginning::of(NAME, request, &pod))?;
    attachment::all_or_nothing(journal, &node, |journal| make(journal, request, &node, &pod, &function))?;
    Ok(prev)
}

fn make(
    journal: &mut Journal<Change>,
    request: &Add<'_>,
    node: &Node,
    pod: &Pod,
    function: &Function,
) -> Result<(), Error> {
    let owner = &request.attachment;
    let claim = Claim::of(Part::Rdma, function.clone(), owner, request.netns.clone(), pod.id())?;
    journal.make(Change::Claim(claim.clone()), |_| {
        claim.make(node, |former| attachment::take_back::<Change>(node, NAME, former))
    })?;
    let devices = devices(node, function)?;
    for device in &devices {
        let device_move = DeviceMove::of(owner, function, device, request.netns.clone(), pod);
        journal.make(Change::Move(device_move.clone()), |_| device_move.move_to_pod(node, device, pod))?;
        info!(device = %device.name, function = %function, "moved");
    }
    describe(journal, request, node, &devices)
}

/// Refuses a function that is not there, or whose VF another attachment has.
fn may_be_moved(node: &Node, request: &Add<'_>, function: &Function) -> Result<(), Error> {
    if !node.sysfs.has(function)? {
        return Err(CniError::config(format!("deviceID: there is no device {function} on this node")).into());
    }
    if claim::is_anothers(node, Part::Vf, function, &request.attachment)? {
        let msg = format!("deviceID: {function} belongs to another attachment");
        return Err(CniError::new(Code::IN_USE, msg).with_details("`silkrail pods` shows to which").into());
    }
    Ok(())
}

/// The RDMA devices of the function that are at home, or about to be.
fn devices(node: &Node, function: &Function) -> Result<Vec<Device>, Error> {
    let found = |node: &Node| -> Result<Vec<Device>, Error> {
        let mut socket = rdma::open(&node.sysfs)?;
        Ok(rdma::devices_of(&mut socket, &node.sysfs, function)?)
    };
    // User-space access shows in every namespace. With it, a device is on its way home from a pod that is gone, or
    // it could not have been claimed; without it there is none, or it is just being registered.
    let (here, everywhere) = (found(node)?, node.sysfs.uverbs(function)?.len());
    if !here.is_empty() && here.len() >= everywhere {
        return Ok(here);
    }
    let patience = if everywhere > 0 { RETURN } else { REGISTRATION };
    match rdma::wait_for_return(&node.sysfs, function, Instant::now() + patience) {
        Err(rdma::Error::NotReturned { .. }) if everywhere == 0 => {
            let driver = node.sysfs.driver(function)?;
            Err(rdma::Error::NoDeviceOf { function: function.clone(), driver }.into())
        }
        Err(error) => Err(error.into()),
        Ok(_) => found(node),
    }
}

fn describe(
    journal: &mut Journal<Change>,
    request: &Add<'_>,
    node: &Node,
    devices: &[Device],
) -> Result<(), Error> {
    let (Some(described), Some(device)) = (Described::of(node, &request.attachment), devices.first()) else {
        return Ok(());
    };
    let rdma = podmap::Rdma {
        mode: Mode::Exclusive,
        ibdev: Some(device.name.clone()),
        port: Some(1),
        node_guid: Some(device.node_guid.to_string()),
        ..described.before().clone()
    };
    journal.make(Change::Described(described.clone()), |_| described.write(node, rdma))
}

fn mode_is_exclusive(node: &Node) -> Result<(), Error> {
    let mut socket = rdma::open(&node.sysfs)?;
    match rdma::netns_mode(&mut socket)? {
        NetnsMode::Exclusive => Ok(()),
        NetnsMode::Shared => Err(mode_is_shared().into()),
    }
}

/// The error of a node in the wrong mode.
pub(crate) fn mode_is_shared() -> CniError {
    let msg = "RDMA subsystem namespace awareness mode is set to shared, expecting it to be set to exclusive, \
               invalid system configurations";
    let details = "run `silkrail mode set exclusive --persist`; the kernel allows it only while no other network \
                   namespace exists, so at boot before the container runtime";
    CniError::new(Code::NO_RDMA, msg).with_details(details)
}
