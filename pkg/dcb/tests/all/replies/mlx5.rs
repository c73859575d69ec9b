//! Replies of `drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c`.

/// A card whose host manages DCB, after its driver was loaded, and nothing was set.
///
/// * ETS, `mlx5e_ets_init`: every class has 100 % and the vendor's algorithm; priorities 0 and 1 have the classes 1 and 0.
///   `mlx5e_dcbnl_ieee_getets` sets `ets_cap`, and leaves `willing`, `cbs`, `tc_rx_bw` and the recommendations zero.
/// * `mlx5e_dcbnl_ieee_getmaxrate`: `MLX5_BW_NO_LIMIT` is 0.
/// * PFC, `mlx5e_dcbnl_ieee_getpfc`: `delay` is `MLX5E_DEFAULT_CABLE_LEN`, 7 m.
/// * Buffers, `mlx5e_dcbnl_getbuffer`: the sizes are the firmware's; these are examples.
/// * No application priorities: the port trusts the VLAN tag (`mlx5e_dcbnl_dscp_app`).
/// * DCBX, `mlx5e_dcbnl_initialize`: host, CEE and IEEE.
pub(crate) const AFTER_PROBE: &str = "
    70 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    09 00 01 00 65 74 68 30 00 00 00 00 # DCB_ATTR_IFNAME eth0
    48 01 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    00 08 00
    64 64 64 64 64 64 64 64
    00 00 00 00 00 00 00 00
    ff ff ff ff ff ff ff ff
    01 00 02 03 04 05 06 07
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00
    44 00 07 00 # DCB_ATTR_IEEE_MAXRATE
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    08 00 00 00 07 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    30 00 0a 00 # DCB_ATTR_DCB_BUFFER
    00 00 00 00 00 00 00 00
    80 ff 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    80 ff 03 00
    04 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    05 00 0e 00 0d 00 00 00 # DCB_ATTR_DCBX
";

/// A card that was set up for RoCE: PFC on priority 3 (`set_pfc`), classes 0 and 3 share the bandwidth and the others are
/// strict, class 0 is limited to 10 Gbit/s, the port trusts DSCP.
///
/// * ETS, `mlx5e_dcbnl_ieee_setets_core`: strict classes have 100 % in the card, and are reported with it.
/// * `mlx5e_dcbnl_ieee_setmaxrate`: 100 units of 100 Mbit/s.
/// * PFC, `mlx5e_dcbnl_ieee_getpfc`: `requests` is `tx_pause` of each priority, `indications` is `rx_pause`.
/// * Application priorities, `mlx5e_dcbnl_dscp_app`: one for each of the 64 DSCPs, eight to a priority. The kernel inserts at
///   the head of its list (`dcb_app_add` of `net/dcb/dcbnl.c`), so that the highest is first.
pub(crate) const ROCE: &str = "
    70 03 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    0a 00 01 00 72 61 69 6c 30 00 00 00 # DCB_ATTR_IFNAME rail0
    48 03 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    00 08 00
    32 64 64 32 64 64 64 64
    00 00 00 00 00 00 00 00
    02 00 00 02 00 00 00 00
    00 01 02 03 04 05 06 07
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00
    44 00 07 00 # DCB_ATTR_IEEE_MAXRATE
    80 96 98 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    08 08 00 00 07 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 87 d6 12 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 59 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 f2 05 2a 01 00 00 00
    30 00 0a 00 # DCB_ATTR_DCB_BUFFER
    00 00 00 01 00 00 00 00
    00 00 02 00 80 ff 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    80 ff 03 00
    04 02 03 00 # DCB_ATTR_IEEE_APP_TABLE
    08 00 01 00 05 07 3f 00 08 00 01 00 05 07 3e 00 08 00 01 00 05 07 3d 00 08 00 01 00 05 07 3c 00
    08 00 01 00 05 07 3b 00 08 00 01 00 05 07 3a 00 08 00 01 00 05 07 39 00 08 00 01 00 05 07 38 00
    08 00 01 00 05 06 37 00 08 00 01 00 05 06 36 00 08 00 01 00 05 06 35 00 08 00 01 00 05 06 34 00
    08 00 01 00 05 06 33 00 08 00 01 00 05 06 32 00 08 00 01 00 05 06 31 00 08 00 01 00 05 06 30 00
    08 00 01 00 05 05 2f 00 08 00 01 00 05 05 2e 00 08 00 01 00 05 05 2d 00 08 00 01 00 05 05 2c 00
    08 00 01 00 05 05 2b 00 08 00 01 00 05 05 2a 00 08 00 01 00 05 05 29 00 08 00 01 00 05 05 28 00
    08 00 01 00 05 04 27 00 08 00 01 00 05 04 26 00 08 00 01 00 05 04 25 00 08 00 01 00 05 04 24 00
    08 00 01 00 05 04 23 00 08 00 01 00 05 04 22 00 08 00 01 00 05 04 21 00 08 00 01 00 05 04 20 00
    08 00 01 00 05 03 1f 00 08 00 01 00 05 03 1e 00 08 00 01 00 05 03 1d 00 08 00 01 00 05 03 1c 00
    08 00 01 00 05 03 1b 00 08 00 01 00 05 03 1a 00 08 00 01 00 05 03 19 00 08 00 01 00 05 03 18 00
    08 00 01 00 05 02 17 00 08 00 01 00 05 02 16 00 08 00 01 00 05 02 15 00 08 00 01 00 05 02 14 00
    08 00 01 00 05 02 13 00 08 00 01 00 05 02 12 00 08 00 01 00 05 02 11 00 08 00 01 00 05 02 10 00
    08 00 01 00 05 01 0f 00 08 00 01 00 05 01 0e 00 08 00 01 00 05 01 0d 00 08 00 01 00 05 01 0c 00
    08 00 01 00 05 01 0b 00 08 00 01 00 05 01 0a 00 08 00 01 00 05 01 09 00 08 00 01 00 05 01 08 00
    08 00 01 00 05 00 07 00 08 00 01 00 05 00 06 00 08 00 01 00 05 00 05 00 08 00 01 00 05 00 04 00
    08 00 01 00 05 00 03 00 08 00 01 00 05 00 02 00 08 00 01 00 05 00 01 00 08 00 01 00 05 00 00 00
    05 00 0e 00 0d 00 00 00 # DCB_ATTR_DCBX
";

/// A card without the capabilities `ets` and port buffers (`MLX5_BUFFER_SUPPORTED`), whose firmware manages DCB.
///
/// * `mlx5e_dcbnl_ieee_getets` and `mlx5e_dcbnl_getbuffer` return `EOPNOTSUPP`: there is no attribute. `delay` stays 0.
/// * DCBX: CEE and IEEE without host. mlx5 never sets `DCB_CAP_DCBX_LLD_MANAGED`.
pub(crate) const FIRMWARE: &str = "
    00 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    09 00 01 00 65 74 68 30 00 00 00 00 # DCB_ATTR_IFNAME eth0
    d8 00 0d 00 # DCB_ATTR_IEEE
    44 00 07 00 # DCB_ATTR_IEEE_MAXRATE
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    08 30 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    04 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    05 00 0e 00 0c 00 00 00 # DCB_ATTR_DCBX
";
