//! CHECK: whether the attachment is in the state that ADD left.

use cni::{AddResult, CheckRequest, Error as CniError, ResultInterface};
use plugin_runtime::{Error, Node, PodNetns, attachment, delegate};
use rtnl::Link;

use crate::{ChildLinkKind, change::Change, conf::ChildLinkConf, error::ChildError, parent::Parent};

/// Compares the pod's link with the configuration, the result of its ADD, and the journal.
pub(crate) fn check<K: ChildLinkKind>(
    kind: &K,
    node: &Node,
    request: &CheckRequest<'_>,
) -> Result<(), CniError> {
    let conf = ChildLinkConf::of(kind, &request.common)?;
    let pod = PodNetns::open(&request.netns, request.own_netns_allowed)?;
    delegate::check(request, node)?;
    let prev =
        request.common.conf.prev_result()?.ok_or_else(|| CniError::config("required prevResult missing"))?;
    let described = described(request, &prev)?;
    // The kernel deletes a link together with its parent: without a `master` to compare, the link itself is evidence.
    if conf.settings.master.is_some() {
        Parent::find(kind, node, &pod, &conf)?;
    }
    let link = pod.links.find_link(&request.attachment.ifname).map_err(Error::from)?;
    let link = link.ok_or_else(|| Error::from(ChildError::Gone(request.attachment.ifname.clone())))?;
    same_link(kind, &conf, &link, described)?;
    conf.routing.verify(&pod, &link, &of_interface(&prev, described))?;
    if let Some(journal) = attachment::find::<Change>(node, K::NAME, &request.attachment)? {
        journal.verify(node)?;
    }
    Ok(())
}

/// Returns the interface of `prevResult` that is this attachment's link.
fn described<'a>(request: &CheckRequest<'_>, prev: &'a AddResult) -> Result<&'a ResultInterface, CniError> {
    let ifname = request.attachment.ifname.as_str();
    let sandbox = request.netns.to_str();
    let named: Vec<&ResultInterface> = prev.interfaces.iter().filter(|i| i.name == ifname).collect();
    named.iter().copied().find(|i| i.sandbox.as_deref() == sandbox).ok_or_else(|| {
        let found: Vec<_> = named.iter().filter_map(|i| i.sandbox.as_deref()).collect();
        let msg = if named.is_empty() {
            format!("prevResult has no interface {ifname}")
        } else {
            let netns = request.netns.display();
            format!("sandbox in prevResult {} doesn't match configured netns: {netns}", found.join(", "))
        };
        CniError::config(msg)
    })
}

fn same_link<K: ChildLinkKind>(
    kind: &K,
    conf: &ChildLinkConf<K>,
    link: &Link,
    described: &ResultInterface,
) -> Result<(), Error> {
    if !K::is(link) {
        let is = link.kind.as_ref().map_or_else(|| "not a virtual link".into(), |k| format!("a {k}"));
        return Err(ChildError::OtherKind { name: link.name.clone(), is, kind: K::NAME }.into());
    }
    if let Some(difference) = kind.difference(link, &conf.mode) {
        return Err(ChildError::OtherMode { name: link.name.clone(), difference }.into());
    }
    let is = link.address.to_string();
    if let Some(was) = described.mac.clone().filter(|was| !was.eq_ignore_ascii_case(&is)) {
        return Err(ChildError::OtherMac { name: link.name.clone(), is, was }.into());
    }
    Ok(())
}

/// Returns the addresses of the interface and the routes; a later plugin of the chain may have added other addresses.
fn of_interface(prev: &AddResult, described: &ResultInterface) -> AddResult {
    let index = prev.interfaces.iter().position(|i| i == described);
    let ips = prev.ips.iter().filter(|ip| ip.interface == index).cloned().collect();
    AddResult { ips, routes: prev.routes.clone(), ..AddResult::default() }
}

#[cfg(test)]
mod tests {
    use cni::{CallContext, CniArgs, IpConfig, NetConf};

    use super::*;

    #[test]
    fn of_interfaces_with_one_name_that_of_the_pod_is_described_with_its_addresses() {
        let conf = NetConf::parse(br#"{"name": "rail"}"#).unwrap();
        let request = CheckRequest {
            attachment: "c0ffee@net1".parse().unwrap(),
            netns: "/run/netns/a".into(),
            own_netns_allowed: false,
            common: CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] },
        };
        let interface = |name: &str, sandbox: Option<&str>| ResultInterface {
            name: name.into(),
            sandbox: sandbox.map(str::to_owned),
            ..ResultInterface::default()
        };
        let ip = |address: &str, interface| IpConfig {
            address: address.parse().unwrap(),
            gateway: None,
            interface,
        };
        let prev = AddResult {
            interfaces: vec![
                interface("net1", None),
                interface("net2", Some("/run/netns/a")),
                interface("net1", Some("/run/netns/a")),
            ],
            ips: vec![
                ip("10.7.0.1/24", Some(0)),
                ip("10.7.0.5/24", Some(2)),
                ip("10.7.0.9/24", None),
                ip("fd00::5/64", Some(2)),
            ],
            ..AddResult::default()
        };
        let own = described(&request, &prev).unwrap();
        assert_eq!(own, &prev.interfaces[2]);
        assert_eq!(of_interface(&prev, own).ips, [prev.ips[1].clone(), prev.ips[3].clone()]);
    }
}
