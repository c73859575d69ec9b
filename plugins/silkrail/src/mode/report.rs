//! What `silkrail mode` says, to people and as JSON.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use rdma::NetnsMode;
use serde::Serialize;

use super::Namespace;
use crate::{
    exit::{Exit, Failure},
    modprobe::Setting,
};

/// The answer to `mode get`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    pub(super) mode: Option<NetnsMode>,
    pub(super) source: Option<Source>,
    pub(super) next_boot: NextBoot,
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

/// The mode of the next boot.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct NextBoot {
    pub(super) mode: NetnsMode,
    /// The file that says so; none for the kernel's default or its command line.
    pub(super) file: Option<PathBuf>,
    pub(super) warnings: Vec<String>,
    #[serde(skip)]
    by: &'static str,
}

/// The answer to `mode set`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetReport {
    outcome: Outcome,
    wanted: NetnsMode,
    pub(super) was: Option<NetnsMode>,
    persisted: Option<Persisted>,
    /// What keeps the kernel from changing the mode.
    namespaces: Option<InTheWay>,
    pub(super) notes: Vec<String>,
    /// Whether the next boot needs more than this command can do.
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

impl State {
    pub(super) fn print(&self, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
        if json {
            return print_json(self, out);
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

impl NextBoot {
    /// Of all settings the last counts, and the kernel's command line after them.
    pub(super) fn of(settings: &[Setting], command_line: Option<NetnsMode>) -> Self {
        let last = settings.iter().rev().find_map(|setting| Some((setting.mode?, setting.path.clone())));
        let (mode, file, by) = match (command_line, last) {
            (Some(mode), _) => (mode, None, "the kernel's command line, ib_core.netns_mode"),
            (None, Some((mode, file))) => (mode, Some(file), ""),
            (None, None) => (NetnsMode::Shared, None, "nothing is set; the kernel's default"),
        };
        let mut warnings = Vec::new();
        for Setting { path, mode: said } in settings {
            match said {
                None => warnings
                    .push(format!("{}: netns_mode has a value that is neither 0 nor 1", path.display())),
                Some(said) if *said != mode => {
                    let winner = file.as_ref().map_or(by.to_owned(), |file| file.display().to_string());
                    warnings.push(format!("{} says {said}; {winner} wins with {mode}", path.display()));
                }
                Some(_) => {}
            }
        }
        Self { mode, file, warnings, by }
    }
}

impl SetReport {
    pub(super) fn new(wanted: NetnsMode) -> Self {
        Self {
            outcome: Outcome::NoChange,
            wanted,
            was: None,
            persisted: None,
            namespaces: None,
            notes: Vec::new(),
            unfinished: false,
        }
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
    }

    pub(super) fn busy(&mut self, now: NetnsMode, mut namespaces: Vec<Namespace>, listed: usize) {
        self.outcome = Outcome::RebootRequired;
        self.was = Some(now);
        let count = namespaces.len();
        namespaces.truncate(listed);
        self.namespaces = Some(InTheWay { count, shown: namespaces });
    }

    pub(super) fn exit(&self) -> Exit {
        let finished = self.outcome != Outcome::RebootRequired && !self.unfinished;
        if finished { Exit::Done } else { Exit::NeedsReboot }
    }

    pub(super) fn print(&self, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
        if json {
            return print_json(self, out);
        }
        let (wanted, was) = (self.wanted, self.was.unwrap_or(self.wanted));
        match self.outcome {
            Outcome::NoChange => writeln!(out, "RDMA mode: {wanted}: no change")?,
            Outcome::Changed => writeln!(out, "RDMA mode: {wanted} (was {was})")?,
            Outcome::AtLoad => {
                writeln!(out, "RDMA mode: {wanted} as soon as ib_core is loaded (modprobe ib_core)")?
            }
            Outcome::RebootRequired => writeln!(out, "RDMA mode: still {was}, not {wanted}")?,
        }
        if let Some(Persisted { file, changed }) = &self.persisted {
            let how = if *changed { "written" } else { "no change" };
            writeln!(out, "next boot: {wanted} ({}: {how})", file.display())?;
        }
        self.print_namespaces(out)?;
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
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
            writeln!(
                out,
                "  none in /proc: one may be just dying (run this again), or be held by an open file"
            )?;
        }
        let wanted = self.wanted;
        match self.persisted {
            Some(_) => writeln!(
                out,
                "To do: drain the node and reboot it; ib_core is then loaded in {wanted} mode."
            )?,
            None => {
                writeln!(out, "To do: silkrail mode set {wanted} --persist, drain the node and reboot it.")?
            }
        }
        writeln!(
            out,
            "Or run this at boot, before the container runtime and services with PrivateNetwork=yes."
        )?;
        Ok(())
    }
}

fn print_json(value: &impl Serialize, out: &mut dyn Write) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use NetnsMode::{Exclusive, Shared};

    fn setting(path: &str, mode: Option<NetnsMode>) -> Setting {
        Setting { path: path.into(), mode }
    }

    #[test]
    fn without_a_setting_the_next_boot_is_shared() {
        let next = NextBoot::of(&[], None);
        assert_eq!((next.mode, next.file, next.warnings.len()), (Shared, None, 0));
    }

    #[test]
    fn the_last_setting_counts_and_the_others_are_warned_about() {
        let settings =
            [setting("/a.conf", Some(Exclusive)), setting("/b.conf", Some(Shared)), setting("/c.conf", None)];
        let next = NextBoot::of(&settings, None);
        assert_eq!((next.mode, next.file), (Shared, Some("/b.conf".into())));
        assert_eq!(
            next.warnings,
            [
                "/a.conf says exclusive; /b.conf wins with shared",
                "/c.conf: netns_mode has a value that is neither 0 nor 1"
            ]
        );
    }

    #[test]
    fn the_command_line_wins_over_every_file() {
        let next = NextBoot::of(&[setting("/a.conf", Some(Exclusive))], Some(Shared));
        assert_eq!((next.mode, next.file), (Shared, None));
        assert!(next.warnings[0].contains("the kernel's command line, ib_core.netns_mode wins with shared"));
    }

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
