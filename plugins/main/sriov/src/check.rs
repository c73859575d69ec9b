//! CHECK: whether the attachment is in the state that ADD left.

use cni::{CheckRequest, Error as CniError};
use plugin_runtime::{Error, Node, PodNetns, attachment, delegate, interface};

use crate::{
    change::Change,
    conf::{NAME, SriovConf},
    error::SriovError,
};

/// Compares claim, settings, link and addresses with the journal and the result of ADD.
pub(crate) fn check(node: &Node, request: &CheckRequest<'_>) -> Result<(), CniError> {
    SriovConf::of(&request.common)?;
    let pod = PodNetns::open(&request.netns, request.own_netns_allowed)?;
    delegate::check(request, node)?;
    let prev =
        request.common.conf.prev_result()?.ok_or_else(|| CniError::config("required prevResult missing"))?;
    let journal = attachment::find::<Change>(node, NAME, &request.attachment)?;
    let Some(journal) = journal else {
        return Err(Error::from(SriovError::NoAttachment(request.attachment.clone())).into());
    };
    journal.verify(node)?;
    for change in journal.changes() {
        if let Change::Rdma(change) = change {
            change.require_in_netns(&pod.netns)?;
        }
    }
    let ifname = request.attachment.ifname.as_str();
    let Some(described) = prev.interfaces.iter().find(|i| i.name == ifname) else {
        return Err(CniError::config(format!("prevResult has no interface {ifname}")));
    };
    if !journal.changes().iter().any(|change| matches!(change, Change::Move(_))) {
        return Ok(());
    }
    let link = pod.links.link(&request.attachment.ifname).map_err(Error::from)?;
    let mac = link.mac.map(|mac| mac.to_string());
    if described.mac.as_ref().map(|mac| mac.to_ascii_lowercase()) != mac {
        let (is, was) = (mac.unwrap_or_default(), described.mac.clone().unwrap_or_default());
        return Err(Error::from(SriovError::OtherMac { name: ifname.to_owned(), is, was }).into());
    }
    let index = prev.interfaces.iter().position(|i| i == described);
    let mut own = prev.clone();
    own.ips.retain(|ip| ip.interface == index);
    Ok(interface::verify(&pod, &link, &own)?)
}
