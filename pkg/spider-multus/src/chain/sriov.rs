//! VFs on Ethernet.

use super::{
    main_plugin::MainPlugin,
    plugin::Plugin,
    values::{MAX_MTU, MAX_VLAN},
};
use crate::{InvalidDocument, fields::Fields};

/// The largest rate, in Mbit/s: what the plugin accepts.
const MAX_RATE: u64 = u32::MAX as u64;

/// Reads the settings. Versions before 1.0 have other names for some.
pub(super) fn read(settings: &mut Fields<'_>) -> Result<MainPlugin, InvalidDocument> {
    let resource = settings.required_text("resourceName")?.to_owned();
    let vlan = settings.number("vlanID", MAX_VLAN)?;
    let mtu = settings.number("mtu", MAX_MTU)?.filter(|mtu| *mtu > 0);
    let rate = |settings: &mut Fields<'_>, key, former| match settings.number(key, MAX_RATE)? {
        Some(rate) => Ok(Some(rate)),
        None => settings.number(former, MAX_RATE),
    };
    let least = rate(settings, "minTxRateMbps", "minTxRate")?;
    let most = rate(settings, "maxTxRateMbps", "maxTxRate")?;
    if let (Some(least), Some(most)) = (least, most)
        && least > most
        && most != 0
    {
        return Err(settings.invalid("minTxRateMbps", format!("{least} is more than maxTxRateMbps, {most}")));
    }
    let isolation = settings.flag("rdmaIsolation")?;
    let former = settings.flag("enableRdma")?;
    // 0 resets what the VF has, and without the key it is kept.
    let main = Plugin::new("sriov").with_some("vlan", vlan);
    let main = main.with_some("min_tx_rate", least).with_some("max_tx_rate", most);
    let has_rdma = isolation.or(former).unwrap_or_default();
    Ok(MainPlugin { has_rdma, mtu, resource: Some(resource), ..MainPlugin::only(main) })
}
