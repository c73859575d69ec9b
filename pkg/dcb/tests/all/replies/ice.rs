//! Replies of `drivers/net/ethernet/intel/ice/ice_dcb_nl.c`. The driver has neither maximum rates nor buffers.

/// LLDP in software (`fw-lldp-agent off`), and nothing was set: `ice_dcb_sw_dflt_cfg` of `ice_dcb_lib.c`.
///
/// * ETS, `ice_dcbnl_getets`: class 0 has the whole bandwidth, the other classes are strict (0); `tc_rx_bw` repeats `tc_tx_bw`;
///   the recommendation is the same.
/// * PFC, `ice_dcbnl_getpfc`: `delay` is a field of the register `PRTDCB_GENC`; its value is an example.
/// * No application priorities: `ice_dcbnl_set_all` returns in host mode, without the one of FCoE.
pub(crate) const SOFTWARE: &str = "
    00 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    0d 00 01 00 65 6e 70 34 73 30 66 30 00 00 00 00 # DCB_ATTR_IFNAME enp4s0f0
    d4 00 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    01 08 00
    64 00 00 00 00 00 00 00
    64 00 00 00 00 00 00 00
    02 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    64 00 00 00 00 00 00 00
    02 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    08 00 00 00 20 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    04 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    05 00 0e 00 09 00 00 00 # DCB_ATTR_DCBX
";

/// LLDP in software, after one application priority with a DSCP was added, and PFC was set to priority 3: `ice_dcbnl_setapp`
/// switches the port to DSCP, in which class N has priority N, and stops being willing. `requests` is `priority_xoff_tx`,
/// `indications` is `priority_xoff_rx`: frames that end a pause are not counted.
pub(crate) const SOFTWARE_DSCP: &str = "
    08 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    0d 00 01 00 65 6e 70 34 73 30 66 30 00 00 00 00 # DCB_ATTR_IFNAME enp4s0f0
    dc 00 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    00 08 00
    64 00 00 00 00 00 00 00
    64 00 00 00 00 00 00 00
    02 02 02 02 02 02 02 02
    00 01 02 03 04 05 06 07
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 01 02 03 04 05 06 07
    00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    08 08 00 00 20 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 0b 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 16 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    0c 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    08 00 01 00 05 03 1a 00
    05 00 0e 00 09 00 00 00 # DCB_ATTR_DCBX
";

/// LLDP in firmware (the default), with a switch that announces two classes, PFC on priority 3, FCoE and iSCSI.
///
/// * `ice_parse_ieee_etscfg_tlv` of `ice_dcb.c`: `ets_cap` is the field of 3 bits of the TLV, 0 for 8 classes. Later kernels
///   send 8.
/// * Application priorities, `ice_dcbnl_set_all`: those of the TLV, in the kernel's list, the last one first.
/// * DCBX, `ice_dcb_get_mode`: managed by another entity, IEEE.
pub(crate) const FIRMWARE: &str = "
    10 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    0d 00 01 00 65 6e 70 34 73 30 66 30 00 00 00 00 # DCB_ATTR_IFNAME enp4s0f0
    e4 00 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    01 00 00
    32 32 00 00 00 00 00 00
    32 32 00 00 00 00 00 00
    02 02 00 00 00 00 00 00
    00 00 00 01 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 01 00 00 00 00
    00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    08 08 00 00 20 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    14 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    08 00 01 00 02 04 bc 0c 08 00 01 00 01 03 06 89
    05 00 0e 00 0a 00 00 00 # DCB_ATTR_DCBX
";
