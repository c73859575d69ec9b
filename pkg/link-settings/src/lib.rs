//! The DCB settings and the physical state of a link, as its driver reports them over netlink.
//!
//! Drivers differ in what they have: everything is optional, and what could not be read is listed beside the rest.
//!
//! # Kernel
//! The same as `dcb pfc show`, `dcb app show`, `dcb dcbx show`, `ethtool`, `ethtool --show-fec`, `ethtool -a` and `ethtool -m`.

#![forbid(unsafe_code)]

use std::{
    fmt::{self, Display},
    mem,
};

use dcb::DcbSettings;
use ethtool_netlink::{Fec, LinkModes, LinkState, Module, Pause};
use identifiers::LinkName;
use serde::Serialize;

/// What a link's driver reports. A value that it does not have is `None`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkSettings {
    /// The name of the link.
    pub link: String,
    /// Flow control by priority, traffic classes and who sets them.
    pub dcb: Option<DcbSettings>,
    /// Whether `dcb` could not be read; otherwise `None` means that the driver has no DCB.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dcb_unread: bool,
    /// Speed and link modes.
    pub modes: Option<LinkModes>,
    /// Why the link is down, and how often it was.
    pub state: Option<LinkState>,
    /// Forward error correction.
    pub fec: Option<Fec>,
    /// Global pause frames.
    pub pause: Option<Pause>,
    /// The plug-in module.
    pub module: Option<Module>,
}

/// Something that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// What was to be read, such as `the physical state of eth0`.
    pub what: String,
    /// The error.
    pub why: String,
}

impl Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}: {}", self.what, self.why)
    }
}

/// Reads the settings of links of the calling thread's network namespace.
#[derive(Debug)]
pub struct LinkSettingsReader {
    dcb: Option<dcb::Handle>,
    ethtool: Option<ethtool_netlink::Handle>,
    unread: Vec<Unread>,
    /// Whether the kernel does not let this process read modules, for which it demands `CAP_NET_ADMIN`.
    modules_refused: bool,
}

impl LinkSettingsReader {
    /// Opens the kernel's interfaces. One that cannot be opened is listed by [`LinkSettingsReader::unread`].
    pub fn open() -> Self {
        let mut reader = Self { dcb: None, ethtool: None, unread: Vec::new(), modules_refused: false };
        let dcb = dcb::Handle::open();
        reader.dcb = dcb.map_err(|error| reader.note("DCB settings", &error)).ok();
        let ethtool = ethtool_netlink::Handle::open();
        reader.ethtool = ethtool.map_err(|error| reader.note("the physical state of links", &error)).ok();
        reader
    }

    /// Reads a link; `None` if there is no such link.
    pub fn read(&mut self, link: &LinkName) -> Option<LinkSettings> {
        use ethtool_netlink::Error::{ModuleUnreadable, NoSuchLink};
        let mut settings = LinkSettings { link: link.to_string(), ..LinkSettings::default() };
        match self.dcb.as_ref().map(|dcb| dcb.settings(link)) {
            Some(Ok(dcb)) => settings.dcb = Some(dcb),
            Some(Err(dcb::Error::NoSuchLink { .. })) => return None,
            None => settings.dcb_unread = true,
            Some(Err(dcb::Error::Unsupported { .. })) => {}
            Some(Err(error)) => {
                settings.dcb_unread = true;
                self.note(format_args!("DCB settings of {link}"), &error);
            }
        }
        let Some(ethtool) = &self.ethtool else { return Some(settings) };
        let mut errors = Vec::new();
        match ethtool.link_modes(link) {
            Err(NoSuchLink { .. }) => return None,
            modes => settings.modes = known(modes, &mut errors),
        }
        settings.state = known(ethtool.link_state(link), &mut errors);
        settings.fec = known(ethtool.fec(link), &mut errors);
        settings.pause = known(ethtool.pause(link), &mut errors);
        let mut is_refused = false;
        settings.module = match ethtool.module(link) {
            // A cage without a module.
            Err(ModuleUnreadable { .. }) => None,
            Err(error) if error.is_permission() => {
                is_refused = true;
                None
            }
            module => known(module, &mut errors),
        };
        for error in errors {
            self.note(format_args!("the physical state of {link}"), &error);
        }
        if is_refused {
            self.note_refused_modules();
        }
        Some(settings)
    }

    /// Notes once, not for each link, that modules cannot be read.
    fn note_refused_modules(&mut self) {
        if !mem::replace(&mut self.modules_refused, true) {
            self.note("the modules of links", &"it needs CAP_NET_ADMIN");
        }
    }

    /// What could not be read until now.
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    fn note(&mut self, what: impl Display, why: &dyn Display) {
        self.unread.push(Unread { what: what.to_string(), why: why.to_string() });
    }
}

/// Returns what was read. A link that went away in between is no error.
fn known<T>(
    read: Result<Option<T>, ethtool_netlink::Error>,
    errors: &mut Vec<ethtool_netlink::Error>,
) -> Option<T> {
    match read {
        Ok(value) => value,
        Err(ethtool_netlink::Error::NoSuchLink { .. }) => None,
        Err(error) => {
            errors.push(error);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_link_has_no_dcb_and_no_module() {
        let mut reader = LinkSettingsReader::open();
        let settings = reader.read(&"lo".parse().unwrap()).unwrap();
        assert!(settings.dcb.is_none() && settings.module.is_none() && settings.fec.is_none());
        assert!(!settings.dcb_unread, "it has none");
        assert_eq!(settings.state.unwrap().up, Some(true));
        assert!(reader.unread().is_empty(), "{:?}", reader.unread());
    }

    #[test]
    fn a_link_that_does_not_exist_is_none() {
        let mut reader = LinkSettingsReader::open();
        assert!(reader.read(&"gone0".parse().unwrap()).is_none());
        assert!(reader.unread().is_empty(), "{:?}", reader.unread());
    }

    fn closed() -> LinkSettingsReader {
        LinkSettingsReader { dcb: None, ethtool: None, unread: Vec::new(), modules_refused: false }
    }

    #[test]
    fn without_the_kernels_interfaces_a_link_has_its_name_and_unknown_settings() {
        let settings = closed().read(&"lo".parse().unwrap()).unwrap();
        assert!(
            settings.link == "lo"
                && settings.dcb_unread
                && settings.dcb.is_none()
                && settings.state.is_none()
        );
        let mut reader = LinkSettingsReader { dcb: None, ..LinkSettingsReader::open() };
        assert!(reader.read(&"gone0".parse().unwrap()).is_none(), "ethtool suffices to find out");
    }

    #[test]
    fn that_modules_are_refused_is_noted_once() {
        let mut reader = closed();
        reader.note_refused_modules();
        reader.note_refused_modules();
        assert_eq!(reader.unread().len(), 1, "{:?}", reader.unread());
    }

    #[test]
    fn a_link_that_went_away_is_no_error_and_each_other_error_is_kept() {
        use ethtool_netlink::Error::{NoSuchLink, Unsupported};
        let mut errors = Vec::new();
        let gone = NoSuchLink { link: "gone0".parse().unwrap() };
        assert_eq!(known::<u8>(Err(gone), &mut errors), None);
        assert_eq!((known(Ok(Some(7)), &mut errors), known::<u8>(Ok(None), &mut errors)), (Some(7), None));
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(known::<u8>(Err(Unsupported), &mut errors), None);
        assert_eq!(errors.len(), 1);
    }
}
