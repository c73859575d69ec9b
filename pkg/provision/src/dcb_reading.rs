//! What was read of a PF's DCB settings.

use dcb::DcbSettings;
use inventory::Pf;

/// The DCB settings of a PF, or why there are none.
#[derive(Debug, Clone)]
pub enum DcbReading {
    /// The settings of its link.
    Settings(Box<DcbSettings>),
    /// Its driver has none.
    Unsupported,
    /// It has no link in this network namespace.
    NoLink,
    /// They could not be read. Other PFs are still configured.
    Failed(String),
}

impl DcbReading {
    /// Reads the DCB settings of a PF.
    pub(crate) fn read(pf: &Pf) -> Self {
        let Some(link) = &pf.link else { return Self::NoLink };
        match dcb::Handle::open().and_then(|handle| handle.settings(&link.name)) {
            Ok(settings) => Self::Settings(Box::new(settings)),
            Err(dcb::Error::Unsupported { .. }) => Self::Unsupported,
            Err(dcb::Error::NoSuchLink { .. }) => Self::NoLink,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}
