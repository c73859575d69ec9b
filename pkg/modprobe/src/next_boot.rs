//! The mode of the next boot, from modprobe's files and the kernel command line.

use std::path::PathBuf;

use rdma::NetnsMode;
use serde::Serialize;

use crate::ModprobeOption;

/// The mode of the next boot, and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NextBootMode {
    /// The mode.
    pub mode: NetnsMode,
    /// The file that sets the mode; `None` if it is the kernel's default or set on the command line.
    pub file: Option<PathBuf>,
    /// Settings that are overridden or not valid.
    pub warnings: Vec<String>,
    /// The source of the mode if it is not a file.
    #[serde(skip)]
    pub by: &'static str,
}

impl NextBootMode {
    /// Determines the mode: the last setting takes effect, unless the kernel command line overrides it.
    pub fn of(settings: &[ModprobeOption], command_line: Option<NetnsMode>) -> Self {
        let last = settings.iter().rev().find_map(|setting| Some((setting.mode?, setting.path.clone())));
        let (mode, file, by) = match (command_line, last) {
            (Some(mode), _) => (mode, None, "the kernel command line, ib_core.netns_mode"),
            (None, Some((mode, file))) => (mode, Some(file), ""),
            (None, None) => (NetnsMode::Shared, None, "not set; the kernel's default"),
        };
        let mut warnings = Vec::new();
        for ModprobeOption { path, mode: set } in settings {
            match set {
                None => warnings
                    .push(format!("{}: netns_mode has an invalid value, expected 0 or 1", path.display())),
                Some(set) if *set != mode => {
                    let winner = file.as_ref().map_or(by.to_owned(), |file| file.display().to_string());
                    warnings
                        .push(format!("{} sets {set}; {winner} overrides it with {mode}", path.display()));
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
                "/a.conf sets exclusive; /b.conf overrides it with shared",
                "/c.conf: netns_mode has an invalid value, expected 0 or 1"
            ]
        );
    }

    #[test]
    fn the_command_line_wins_over_every_file() {
        let next = NextBootMode::of(&[setting("/a.conf", Some(Exclusive))], Some(Shared));
        assert_eq!((next.mode, next.file), (Shared, None));
        assert!(
            next.warnings[0].contains("the kernel command line, ib_core.netns_mode overrides it with shared")
        );
    }
}
