//! The manual pages of a command line and of its subcommands.

#![forbid(unsafe_code)]

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Command;
use clap_mangen::Man;

/// A page cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

/// A section of the manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManualSection {
    /// 1: commands of users.
    Commands = 1,
    /// 8: daemons.
    Daemons = 8,
}

/// Writes the pages of a command and of its subcommands into a directory: `NAME.1`, `NAME-SUBCOMMAND.1` and so on.
///
/// # Errors
/// [`WriteError`] for the first page that cannot be written.
pub fn write(mut command: Command, section: ManualSection, dir: &Path) -> Result<(), WriteError> {
    command.build();
    write_built(&command, section, dir)
}

fn write_built(command: &Command, section: ManualSection, dir: &Path) -> Result<(), WriteError> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = dir.join(format!("{name}.{}", section as u8));
    page(command.clone(), section, &path).map_err(|source| WriteError { path, source })?;
    shown(command).try_for_each(|command| write_built(command, section, dir))
}

/// The subcommands that have a page: all but hidden ones and `help`.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn page(command: Command, section: ManualSection, path: &Path) -> io::Result<()> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    // No date: builds of the same source give the same bytes.
    let man = Man::new(command.clone()).section((section as u8).to_string()).date("").manual("Silkrail");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    text.extend(commands(&command, section).into_bytes());
    text.extend(sections(&help).into_bytes());
    fs::write(path, text)
}

/// The section that lists the pages of the subcommands.
fn commands(command: &Command, section: ManualSection) -> String {
    let mut text = String::new();
    for command in shown(command) {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!(".TP\n{}({})\n{}\n", escaped(name), section as u8, escaped(&about)));
    }
    if text.is_empty() { text } else { format!(".SH COMMANDS\n{text}") }
}

/// The text after a command's options, with its line breaks. A line such as `Examples:` begins a section.
fn sections(help: &str) -> String {
    let mut text = String::new();
    for line in help.lines() {
        match line.strip_suffix(':').filter(|title| !title.is_empty() && !title.starts_with(' ')) {
            Some(title) => text.push_str(&format!(".fi\n.SH {}\n.nf\n", title.to_uppercase())),
            None => text.push_str(&format!("{}\n", escaped(line))),
        }
    }
    text
}

/// Escapes a line for roff: it is never taken for a request, and `\`, `-` and `'` are literal.
fn escaped(line: &str) -> String {
    format!("\\&{}", line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines() {
        let help = "Examples:\n  a --b    'c'\n\nExit status:\n  0   done";
        let expected = ".fi\n.SH EXAMPLES\n.nf\n\\&  a \\-\\-b    \\(aqc\\(aq\n\\&\n.fi\n.SH EXIT STATUS\n.nf\n\\&  0   done\n";
        assert_eq!(sections(help), expected);
    }
}
