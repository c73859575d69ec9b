//! `silkrail man`: the manual pages, for hack/build.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Command;
use clap_mangen::Man;

use crate::exit::{CommandError, CommandExit};

/// Write the manual pages into a directory
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct ManArgs {
    /// The directory that gets silkrail.1, silkrail-gc.1 and so on
    dir: PathBuf,
}

impl ManArgs {
    pub(crate) fn run(&self, mut command: Command) -> Result<CommandExit, CommandError> {
        command.build();
        write(&command, &self.dir)?;
        Ok(CommandExit::Done)
    }
}

/// Writes the page of a command, and the pages of its subcommands.
fn write(command: &Command, dir: &Path) -> Result<(), CommandError> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = dir.join(format!("{name}.1"));
    page(command.clone(), &path).map_err(|source| CommandError::ManPage { path, source })?;
    shown(command).try_for_each(|command| write(command, dir))
}

/// The subcommands that have a page: all but hidden ones and `help`.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn page(command: Command, path: &Path) -> io::Result<()> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    // No date: builds of the same source give the same bytes.
    let man = Man::new(command.clone()).date("").manual("Silkrail");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    text.extend(commands(&command).into_bytes());
    text.extend(sections(&help).into_bytes());
    fs::write(path, text)
}

/// The section that lists the pages of the subcommands.
fn commands(command: &Command) -> String {
    let mut text = String::new();
    for command in shown(command) {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!(".TP\n{}(1)\n{}\n", escaped(name), escaped(&about)));
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
