//! The usage and the exit statuses of `silkrail`.

use silkrail_tests::cli;

#[test]
fn a_usage_error_is_status_2_and_the_help_has_every_exit_status() {
    cli::silkrail("gc --no").ended(2);
    let help = cli::silkrail("gc --help").ended(0).stdout;
    for part in ["Exit status", "0 ", "1 ", "2 ", "3 ", "--yes", "--state-dir", "--cni-path", "/opt/cni/bin"]
    {
        assert!(help.contains(part), "{part}:\n{help}");
    }
}

#[test]
fn the_help_of_every_command_has_its_exit_status() {
    for command in ["mode get", "mode set", "pods", "gc"] {
        let help = cli::silkrail(&format!("{command} --help")).ended(0).stdout;
        assert!(help.contains("Exit status:\n  0 "), "{command}:\n{help}");
    }
}
