//! `silkrail completion`: completion scripts for shells.

use std::io::Write;

use clap::ValueEnum;
use clap_complete::{
    Generator,
    shells::{Bash, Fish, Zsh},
};

use crate::exit::{CommandError, CommandExit};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionArgs {
    /// The shell that will load the script
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

const EXAMPLES: &str = "\
Examples:
  . <(silkrail completion bash)
  silkrail completion bash > /etc/bash_completion.d/silkrail
  silkrail completion zsh > /usr/local/share/zsh/site-functions/_silkrail
  silkrail completion fish > /etc/fish/completions/silkrail.fish

Exit status:
  0   done
  1   an error
  2   wrong usage";

impl CompletionArgs {
    pub(crate) fn run(
        &self,
        mut command: clap::Command,
        out: &mut dyn Write,
    ) -> Result<CommandExit, CommandError> {
        command.set_bin_name(command.get_name().to_owned());
        command.build();
        match self.shell {
            Shell::Bash => Bash.try_generate(&command, out)?,
            Shell::Zsh => Zsh.try_generate(&command, out)?,
            Shell::Fish => Fish.try_generate(&command, out)?,
        }
        Ok(CommandExit::Done)
    }
}
