//! The options `--dry-run` and `--yes` of commands that change a node, and the question on a terminal.
//!
//! [`RULE`] says what they mean, for all commands.

#![forbid(unsafe_code)]

use std::io::{self, BufRead, IsTerminal, Write};

/// The rule of all commands, for the help.
pub const RULE: &str = "\
Changes:
  Every command that changes the node has --dry-run (show what would be done, and change nothing) and --yes (make the
  changes without asking). Without both:
    install, apply, mode set, vf create, vf delete    make the changes: the command line or a file describes them
    uninstall                                         asks on a terminal, where it needs --yes with --json or if its
                                                      output goes elsewhere; without a terminal makes the changes
    gc, recover, vf renumber, tune apply, tune revert, ipam free, ipam release-node
                                                      show the changes and ask; without a terminal, or with --json,
                                                      they change nothing: scripts need --yes
  Exit status: 0 of a dry run, and if the answer is no; another one if the command itself would be refused or fail.";

/// The last line of a command that waits for `--yes`.
pub const NOTHING_DONE: &str = "nothing was done: run the command again with --yes";

/// The options of a command that changes the node.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Consent {
    /// Show what would be done, and change nothing
    #[arg(long, alias = "plan", conflicts_with = "yes")]
    dry_run: bool,
    /// Make the changes without asking
    #[arg(long)]
    yes: bool,
}

/// What a command does about its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Show them.
    Show,
    /// Show them, then [`confirmed`] decides.
    Ask,
    /// Make them.
    Act,
}

impl Consent {
    /// Whether a command that never asks shows its changes only.
    pub fn is_dry_run(self) -> bool {
        self.dry_run
    }

    /// Returns what a command does that asks on a terminal; elsewhere, and if its output is for programs, `otherwise`.
    pub fn intent(self, is_for_programs: bool, otherwise: Intent) -> Intent {
        let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        self.decide(has_terminal && !is_for_programs, otherwise)
    }

    fn decide(self, can_ask: bool, otherwise: Intent) -> Intent {
        match (self.dry_run, self.yes) {
            (true, _) => Intent::Show,
            (_, true) => Intent::Act,
            _ if can_ask => Intent::Ask,
            _ => otherwise,
        }
    }
}

/// Asks whether to make the changes that were shown, on standard output. Only `y` and `yes` are consent.
///
/// # Errors
/// The terminal cannot be read or written.
pub fn confirmed(out: &mut dyn Write) -> io::Result<bool> {
    ask(&mut io::stdin().lock(), out)
}

fn ask(input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<bool> {
    write!(out, "Make these changes? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    let is_yes = ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str());
    if !is_yes {
        // After the end of the input the cursor is still on the line of the question.
        writeln!(out, "{}nothing was done", if answer.ends_with('\n') { "" } else { "\n" })?;
    }
    Ok(is_yes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use clap::Parser;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        consent: Consent,
    }

    fn parse(options: &[&str]) -> Result<Consent, clap::Error> {
        Program::try_parse_from([&["program"], options].concat()).map(|program| program.consent)
    }

    #[test]
    fn options_decide_before_the_terminal_does() {
        for can_ask in [false, true] {
            for otherwise in [Intent::Show, Intent::Act] {
                let decide = |options: &[&str]| parse(options).unwrap().decide(can_ask, otherwise);
                assert_eq!(decide(&["--dry-run"]), Intent::Show);
                assert_eq!(decide(&["--plan"]), Intent::Show);
                assert_eq!(decide(&["--yes"]), Intent::Act);
                assert_eq!(decide(&[]), if can_ask { Intent::Ask } else { otherwise });
            }
        }
        assert_eq!(parse(&["--yes", "--dry-run"]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn only_yes_is_consent() {
        let answer = |mut text: &[u8]| ask(&mut text, &mut Vec::new()).unwrap();
        for yes in ["y\n", "Y\n", " yes \n", "YES\n", "y"] {
            assert!(answer(yes.as_bytes()), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "ye\n", "yy\n", "1\n"] {
            assert!(!answer(no.as_bytes()), "{no:?}");
        }
        for (text, last) in
            [("n\n", "[y/N] nothing was done\n"), ("n", "[y/N] \nnothing was done\n"), ("y\n", "[y/N] ")]
        {
            let mut out = Vec::new();
            ask(&mut text.as_bytes(), &mut out).unwrap();
            assert!(String::from_utf8(out).unwrap().ends_with(last), "{text:?}");
        }
    }
}
