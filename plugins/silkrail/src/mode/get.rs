//! The text output of `silkrail mode get`.

use std::io::Write;

use modprobe::NextBootMode;
use rdma_mode::{CurrentMode, ModeSource};

use crate::exit::CommandError;

pub(super) fn print(current: &CurrentMode, out: &mut dyn Write) -> Result<(), CommandError> {
    match (current.mode, current.source) {
        (Some(mode), Some(ModeSource::Netlink)) => {
            writeln!(out, "now:        {mode} (from the kernel, over netlink)")?
        }
        (Some(mode), _) => writeln!(out, "now:        {mode} (from the kernel's parameter in /sys)")?,
        (None, _) => writeln!(out, "now:        RDMA not available: ib_core is not loaded")?,
    }
    let NextBootMode { mode, file, by, .. } = &current.next_boot;
    match file {
        Some(file) => writeln!(out, "next boot:  {mode} ({})", file.display())?,
        None => writeln!(out, "next boot:  {mode} ({by})")?,
    }
    for warning in &current.next_boot.warnings {
        writeln!(out, "warning:    {warning}")?;
    }
    if let (false, Some(now)) = (current.agree, current.mode) {
        writeln!(
            out,
            "They differ. To keep {now}: silkrail mode set {now} --persist. To change to {mode}: reboot."
        )?;
    }
    Ok(())
}
