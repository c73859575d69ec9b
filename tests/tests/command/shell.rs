//! Shell completion and manual pages of `silkrail` and `silkraild`, read by the shell and by groff.

use std::{fs, process::Command};

use silkrail_tests::{
    cli::{self, silkrail},
    daemon,
};

#[test]
fn bash_completes_the_commands() {
    let directory = cli::executable().parent().unwrap().display().to_string();
    let script = "set -eu; PATH=$0:$PATH; . <(silkrail completion bash)
        complete -p silkrail >/dev/null
        COMP_WORDS=(silkrail install --dr) COMP_CWORD=2
        _silkrail silkrail --dr install
        echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["--norc", "-c", script, &directory]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.trim(), "--dry-run", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn completion_has_every_command_for_bash_zsh_and_fish() {
    for shell in ["bash", "zsh", "fish"] {
        let text = silkrail(&format!("completion {shell}")).ended(0).stdout;
        for word in ["install", "uninstall", "completion", "dry-run"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    silkrail("completion csh").ended(2);
}

#[test]
fn manual_pages_are_formatted_without_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    silkrail(&format!("man {}", directory.path().display())).ended(0);
    let daemon = daemon::run(&["man", directory.path().to_str().unwrap()]);
    assert!(daemon.status.success(), "{daemon:?}");
    let pages: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in ["silkrail-mode-set.1", "silkraild.8", "silkraild-ipam.8"] {
        assert!(pages.iter().any(|page| page.ends_with(name)), "{pages:?}");
    }
    for page in &pages {
        let output = Command::new("groff")
            .args(["-man", "-Kutf8", "-Tutf8", "-ww", "-P-cbou"])
            .arg(page)
            .output()
            .unwrap();
        let warnings = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && warnings.is_empty(), "{}: {warnings}", page.display());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("SYNOPSIS") && text.contains("help"), "{}", page.display());
    }
}
