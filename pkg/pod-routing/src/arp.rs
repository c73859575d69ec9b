//! The ARP and source address settings of a rail's link: `/proc/sys/net/ipv4/conf/<ifname>`.

use plugin_runtime::{Error, PodNetns};

use crate::{conf::RailConf, error::RoutingError};

/// Returns the settings as file names and values.
///
/// The kernel uses the higher one of a link's value and that of `all` (for `accept_local`, either). So `rp_filter` is 2, loose,
/// which has precedence over a strict 1 in `all`, and not 0.
fn settings(rail: &RailConf) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![
        // Only the link that has an address answers ARP requests for it; else any link of the pod does.
        ("arp_ignore", "1"),
        // ARP requests contain an address of the link over which they are sent.
        ("arp_announce", "2"),
        ("rp_filter", "2"),
    ];
    if rail.accept_local {
        all.push(("accept_local", "1"));
    }
    all
}

/// Applies the settings to a link that is not up yet. They end with the link, or with its move to another namespace.
pub(crate) fn set(rail: &RailConf, pod: &PodNetns, ifname: &str) -> Result<(), Error> {
    let sysctls: Vec<_> =
        settings(rail).into_iter().map(|(name, value)| (path(ifname, name), value)).collect();
    let written = pod.ensure_sysctls(&sysctls)?;
    written.map_err(|source| RoutingError::Sysctl { ifname: ifname.to_owned(), source }.into())
}

/// Checks that the link has the settings.
pub(crate) fn verify(rail: &RailConf, pod: &PodNetns, ifname: &str) -> Result<(), Error> {
    for (name, wanted) in settings(rail) {
        let is = pod.read_sysctl(&path(ifname, name))?;
        let is = is.map_err(|source| RoutingError::Sysctl { ifname: ifname.to_owned(), source })?;
        if is != wanted {
            return Err(RoutingError::OtherSetting { ifname: ifname.to_owned(), name, is, wanted }.into());
        }
    }
    Ok(())
}

fn path(ifname: &str, name: &str) -> String {
    format!("net/ipv4/conf/{ifname}/{name}")
}
