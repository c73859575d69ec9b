//! `silkrail`: the operator's command line on a node.
//!
//! This file lists the commands. Each command is a module with its arguments and its help.

#![forbid(unsafe_code)]

mod apply;
mod check;
mod completion;
mod devices;
mod doctor;
mod documents;
mod exit;
mod gc;
mod install;
mod ipam;
mod json;
mod links;
mod man;
mod mode;
mod periodic;
mod pods;
mod recover;
mod render;
mod resource_files;
mod state_dir_warning;
mod table;
mod top;
mod tune;
mod uninstall;
mod vf;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::{CommandError, CommandExit};

/// Set up and inspect RDMA network interfaces for Kubernetes pods on this node
#[derive(Debug, Parser)]
#[command(name = "silkrail", version, after_help = format!("{}\n\n{}", consent::RULE, exit::HELP))]
struct SilkrailCli {
    /// The node's root directory, when run in a container
    #[arg(long, global = true, hide = true, default_value = "/")]
    root: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Install(install::InstallArgs),
    Uninstall(uninstall::UninstallArgs),
    #[command(subcommand)]
    Mode(mode::ModeCommand),
    #[command(subcommand)]
    Vf(vf::VfCommand),
    Apply(apply::ApplyArgs),
    Pods(pods::PodsArgs),
    Top(top::TopArgs),
    Devices(devices::DevicesArgs),
    Links(links::LinksArgs),
    #[command(subcommand)]
    Ipam(ipam::IpamCommand),
    Gc(gc::GcArgs),
    Doctor(doctor::DoctorArgs),
    #[command(subcommand)]
    Check(check::CheckCommand),
    #[command(subcommand)]
    Tune(tune::TuneCommand),
    Recover(recover::RecoverArgs),
    Render(render::RenderArgs),
    Completion(completion::CompletionArgs),
    Man(man::ManArgs),
    #[command(hide = true)]
    WriteAttribute(apply::WriteAttribute),
}

fn main() -> ExitCode {
    let cli = SilkrailCli::parse();
    let mut out = io::stdout().lock();
    let result = run(&cli, &mut out).and_then(|exit| Ok(out.flush().map(|()| exit)?));
    match result {
        Ok(exit) => exit.into(),
        // The reader has closed the pipe, as `head` does: not an error.
        Err(CommandError::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => CommandExit::Done.into(),
        Err(failure) => {
            eprintln!("silkrail: {failure}");
            failure.exit().into()
        }
    }
}

fn run(cli: &SilkrailCli, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
    match &cli.command {
        Command::Install(args) => args.run(&cli.root, out),
        Command::Uninstall(args) => args.run(&cli.root, out),
        Command::Mode(command) => command.run(&cli.root, out),
        Command::Vf(command) => command.run(&cli.root, out),
        Command::Apply(args) => args.run(&cli.root, out),
        Command::Pods(args) => args.run(&cli.root, out),
        Command::Top(args) => args.run(&cli.root, out),
        Command::Devices(args) => args.run(&cli.root, out),
        Command::Links(args) => args.run(&cli.root, out),
        Command::Ipam(command) => command.run(&cli.root, out),
        Command::Gc(args) => args.run(&cli.root, out),
        Command::Doctor(args) => args.run(&cli.root, out),
        Command::Check(command) => command.run(&cli.root, out),
        Command::Tune(command) => command.run(&cli.root, out),
        Command::Recover(args) => args.run(&cli.root, out),
        Command::Render(args) => args.run(out),
        Command::Completion(args) => args.run(SilkrailCli::command(), out),
        Command::Man(args) => args.run(SilkrailCli::command()),
        Command::WriteAttribute(args) => args.run(&cli.root),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        SilkrailCli::command().debug_assert();
    }

    /// Commands that change nothing on the node, apart from their own results.
    const READERS: [&str; 24] = [
        "check bw",
        "check compare",
        "check hccl",
        "check history",
        "check lat",
        "check mesh",
        "check nccl",
        "check page",
        "check probe",
        "check serve",
        "completion",
        "devices",
        "doctor",
        "ipam export",
        "ipam fsck",
        "ipam import",
        "ipam show",
        "links",
        "mode get",
        "pods",
        "render",
        "top",
        "tune check",
        "vf list",
    ];
    /// Commands with another reason not to have the options: the first reverts only what a test has left behind, and the second
    /// passes its arguments to silkraild, whose command line has them.
    const OTHERS: [&str; 2] = ["check restore", "ipam release-node"];

    /// Returns the commands without subcommands.
    fn leaves(command: &clap::Command, path: &str) -> Vec<(String, clap::Command)> {
        let below = command.get_subcommands().filter(|command| !command.is_hide_set());
        let below: Vec<_> =
            below.flat_map(|inner| leaves(inner, &format!("{path} {}", inner.get_name()))).collect();
        if below.is_empty() { vec![(path.trim().to_owned(), command.clone())] } else { below }
    }

    #[test]
    fn every_command_that_changes_the_node_has_dry_run_and_yes() {
        let all = leaves(&SilkrailCli::command(), "");
        let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
        for exempt in READERS.iter().chain(&OTHERS) {
            assert!(names.contains(exempt), "there is no command {exempt}: {names:?}");
        }
        let mut changers = Vec::new();
        for (name, command) in &all {
            let help = |option: &str| {
                let argument = command.get_arguments().find(|argument| argument.get_long() == Some(option));
                argument.map(|argument| argument.get_help().map(ToString::to_string).unwrap_or_default())
            };
            let has = (help("dry-run"), help("yes"));
            if READERS.contains(&&**name) || OTHERS.contains(&&**name) {
                assert_eq!(has, (None, None), "{name} is listed as a command that changes nothing");
                continue;
            }
            let expected = ["Show what would be done, and change nothing", "Make the changes without asking"];
            assert_eq!(has, (Some(expected[0].into()), Some(expected[1].into())), "{name}");
            changers.push(name);
        }
        // The rule in the help lists them all.
        let rule = consent::RULE;
        assert!(changers.iter().all(|name| rule.contains(name.as_str())), "{changers:?}");
    }

    #[test]
    fn both_options_are_wrong_usage_and_yes_is_accepted_by_all() {
        for command in [
            &["apply"][..],
            &["install"],
            &["uninstall"],
            &["gc"],
            &["recover", "eth0"],
            &["mode", "set", "shared"],
            &["vf", "create", "eth0", "1"],
            &["vf", "delete", "eth0"],
            &["tune", "apply"],
            &["tune", "revert"],
            &["ipam", "free", "10.0.0.1"],
        ] {
            let parse = |more: &[&str]| SilkrailCli::try_parse_from([&["silkrail"], command, more].concat());
            assert!(parse(&["--yes"]).is_ok() && parse(&["--dry-run"]).is_ok(), "{command:?}");
            assert_eq!(parse(&["--yes", "--dry-run"]).unwrap_err().exit_code(), 2, "{command:?}");
        }
    }

    #[test]
    fn an_unknown_mode_is_wrong_usage() {
        for bad in ["Exclusive", "0", "", "both"] {
            let error = SilkrailCli::try_parse_from(["silkrail", "mode", "set", bad]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{bad:?}");
        }
        assert!(SilkrailCli::try_parse_from(["silkrail", "mode", "set", "exclusive", "--persist"]).is_ok());
    }
}
