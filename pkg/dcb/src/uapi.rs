//! Numbers of `linux/rtnetlink.h` and `linux/dcbnl.h`.

pub(crate) const RTM_GETDCB: u16 = 78;
pub(crate) const RTM_SETDCB: u16 = 79;

// enum dcbnl_commands
pub(crate) const DCB_CMD_IEEE_SET: u8 = 20;
pub(crate) const DCB_CMD_IEEE_GET: u8 = 21;
pub(crate) const DCB_CMD_SDCBX: u8 = 23;
pub(crate) const DCB_CMD_IEEE_DEL: u8 = 27;

// enum dcbnl_attrs
pub(crate) const DCB_ATTR_IFNAME: u16 = 1;
pub(crate) const DCB_ATTR_IEEE: u16 = 13;
pub(crate) const DCB_ATTR_DCBX: u16 = 14;

// enum ieee_attrs
pub(crate) const DCB_ATTR_IEEE_ETS: u16 = 1;
pub(crate) const DCB_ATTR_IEEE_PFC: u16 = 2;
pub(crate) const DCB_ATTR_IEEE_APP_TABLE: u16 = 3;
pub(crate) const DCB_ATTR_IEEE_MAXRATE: u16 = 7;
pub(crate) const DCB_ATTR_DCB_BUFFER: u16 = 10;
/// Since Linux 6.2.
pub(crate) const DCB_ATTR_DCB_APP_TRUST_TABLE: u16 = 11;

// enum ieee_attrs_app
pub(crate) const DCB_ATTR_IEEE_APP: u16 = 1;
/// An entry whose selector is not one of the standard. Since Linux 6.2.
pub(crate) const DCB_ATTR_DCB_APP: u16 = 2;

/// `IEEE_8021QAZ_MAX_TCS`: the number of priorities, and the highest number of traffic classes.
pub(crate) const MAX_TCS: usize = 8;
