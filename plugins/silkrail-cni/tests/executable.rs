//! The executable, called by a person or a script and not by a runtime.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::{Command, Output};

use silkrail_cni::PLUGINS;

fn called(argument: Option<&str>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_silkrail-cni")).args(argument).env_clear().output().unwrap()
}

#[test]
fn the_names_to_install_it_under_are_listed_one_per_line() {
    let output = called(Some("--names"));
    let expected: Vec<_> = PLUGINS.iter().map(|(name, _)| *name).collect();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.lines().eq(expected), "{text}");
}

#[test]
fn any_other_argument_shows_the_version() {
    let output = called(Some("--help"));
    let text = String::from_utf8(output.stdout).unwrap();
    let version = concat!("silkrail-cni ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(output.status.success() && text.starts_with(version), "{text}");
}

#[test]
fn under_its_own_name_it_is_no_plugin_and_tells_the_names() {
    let output = called(None);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(PLUGINS.iter().all(|(name, _)| text.contains(name)), "{text}");
}
