//! The physical state and the DCB settings of links with RDMA.

use link_settings::{LinkSettings, LinkSettingsReader};

use super::{ExaminationScope, devices::DeviceFacts, functions::FunctionFacts};
use crate::host_root::HostRoot;

/// Reads the settings of the links of RDMA ports of the host, except those of VFs and scalable functions.
pub(crate) fn read(
    tree: &HostRoot,
    scope: &ExaminationScope,
    devices: &[DeviceFacts],
    functions: &[FunctionFacts],
) -> Vec<LinkSettings> {
    if !scope.can_query_netlink() {
        return Vec::new();
    }
    // Neither a VF nor a scalable function, which is no PCI function.
    let is_pf = |device: &&DeviceFacts| {
        let function = functions.iter().find(|function| Some(&function.address) == device.function.as_ref());
        function.is_some_and(|function| function.pf.is_none())
    };
    let physical = devices.iter().filter(is_pf);
    let mut links: Vec<&str> =
        physical.flat_map(|device| &device.ports).filter_map(|port| port.link.as_deref()).collect();
    links.sort_unstable();
    links.dedup();
    if links.is_empty() {
        return Vec::new();
    }
    let mut reader = LinkSettingsReader::open();
    let settings = links.into_iter().filter_map(|link| reader.read(&link.parse().ok()?)).collect();
    for unread in reader.unread() {
        tree.note_unexamined(&unread.what, &unread.why);
    }
    settings
}
