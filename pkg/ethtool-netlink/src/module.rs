//! The plug-in module of a link.

use identifiers::LinkName;
use netlink_packet_core::DefaultNla;
use nix::errno::Errno;
use serde::Serialize;

use crate::{
    Error, HalfPage, HalfPageAddress, Handle, Malformed, ModuleEeprom, ModuleMemory,
    attributes::attributes,
    command::{MODULE_EEPROM_GET, MODULE_GET},
    handle::malformed,
    module_memory::LENGTH,
};

/// `ETHTOOL_A_MODULE_`.
const POWER_MODE_POLICY: u16 = 2;
const POWER_MODE: u16 = 3;
/// `ETHTOOL_A_MODULE_EEPROM_`.
const EEPROM_OFFSET: u16 = 2;
const EEPROM_LENGTH: u16 = 3;
const EEPROM_PAGE: u16 = 4;
const EEPROM_BANK: u16 = 5;
const EEPROM_I2C_ADDRESS: u16 = 6;
const EEPROM_DATA: u16 = 7;

/// The module of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Module {
    /// The power mode, which few drivers of NICs report.
    pub power: ModulePower,
    /// The EEPROM; `None` if the driver cannot read it.
    pub eeprom: Option<ModuleEeprom>,
}

/// The power mode of a module; `None` if the driver does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModulePower {
    /// When the module may use much power (`ETHTOOL_A_MODULE_POWER_MODE_POLICY`).
    pub policy: Option<PowerModePolicy>,
    /// The current mode (`ETHTOOL_A_MODULE_POWER_MODE`); `None` also if no module is plugged in.
    pub mode: Option<PowerMode>,
}

/// A policy for the power mode (`ETHTOOL_MODULE_POWER_MODE_POLICY_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PowerModePolicy {
    /// Always high power.
    High,
    /// High power while a port of the module is administratively up.
    Auto,
    /// A policy of a newer kernel, by its number.
    Other(u8),
}

/// A power mode (`ETHTOOL_MODULE_POWER_MODE_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PowerMode {
    /// Low power: only the management interface works.
    Low,
    /// High power: the link can be up.
    High,
    /// A mode of a newer kernel, by its number.
    Other(u8),
}

impl ModulePower {
    /// Parses the attributes of a `ETHTOOL_MSG_MODULE_GET_REPLY`.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(reply: &[u8]) -> Result<Self, Malformed> {
        let mut power = Self::default();
        for attribute in attributes(reply) {
            let attribute = attribute?;
            match attribute.kind {
                POWER_MODE_POLICY => {
                    power.policy = Some(match attribute.u8("ETHTOOL_A_MODULE_POWER_MODE_POLICY")? {
                        1 => PowerModePolicy::High,
                        2 => PowerModePolicy::Auto,
                        other => PowerModePolicy::Other(other),
                    });
                }
                POWER_MODE => {
                    power.mode = Some(match attribute.u8("ETHTOOL_A_MODULE_POWER_MODE")? {
                        1 => PowerMode::Low,
                        2 => PowerMode::High,
                        other => PowerMode::Other(other),
                    });
                }
                _ => {}
            }
        }
        Ok(power)
    }
}

impl HalfPage {
    /// Parses the attributes of a `ETHTOOL_MSG_MODULE_EEPROM_GET_REPLY` to a request for a half page.
    ///
    /// # Errors
    /// [`Malformed`]; [`Malformed::Length`] also if the driver read fewer bytes than requested.
    pub fn parse(reply: &[u8]) -> Result<Self, Malformed> {
        let mut page = None;
        for attribute in attributes(reply) {
            let attribute = attribute?;
            if attribute.kind == EEPROM_DATA {
                page = Some(Self::try_from(attribute.value)?);
            }
        }
        page.ok_or(Malformed::Missing { attribute: "ETHTOOL_A_MODULE_EEPROM_DATA" })
    }
}

impl Handle {
    /// Reads the module of a link; `None` if the driver can read neither its power mode nor its EEPROM.
    ///
    /// It takes up to five reads of 128 bytes over I2C, each several milliseconds, and blocks other requests to the link
    /// meanwhile: a caller that repeats it should wait for seconds in between.
    ///
    /// # Errors
    /// [`Error::NoSuchLink`]; [`Error::ModuleUnreadable`], also if no module is plugged in; [`Error::Malformed`];
    /// [`Error::Netlink`], with `EPERM` if the caller does not have `CAP_NET_ADMIN`, or if the card does not trust a VF.
    ///
    /// # Kernel
    /// `ETHTOOL_MSG_MODULE_GET` and `ETHTOOL_MSG_MODULE_EEPROM_GET`.
    pub fn module(&self, link: &LinkName) -> Result<Option<Module>, Error> {
        let reply = self.request(link, &MODULE_GET, 0, Vec::new())?;
        let power = reply.map_or(Ok(ModulePower::default()), |reply| ModulePower::parse(&reply));
        let power = power.map_err(malformed(link, &MODULE_GET))?;
        let eeprom = self.module_eeprom(link)?;
        // The kernel replies to MODULE_GET for any driver, with nothing in it.
        let any = eeprom.is_some() || power != ModulePower::default();
        Ok(any.then_some(Module { power, eeprom }))
    }

    fn module_eeprom(&self, link: &LinkName) -> Result<Option<ModuleEeprom>, Error> {
        let Some(lower) = self.half_page(link, HalfPageAddress::LOWER)? else { return Ok(None) };
        ModuleEeprom::read_further(&lower, &mut PortMemory { handle: self, link }).map(Some)
    }

    /// Reads a half page; `None` if the driver does not support it.
    fn half_page(&self, link: &LinkName, address: HalfPageAddress) -> Result<Option<HalfPage>, Error> {
        let reply = self.request(link, &MODULE_EEPROM_GET, 0, eeprom_request(address));
        let reply = reply.map_err(|error| self.error_of_module(link, address, error))?;
        let page = reply.map(|reply| HalfPage::parse(&reply)).transpose();
        page.map_err(|source| match source {
            Malformed::Length { length, .. } => {
                unreadable(link, address, format!("the driver read {length} of {LENGTH} bytes"))
            }
            source => malformed(link, &MODULE_EEPROM_GET)(source),
        })
    }

    /// Turns the error of a driver into one of its module. Drivers that use phylink answer `ENODEV` without a module, so a
    /// link that is not found is looked for once more.
    fn error_of_module(&self, link: &LinkName, address: HalfPageAddress, error: Error) -> Error {
        match error {
            Error::NoSuchLink { .. } => match self.link_state(link) {
                Ok(_) => unreadable(link, address, Errno::ENODEV.desc().into()),
                Err(error) => error,
            },
            Error::Netlink(netlink::Error::Refused { errno, extack, .. }) if errno != Errno::EPERM => {
                unreadable(link, address, format!("{}{extack}", errno.desc()))
            }
            error => error,
        }
    }
}

fn unreadable(link: &LinkName, address: HalfPageAddress, reason: String) -> Error {
    let HalfPageAddress { i2c_address, page, .. } = address;
    Error::ModuleUnreadable { link: link.clone(), i2c_address, page, reason }
}

fn eeprom_request(address: HalfPageAddress) -> Vec<DefaultNla> {
    let number = |kind, value: u8| DefaultNla::new(kind, u32::from(value).to_ne_bytes().to_vec());
    vec![
        number(EEPROM_OFFSET, address.offset),
        number(EEPROM_LENGTH, LENGTH),
        DefaultNla::new(EEPROM_PAGE, vec![address.page]),
        DefaultNla::new(EEPROM_BANK, vec![0]),
        DefaultNla::new(EEPROM_I2C_ADDRESS, vec![address.i2c_address]),
    ]
}

/// The memory of the module in a port.
struct PortMemory<'a> {
    handle: &'a Handle,
    link: &'a LinkName,
}

impl ModuleMemory for PortMemory<'_> {
    type Error = Error;

    fn read(&mut self, address: HalfPageAddress) -> Result<HalfPage, Error> {
        let page = self.handle.half_page(self.link, address)?;
        page.ok_or_else(|| unreadable(self.link, address, Errno::EOPNOTSUPP.desc().into()))
    }

    fn read_optional(&mut self, address: HalfPageAddress) -> Result<Option<HalfPage>, Error> {
        match self.handle.half_page(self.link, address) {
            Err(Error::ModuleUnreadable { .. }) => Ok(None),
            page => page,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_driver_is_one_of_its_module() {
        let (handle, lo) = (Handle::open().unwrap(), "lo".parse().unwrap());
        let seen = |link: &LinkName, error| handle.error_of_module(link, HalfPageAddress::upper(3), error);
        let refused = |errno| {
            let (operation, object) = ("read", "link lo".to_owned());
            Error::from(netlink::Error::Refused {
                operation,
                object,
                errno,
                extack: netlink::Extack::default(),
            })
        };
        assert_eq!(
            seen(&lo, refused(Errno::EIO)).to_string(),
            "link lo: page 0x03 of the module at I2C address 0x50 cannot be read: I/O error; check that a module is \
             plugged in"
        );
        let not_permitted = seen(&lo, refused(Errno::EPERM));
        assert!(matches!(not_permitted, Error::Netlink(_)), "the module has no part in it");
        assert!(not_permitted.is_permission() && !seen(&lo, refused(Errno::EIO)).is_permission());
        let no_such_link = |link: &LinkName| Error::NoSuchLink { link: link.clone() };
        assert!(matches!(seen(&lo, no_such_link(&lo)), Error::ModuleUnreadable { .. }), "the link exists");
        let none = "silkrail-none".parse().unwrap();
        assert!(matches!(seen(&none, no_such_link(&none)), Error::NoSuchLink { .. }));
    }

    #[test]
    fn a_half_page_is_requested_by_its_address() {
        let request = crate::genl::encode(&eeprom_request(HalfPageAddress::upper(0x11)));
        let numbers = [[8, 0, 2, 0, 128, 0, 0, 0], [8, 0, 3, 0, 128, 0, 0, 0]];
        let bytes = [[5, 0, 4, 0, 0x11, 0, 0, 0], [5, 0, 5, 0, 0, 0, 0, 0], [5, 0, 6, 0, 0x50, 0, 0, 0]];
        assert_eq!(request, [numbers.as_flattened(), bytes.as_flattened()].concat());
    }
}
