//! All CNI plugins of Silkrail in one executable: the name of the executable (`argv[0]`) selects the plugin.

#![forbid(unsafe_code)]

use std::{env, path::Path, process::ExitCode};

use silkrail_cni::{PLUGINS, find};

/// musl's allocator returns memory to the kernel and requests it again about a hundred times per call.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let called = env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or_default().to_string_lossy();
    let argument = env::args_os().nth(1);
    if argument.as_deref().is_some_and(|argument| argument == "--names") {
        return names();
    }
    match find(&name) {
        _ if argument.is_some() => describe(),
        Some(plugin) => plugin_runtime::run(plugin),
        None => usage(&name),
    }
}

/// Prints the names to install the executable under, one per line, for hack/build.
#[expect(clippy::print_stdout, reason = "no CNI call is being served")]
fn names() -> ExitCode {
    for (name, _) in PLUGINS {
        println!("{name}");
    }
    ExitCode::SUCCESS
}

/// `silkrail doctor` looks for this text in the file, so it must be in one piece: whether a format string is depends on the compiler.
const VERSION: &str = concat!("silkrail-cni ", env!("CARGO_PKG_VERSION"));

/// Prints a description. A runtime passes no arguments, so a user has called the program.
#[expect(clippy::print_stdout, reason = "no CNI call is being served")]
fn describe() -> ExitCode {
    println!("{VERSION}");
    println!(
        "A CNI plugin: a container runtime calls it with CNI_COMMAND and a configuration on standard input."
    );
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "no CNI call is being served")]
fn usage(name: &str) -> ExitCode {
    let names: Vec<_> = PLUGINS.iter().map(|(name, _)| *name).collect();
    eprintln!("{name}: this executable serves CNI plugins under their names: {}", names.join(", "));
    eprintln!("`silkrail install` installs it in /opt/cni/bin under these names");
    ExitCode::FAILURE
}
