//! The text output of `silkrail mode set`.

use std::io::Write;

use rdma_mode::{BlockingNetns, ModeChange, ModeOutcome, PersistedMode};

use crate::exit::CommandError;

pub(crate) fn print(change: &ModeChange, out: &mut dyn Write) -> Result<(), CommandError> {
    let (wanted, was) = (change.wanted, change.was.unwrap_or(change.wanted));
    match change.outcome {
        ModeOutcome::NoChange => writeln!(out, "RDMA mode: {wanted}: no change")?,
        ModeOutcome::Changed if change.dry_run => {
            writeln!(out, "RDMA mode: would be set to {wanted}; it is {was}")?
        }
        ModeOutcome::Changed => writeln!(out, "RDMA mode: {wanted} (was {was})")?,
        ModeOutcome::AtLoad => {
            writeln!(out, "RDMA mode: {wanted} as soon as ib_core is loaded (modprobe ib_core)")?
        }
        ModeOutcome::RebootRequired => writeln!(out, "RDMA mode: still {was}, not {wanted}")?,
    }
    if let Some(PersistedMode { file, changed }) = &change.persisted {
        let how = match (*changed, change.dry_run) {
            (true, true) => "would be written",
            (true, false) => "written",
            (false, _) => "no change",
        };
        writeln!(out, "next boot: {wanted} ({}: {how})", file.display())?;
    }
    print_namespaces(change, out)?;
    for note in &change.notes {
        writeln!(out, "note: {note}")?;
    }
    if change.dry_run {
        writeln!(out, "Nothing was done. To apply it, run the command again without --dry-run.")?;
    }
    Ok(())
}

fn print_namespaces(change: &ModeChange, out: &mut dyn Write) -> Result<(), CommandError> {
    let Some(BlockingNetns { count, shown }) = &change.namespaces else { return Ok(()) };
    writeln!(out, "The kernel refuses (EBUSY) while any other network namespace exists. Found: {count}")?;
    for namespace in shown {
        writeln!(out, "  {namespace}")?;
    }
    if *count > shown.len() {
        writeln!(out, "  … and {} more", count - shown.len())?;
    }
    if *count == 0 {
        let why = "one may still be shutting down (run the command again) or be held open by a socket";
        writeln!(out, "  none in /proc: {why}; or this shell is not in the host's network namespace")?;
    }
    let wanted = change.wanted;
    match (&change.persisted, &change.overruled) {
        (None, _) if change.unfinished => {
            writeln!(out, "To do: set the kernel argument (see below), drain the node and reboot it.")?;
        }
        (None, _) => {
            writeln!(out, "To do: silkrail mode set {wanted} --persist, drain the node and reboot it.")?
        }
        (_, Some(winner)) => writeln!(out, "To do: change {winner}, drain the node and reboot it.")?,
        (_, None) => {
            writeln!(out, "To do: drain the node and reboot it; ib_core is then loaded in {wanted} mode.")?
        }
    }
    writeln!(out, "Or run this at boot, before the container runtime and services with PrivateNetwork=yes.")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rdma::NetnsMode::{Exclusive, Shared};

    use super::*;

    #[test]
    fn a_refusal_reports_its_cause_and_a_remedy() {
        let change = ModeChange {
            outcome: ModeOutcome::RebootRequired,
            dry_run: false,
            wanted: Exclusive,
            was: Some(Shared),
            persisted: Some(PersistedMode { file: "/etc/modprobe.d/ib_core.conf".into(), changed: true }),
            namespaces: Some(BlockingNetns { count: 0, shown: Vec::new() }),
            notes: Vec::new(),
            overruled: None,
            unfinished: false,
        };
        let mut out = Vec::new();
        print(&change, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(change.needs_reboot());
        assert!(text.starts_with("RDMA mode: still shared, not exclusive\n"), "{text}");
        assert!(text.contains("EBUSY") && text.contains("Found: 0") && text.contains("reboot it"), "{text}");
    }
}
