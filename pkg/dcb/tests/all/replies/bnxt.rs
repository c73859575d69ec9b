//! Replies of `drivers/net/ethernet/broadcom/bnxt/bnxt_dcb.c`. The driver has neither maximum rates nor buffers.

/// The host manages DCB (`bnxt_dcb_init`: a PF without an LLDP agent in its firmware), and nothing was set through this
/// interface.
///
/// `bnxt_dcbnl_ieee_getets` sets `ets_cap` to the number of queues, and returns; `bnxt_dcbnl_ieee_getpfc` sets `pfc_cap` to the
/// number of lossless queues, and returns before it reads the counters.
pub(crate) const HOST_UNSET: &str = "
    00 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    0e 00 01 00 65 6e 73 31 66 30 6e 70 30 00 00 00 # DCB_ATTR_IFNAME ens1f0np0
    d4 00 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    00 08 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    02 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    04 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    05 00 0e 00 09 00 00 00 # DCB_ATTR_DCBX
";

/// As above, after `bnxt_dcbnl_ieee_setets`, `bnxt_dcbnl_ieee_setpfc` and `bnxt_dcbnl_ieee_setapp`: what was set is returned,
/// and the counters are `tx_pfc_ena_frames_priN` and `rx_pfc_ena_frames_priN` of the port.
pub(crate) const HOST_ROCE: &str = "
    18 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    0e 00 01 00 65 6e 73 31 66 30 6e 70 30 00 00 00 # DCB_ATTR_IFNAME ens1f0np0
    ec 00 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    00 08 00
    32 32 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    02 02 00 00 00 00 00 00
    00 00 00 01 00 00 00 02
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    02 08 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 4d 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 58 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    1c 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    08 00 01 00 05 03 1a 00 08 00 01 00 03 03 b7 12 08 00 01 00 01 03 15 89
    05 00 0e 00 09 00 00 00 # DCB_ATTR_DCBX
";

/// The firmware manages DCB: it has an LLDP agent and a DCBX agent.
///
/// The driver asks the firmware: `bnxt_hwrm_queue_cos2bw_qcfg` sets `tc_tsa`, and the bandwidth only of ETS classes,
/// `bnxt_hwrm_queue_pri2cos_qcfg` sets `prio_tc`, `bnxt_hwrm_queue_pfc_qcfg` sets `pfc_en`.
pub(crate) const FIRMWARE: &str = "
    00 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    0e 00 01 00 65 6e 73 31 66 30 6e 70 30 00 00 00 # DCB_ATTR_IFNAME ens1f0np0
    d4 00 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    00 03 00
    3c 28 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    02 02 00 00 00 00 00 00
    00 00 00 01 00 00 00 02
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    01 08 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 06 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    04 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    05 00 0e 00 0a 00 00 00 # DCB_ATTR_DCBX
";

/// A VF, or a PF whose firmware has an LLDP agent but no DCBX agent (`bnxt_dcb_init`), that the firmware tells nothing: its
/// mode is only IEEE.
pub(crate) const VF: &str = "
    00 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    0d 00 01 00 65 6e 73 31 66 30 76 30 00 00 00 00 # DCB_ATTR_IFNAME ens1f0v0
    d4 00 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    00 01 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    04 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    05 00 0e 00 08 00 00 00 # DCB_ATTR_DCBX
";
