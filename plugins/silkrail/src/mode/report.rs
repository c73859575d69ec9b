//! What `mode set` did, to people and as JSON.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use modprobe::NextBoot;
use rdma::NetnsMode;
use serde::Serialize;

use super::Namespace;
use crate::{
    exit::{Exit, Failure},
    json,
};

/// The answer to `mode set`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetReport {
    outcome: Outcome,
    /// Whether nothing was done, and this is what would be.
    dry_run: bool,
    wanted: NetnsMode,
    pub(super) was: Option<NetnsMode>,
    persisted: Option<Persisted>,
    /// What keeps the kernel from changing the mode.
    namespaces: Option<InTheWay>,
    pub(super) notes: Vec<String>,
    /// What makes the next boot's mode another one, although the file is right.
    overruled: Option<String>,
    /// Whether the next boot needs what neither this command nor a file can do.
    #[serde(skip)]
    unfinished: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    NoChange,
    Changed,
    AtLoad,
    RebootRequired,
}

#[derive(Debug, Serialize)]
struct Persisted {
    file: PathBuf,
    changed: bool,
}

#[derive(Debug, Serialize)]
struct InTheWay {
    count: usize,
    shown: Vec<Namespace>,
}

impl SetReport {
    pub(super) fn new(wanted: NetnsMode) -> Self {
        Self {
            outcome: Outcome::NoChange,
            dry_run: false,
            wanted,
            was: None,
            persisted: None,
            namespaces: None,
            notes: Vec::new(),
            overruled: None,
            unfinished: false,
        }
    }

    /// What would be done.
    pub(super) fn preview(wanted: NetnsMode) -> Self {
        Self { dry_run: true, ..Self::new(wanted) }
    }

    pub(super) fn would_change(&mut self, from: NetnsMode) {
        (self.outcome, self.was) = (Outcome::Changed, Some(from));
    }

    pub(super) fn persisted(&mut self, file: &Path, changed: bool) {
        self.persisted = Some(Persisted { file: file.to_owned(), changed });
    }

    pub(super) fn changed(&mut self, now: NetnsMode) {
        self.outcome = if now == self.wanted { Outcome::Changed } else { Outcome::RebootRequired };
    }

    pub(super) fn at_load(&mut self) {
        self.outcome = Outcome::AtLoad;
    }

    pub(super) fn kernel_argument(&mut self) {
        let value = if self.wanted == NetnsMode::Exclusive { 0 } else { 1 };
        self.unfinished = true;
        self.notes.push(format!(
            "ib_core is built into this kernel and modprobe.d has no say: add ib_core.netns_mode={value} to the \
             kernel's command line (grubby --update-kernel=ALL --args=ib_core.netns_mode={value}, or \
             GRUB_CMDLINE_LINUX in /etc/default/grub and update-grub)"
        ));
    }

    /// Our file is right; is it also the one that counts?
    pub(super) fn next_boot(&mut self, next: NextBoot) {
        self.notes.extend(next.warnings);
        if next.mode == self.wanted {
            return;
        }
        self.unfinished = next.file.is_none();
        let winner = next.file.map_or(next.by.to_owned(), |file| file.display().to_string());
        self.notes
            .push(format!("the next boot will not be in {} mode before {winner} is changed", self.wanted));
        self.overruled = Some(winner);
    }

    pub(super) fn busy(&mut self, now: NetnsMode, mut namespaces: Vec<Namespace>, listed: usize) {
        self.outcome = Outcome::RebootRequired;
        self.was = Some(now);
        let count = namespaces.len();
        namespaces.truncate(listed);
        self.namespaces = Some(InTheWay { count, shown: namespaces });
    }

    pub(crate) fn exit(&self) -> Exit {
        let finished = self.outcome != Outcome::RebootRequired && !self.unfinished;
        if finished { Exit::Done } else { Exit::NeedsReboot }
    }

    pub(crate) fn print(&self, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
        if as_json {
            return json::print(self, out);
        }
        let (wanted, was) = (self.wanted, self.was.unwrap_or(self.wanted));
        match self.outcome {
            Outcome::NoChange => writeln!(out, "RDMA mode: {wanted}: no change")?,
            Outcome::Changed if self.dry_run => {
                writeln!(out, "RDMA mode: to be set to {wanted}; it is {was}")?
            }
            Outcome::Changed => writeln!(out, "RDMA mode: {wanted} (was {was})")?,
            Outcome::AtLoad => {
                writeln!(out, "RDMA mode: {wanted} as soon as ib_core is loaded (modprobe ib_core)")?
            }
            Outcome::RebootRequired => writeln!(out, "RDMA mode: still {was}, not {wanted}")?,
        }
        if let Some(Persisted { file, changed }) = &self.persisted {
            let how = match (*changed, self.dry_run) {
                (true, true) => "to be written",
                (true, false) => "written",
                (false, _) => "no change",
            };
            writeln!(out, "next boot: {wanted} ({}: {how})", file.display())?;
        }
        self.print_namespaces(out)?;
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        if self.dry_run {
            writeln!(out, "Nothing was done. To do it, run it again without --dry-run.")?;
        }
        Ok(())
    }

    fn print_namespaces(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let Some(InTheWay { count, shown }) = &self.namespaces else { return Ok(()) };
        writeln!(out, "The kernel refuses (EBUSY) while any other network namespace exists. Found: {count}")?;
        for namespace in shown {
            writeln!(out, "  {namespace}")?;
        }
        if *count > shown.len() {
            writeln!(out, "  … and {} more", count - shown.len())?;
        }
        if *count == 0 {
            let why = "one may be dying (run this again) or be held by an open file";
            writeln!(out, "  none in /proc: {why}; and is this shell in the host's network namespace?")?;
        }
        let wanted = self.wanted;
        match (&self.persisted, &self.overruled) {
            (None, _) if self.unfinished => {
                writeln!(out, "To do: set the kernel argument (see below), drain the node and reboot it.")?;
            }
            (None, _) => {
                writeln!(out, "To do: silkrail mode set {wanted} --persist, drain the node and reboot it.")?
            }
            (_, Some(winner)) => writeln!(out, "To do: change {winner}, drain the node and reboot it.")?,
            (_, None) => writeln!(
                out,
                "To do: drain the node and reboot it; ib_core is then loaded in {wanted} mode."
            )?,
        }
        writeln!(
            out,
            "Or run this at boot, before the container runtime and services with PrivateNetwork=yes."
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NetnsMode::{Exclusive, Shared};

    #[test]
    fn a_refusal_says_what_is_in_the_way_and_what_to_do() {
        let mut report = SetReport::new(Exclusive);
        report.persisted(Path::new("/etc/modprobe.d/ib_core.conf"), true);
        report.busy(Shared, Vec::new(), 5);
        let mut out = Vec::new();
        report.print(false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(report.exit(), Exit::NeedsReboot);
        assert!(text.starts_with("RDMA mode: still shared, not exclusive\n"), "{text}");
        assert!(text.contains("EBUSY") && text.contains("Found: 0") && text.contains("reboot it"), "{text}");
    }
}
