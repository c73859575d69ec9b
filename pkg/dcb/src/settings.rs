//! The DCB settings of a link.

use netlink_packet_core::DecodeError;
use serde::Serialize;

use crate::{
    AppPriority, AppSelector, DcbMessage, DcbxMode, Ets, Pfc, PortBuffers,
    attribute::attributes,
    ieee_maxrate,
    uapi::{
        DCB_ATTR_DCB_APP, DCB_ATTR_DCB_APP_TRUST_TABLE, DCB_ATTR_DCB_BUFFER, DCB_ATTR_DCBX, DCB_ATTR_IEEE,
        DCB_ATTR_IEEE_APP, DCB_ATTR_IEEE_APP_TABLE, DCB_ATTR_IEEE_ETS, DCB_ATTR_IEEE_MAXRATE,
        DCB_ATTR_IEEE_PFC, DCB_CMD_IEEE_GET, MAX_TCS,
    },
};

/// The DCB settings of a link. What its driver or the kernel does not have is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DcbSettings {
    /// Priority-based flow control.
    pub pfc: Option<Pfc>,
    /// The traffic classes.
    pub ets: Option<Ets>,
    /// The rate limit of each traffic class in kbit/s, 0 for none (`struct ieee_maxrate`). That is the unit of `linux/dcbnl.h`
    /// and of mlx5; `dcb maxrate` of iproute2 6.1 shows the number as bytes per second.
    pub max_rate: Option<[u64; MAX_TCS]>,
    /// The receive buffers of the port.
    pub buffers: Option<PortBuffers>,
    /// The priorities of applications, in the kernel's order: the latest first.
    pub apps: Vec<AppPriority>,
    /// What the port derives the priority of a received frame from, in order of precedence. Since Linux 6.2, and not with mlx5,
    /// bnxt and ice: see [`DcbSettings::trusts_dscp`].
    pub trust: Option<Vec<AppSelector>>,
    /// Who negotiates with the peer.
    pub dcbx: Option<DcbxMode>,
}

impl DcbSettings {
    /// Reads a reply to `DCB_CMD_IEEE_GET`. Attributes that are not listed here are skipped.
    ///
    /// # Errors
    /// If the message is another one, an attribute does not fit, a structure is too short, or `DCB_ATTR_IEEE` is missing.
    ///
    /// # Kernel
    /// `dcbnl_ieee_fill` of `net/dcb/dcbnl.c`: `DCB_ATTR_IFNAME`; `DCB_ATTR_IEEE` with an attribute for each structure that
    /// the driver filled in; `DCB_ATTR_DCBX` if the driver has a mode.
    pub fn parse(reply: &DcbMessage) -> Result<Self, DecodeError> {
        if reply.command != DCB_CMD_IEEE_GET {
            return Err(format!("a reply to DCB command {}, not to {DCB_CMD_IEEE_GET}", reply.command).into());
        }
        let (mut settings, mut complete) = (Self::default(), false);
        for attribute in attributes(&reply.attributes) {
            match attribute? {
                (DCB_ATTR_IEEE, nest) => {
                    settings.read_ieee(nest)?;
                    complete = true;
                }
                (DCB_ATTR_DCBX, value) => settings.dcbx = Some(DcbxMode::from_bits(number(value)?)),
                _ => {}
            }
        }
        if complete { Ok(settings) } else { Err(DecodeError::from("the reply lacks DCB_ATTR_IEEE")) }
    }

    /// Whether the port derives the priority of a received IP packet from its DSCP.
    ///
    /// A driver without a trust order does so as long as there is an application priority with a DSCP: mlx5 and ice switch the
    /// port to DSCP with the first one, and to the VLAN tag when the last one is removed.
    pub fn trusts_dscp(&self) -> bool {
        match &self.trust {
            Some(order) => order.contains(&AppSelector::Dscp),
            None => self.apps.iter().any(|app| app.selector == AppSelector::Dscp),
        }
    }

    fn read_ieee(&mut self, nest: &[u8]) -> Result<(), DecodeError> {
        for attribute in attributes(nest) {
            match attribute? {
                (DCB_ATTR_IEEE_ETS, value) => self.ets = Some(Ets::parse(value)?),
                (DCB_ATTR_IEEE_PFC, value) => self.pfc = Some(Pfc::parse(value)?),
                (DCB_ATTR_IEEE_MAXRATE, value) => self.max_rate = Some(ieee_maxrate::parse(value)?),
                (DCB_ATTR_DCB_BUFFER, value) => self.buffers = Some(PortBuffers::parse(value)?),
                (DCB_ATTR_IEEE_APP_TABLE, table) => self.apps = entries(table, AppPriority::parse)?,
                (DCB_ATTR_DCB_APP_TRUST_TABLE, table) => {
                    let selector = |value: &[u8]| number(value).map(AppSelector::from_number);
                    self.trust = Some(entries(table, selector)?);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads the entries of a table with application priorities or selectors.
fn entries<T>(table: &[u8], read: impl Fn(&[u8]) -> Result<T, DecodeError>) -> Result<Vec<T>, DecodeError> {
    let mut found = Vec::new();
    for attribute in attributes(table) {
        if let (DCB_ATTR_IEEE_APP | DCB_ATTR_DCB_APP, value) = attribute? {
            found.push(read(value)?);
        }
    }
    Ok(found)
}

/// Reads an attribute of one byte.
pub(crate) fn number(value: &[u8]) -> Result<u8, DecodeError> {
    match value {
        [number] => Ok(*number),
        _ => Err(format!("an attribute of {} bytes, where one byte is expected", value.len()).into()),
    }
}
