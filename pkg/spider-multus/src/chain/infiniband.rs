//! Links on InfiniBand: VFs, and IPoIB.

use identifiers::LinkName;

use super::{main_plugin::MainPlugin, plugin::Plugin};
use crate::{InvalidDocument, fields::Fields};

const LINK_STATES: [&str; 3] = ["enable", "auto", "disable"];

/// Reads the settings of `ib-sriov`, which moves the RDMA device itself.
pub(super) fn read_vf(settings: &mut Fields<'_>) -> Result<MainPlugin, InvalidDocument> {
    let resource = settings.required_text("resourceName")?.to_owned();
    let pkey = settings.text("pkey")?.filter(|pkey| !pkey.is_empty());
    let state = settings.text("linkState")?.unwrap_or(LINK_STATES[0]);
    if !LINK_STATES.contains(&state) {
        let what = format!("expected one of {}, found {state:?}", LINK_STATES.join(", "));
        return Err(settings.invalid("linkState", what));
    }
    let isolation = settings.flag("rdmaIsolation")?.unwrap_or(true);
    let former = settings.flag("ibKubernetesEnabled")?; // before version 1.0
    let kubernetes = settings.flag("enableIbKubernetes")?.or(former).unwrap_or_default();
    let main = Plugin::new("ib-sriov").with_some("pkey", pkey).with("link_state", state);
    let main = main.with("rdmaIsolation", isolation).with("ibKubernetesEnabled", kubernetes);
    Ok(MainPlugin { resource: Some(resource), ..MainPlugin::only(main) })
}

/// Reads the settings of `ipoib`.
pub(super) fn read_ipoib(settings: &mut Fields<'_>) -> Result<MainPlugin, InvalidDocument> {
    let master = settings.required_text("master")?;
    let _: LinkName =
        master.parse().map_err(|error| settings.invalid("master", format!("{master:?}: {error}")))?;
    Ok(MainPlugin::only(Plugin::new("ipoib").with("master", master)))
}
