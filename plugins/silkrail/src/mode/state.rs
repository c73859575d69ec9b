//! What `mode get` saw, to people and as JSON.

use std::io::Write;

use modprobe::NextBoot;
use rdma::NetnsMode;
use serde::Serialize;

use crate::{exit::Failure, json};

/// The answer to `mode get`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    pub(crate) mode: Option<NetnsMode>,
    pub(super) source: Option<Source>,
    pub(crate) next_boot: NextBoot,
    /// Whether the next boot will have the mode of now.
    pub(super) agree: bool,
}

/// Who told the mode.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
    Netlink,
    Sysfs,
}

impl State {
    pub(crate) fn print(&self, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
        if as_json {
            return json::print(self, out);
        }
        match (self.mode, self.source) {
            (Some(mode), Some(Source::Netlink)) => {
                writeln!(out, "now:        {mode} (the kernel, by netlink)")?
            }
            (Some(mode), _) => writeln!(out, "now:        {mode} (the kernel's parameter in /sys)")?,
            (None, _) => writeln!(out, "now:        RDMA not available: ib_core is not loaded")?,
        }
        let NextBoot { mode, file, by, .. } = &self.next_boot;
        match file {
            Some(file) => writeln!(out, "next boot:  {mode} ({})", file.display())?,
            None => writeln!(out, "next boot:  {mode} ({by})")?,
        }
        for warning in &self.next_boot.warnings {
            writeln!(out, "warning:    {warning}")?;
        }
        if let (false, Some(now)) = (self.agree, self.mode) {
            writeln!(
                out,
                "They differ. To keep {now}: silkrail mode set {now} --persist. To have {mode} now: reboot."
            )?;
        }
        Ok(())
    }
}
