//! Replies that depend on `net/dcb/dcbnl.c`, not on a driver.

/// A driver with a trust order, on Linux 6.2 or newer: `dcbnl_getapptrust` sends the selectors in order of precedence in a nest
/// with `NLA_F_NESTED`, unlike all other nests. An entry with the selector PCP has the attribute type `DCB_ATTR_DCB_APP`. No
/// mode: the driver does not implement `getdcbx`.
pub(crate) const TRUST: &str = "
    20 01 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    09 00 01 00 73 77 70 31 00 00 00 00 # DCB_ATTR_IFNAME swp1
    00 01 0d 00 # DCB_ATTR_IEEE
    3f 00 01 00 # DCB_ATTR_IEEE_ETS
    00 08 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 01 02 03 04 05 06 07
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00
    00
    8c 00 02 00 # DCB_ATTR_IEEE_PFC
    08 80 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    1c 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
    08 00 02 00 ff 01 09 00 08 00 01 00 05 05 2e 00 08 00 01 00 01 02 00 00
    14 00 0b 80 # DCB_ATTR_DCB_APP_TRUST_TABLE
    05 00 01 00 05 00 00 00 05 00 02 00 ff 00 00 00
";

/// A driver that implements none of the functions: only the table of application priorities, which is empty.
pub(crate) const NOTHING: &str = "
    28 00 00 00 4e 00 01 00 07 00 00 00 67 12 00 00 # nlmsghdr: RTM_GETDCB
    00 15 00 00 # dcbmsg: DCB_CMD_IEEE_GET
    09 00 01 00 65 74 68 30 00 00 00 00 # DCB_ATTR_IFNAME eth0
    08 00 0d 00 # DCB_ATTR_IEEE
    04 00 03 00 # DCB_ATTR_IEEE_APP_TABLE
";
