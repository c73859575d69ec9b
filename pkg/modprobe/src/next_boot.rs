//! The mode of the next boot: what modprobe's files and the kernel's command line come to.

use std::path::PathBuf;

use rdma::NetnsMode;
use serde::Serialize;

use crate::ModprobeOption;

/// The mode of the next boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NextBootMode {
    /// The mode.
    pub mode: NetnsMode,
    /// The file that says so; none for the kernel's default or its command line.
    pub file: Option<PathBuf>,
    /// Settings that have no say, or make no sense.
    pub warnings: Vec<String>,
    /// Who says so, if it is no file.
    #[serde(skip)]
    pub by: &'static str,
}

impl NextBootMode {
    /// Of all settings the last counts, and the kernel's command line after them.
    pub fn of(settings: &[ModprobeOption], command_line: Option<NetnsMode>) -> Self {
        let last = settings.iter().rev().find_map(|setting| Some((setting.mode?, setting.path.clone())));
        let (mode, file, by) = match (command_line, last) {
            (Some(mode), _) => (mode, None, "the kernel's command line, ib_core.netns_mode"),
            (None, Some((mode, file))) => (mode, Some(file), ""),
            (None, None) => (NetnsMode::Shared, None, "nothing is set; the kernel's default"),
        };
        let mut warnings = Vec::new();
        for ModprobeOption { path, mode: said } in settings {
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

#[cfg(test)]
mod tests {
    use super::*;
    use NetnsMode::{Exclusive, Shared};

    fn setting(path: &str, mode: Option<NetnsMode>) -> ModprobeOption {
        ModprobeOption { path: path.into(), mode }
    }

    #[test]
    fn without_a_setting_the_next_boot_is_shared() {
        let next = NextBootMode::of(&[], None);
        assert_eq!((next.mode, next.file, next.warnings.len()), (Shared, None, 0));
    }

    #[test]
    fn the_last_setting_counts_and_the_others_are_warned_about() {
        let settings =
            [setting("/a.conf", Some(Exclusive)), setting("/b.conf", Some(Shared)), setting("/c.conf", None)];
        let next = NextBootMode::of(&settings, None);
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
        let next = NextBootMode::of(&[setting("/a.conf", Some(Exclusive))], Some(Shared));
        assert_eq!((next.mode, next.file), (Shared, None));
        assert!(next.warnings[0].contains("the kernel's command line, ib_core.netns_mode wins with shared"));
    }
}
