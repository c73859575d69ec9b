//! How `hack/test` treats tests that fail: which run once more, and what its last screen says.

use std::{fs, path::Path, process::Command};

/// What the scripts need, and a runner that prints what libtest does. Names say how a test ends: `ok`, `bad` each time, `once` at its
/// first try; `dies` ends its executable, and `stall` its machine at the first try. `$ran` has a line for each machine.
const RUNNER: &str = r#"
    set -euo pipefail
    scratch=$(mktemp -d) CARGO_TARGET_DIR=$scratch ran=$scratch/ran root=$PWD
    trap 'rm -rf "$scratch"' EXIT
    . hack/test.d/again.sh; . hack/test.d/units.sh; . hack/test.d/report.sh
    runner() {
      local fast='' test status=0
      echo "$*" >>"$ran"
      for test; do
        case $test in
        --fail-fast) fast=yes; continue ;;
        once* | stall*) [ -e "$scratch/$test" ] && test_ended ok || { touch "$scratch/$test"; [[ $test != stall* ]] || stalls || return 125; test_ended FAILED; } ;;
        bad*) test_ended FAILED ;;
        dies*) printf 'test %s ... output without a line' "$test"; return 101 ;;
        *) test_ended ok ;;
        esac
        [ -z "$fast" ] || [ $status = 0 ] || break
      done
      return $status
    }
    test_ended() { printf 'test %s ... some output\n%s <0.1s>\n' "$test" "$1"; [ "$1" = ok ] || status=101; }
    stalls() { printf 'test %s ... \nrcu: INFO: rcu_sched self-detected stall on CPU\n' "$test"; return 1; }
"#;

/// Runs a script that comes after [`RUNNER`], and returns its output.
fn bash(script: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output =
        Command::new("bash").args(["-c", &format!("{RUNNER}\n{script}")]).current_dir(root).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a list of tests, and returns what it says of them, its status, and a line for each machine that ran some.
fn list(tests: &str) -> String {
    bash(&format!(
        "run_list runner {tests} >$scratch/said && status=0 || status=$?
         grep -E '^(red|unsteady|tests): ' $scratch/said; echo status $status; sed 's/^/ran: /' $ran"
    ))
}

#[test]
fn a_list_that_passes_runs_once() {
    assert_eq!(list("ok1 ok2"), "tests: 2 passed, 0 failed\nstatus 0\nran: --fail-fast ok1 ok2\n");
}

#[test]
fn after_a_failure_the_others_have_another_machine_and_the_failed_ones_a_second_run() {
    assert_eq!(
        list("ok1 bad1 ok2 once1 ok3"),
        "red: bad1\nunsteady: once1\ntests: 4 passed, 1 failed\nstatus 1\n\
         ran: --fail-fast ok1 bad1 ok2 once1 ok3\nran: --fail-fast ok2 once1 ok3\nran: --fail-fast ok3\nran: bad1\nran: once1\n"
    );
}

#[test]
fn a_list_whose_only_failure_passes_alone_is_green() {
    assert!(list("once1 ok1").starts_with("unsteady: once1\ntests: 2 passed, 0 failed\nstatus 0\n"));
}

#[test]
fn a_test_whose_single_failure_is_the_finding_has_one_try() {
    for test in
        ["once::hostile::a", "once_invariant_1_a", "once_is_killed", "once::kills::a", "once_leaves_nothing"]
    {
        let said = list(test);
        assert_eq!(
            said,
            format!("red: {test}\ntests: 0 passed, 1 failed\nstatus 1\nran: --fail-fast {test}\n")
        );
    }
}

#[test]
fn a_test_that_ends_its_executable_hides_no_other() {
    assert_eq!(
        list("ok1 dies1 ok2"),
        "red: dies1\ntests: 2 passed, 1 failed\nstatus 1\nran: --fail-fast ok1 dies1 ok2\nran: --fail-fast ok2\nran: dies1\n"
    );
}

#[test]
fn many_failures_are_of_the_change_and_have_no_second_run() {
    let said = list("bad1 bad2 bad3 bad4 bad5 ok1 bad6 ok2");
    assert!(said.contains("tests: 2 passed, 6 failed\nstatus 1\n"), "{said}");
    assert!(said.ends_with("ran: --fail-fast bad5 ok1 bad6 ok2\nran: ok1 bad6 ok2\n"), "{said}");
}

#[test]
fn a_stalled_machine_is_no_failure_of_the_test_that_it_interrupts() {
    assert_eq!(
        list("ok1 stall1 ok2"),
        "tests: 3 passed, 0 failed\nstatus 0\nran: --fail-fast ok1 stall1 ok2\nran: --fail-fast stall1 ok2\n"
    );
}

#[test]
fn a_machine_that_runs_no_test_is_a_failure() {
    let said =
        bash("broken() { echo 'no machine'; return 2; }; run_list broken ok1 ok2 && echo green || echo red");
    assert_eq!(said, "no machine\n\ntests: 0 passed, 2 failed\nred\n");
}

/// Of the version in `hack/wheels`, without colours.
const NEXTEST: &str = "
  TRY 1 FAIL [   0.302s] (───) utc tests::first_only
  stderr ───

    thread 'tests::first_only' (20713) panicked at pkg/utc/src/lib.rs:3:118:
    the first try
    note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

  TRY 2 PASS [   0.013s] (1/6) utc tests::first_only
        FAIL [   0.192s] (5/6) silkrail-tests::netns gc::leaves_nothing
  stderr ───

    thread 'gc::leaves_nothing' (20756) panicked at tests/tests/netns/gc.rs:1:132:
    assertion `left == right` failed: the link
      left: 1

────────────
     Summary [   8.335s] 6 tests run: 3 passed (1 flaky), 2 failed, 1 timed out, 1 skipped
   FLAKY 2/2 [   0.013s] ( 1/6) utc tests::first_only
        FAIL [   0.192s] ( 5/6) silkrail-tests::netns gc::leaves_nothing
   TRY 2 TMT [   4.004s] ( 6/6) silkrail-tests::daemon web::slow
error: test run failed
";

#[test]
fn what_nextest_prints_is_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), NEXTEST).unwrap();
    let said = bash(&format!(
        "said={}; for kind in red unsteady; do nextest_tests $kind <$said | sed \"s/^/$kind: /\"; done; nextest_counts <$said
         message_of gc::leaves_nothing <$said",
        file.path().display()
    ));
    assert_eq!(
        said,
        "red: silkrail-tests::netns gc::leaves_nothing\nred: silkrail-tests::daemon web::slow\n\
         unsteady: utc tests::first_only\n3 3\n\
         tests/tests/netns/gc.rs:1:132:  assertion `left == right` failed: the link\n left: 1\n"
    );
}

/// The last screen, after a step with nextest's output and one that failed without a test.
fn last_screen(most_unsteady: u32) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), NEXTEST).unwrap();
    bash(&format!(
        "cp {} $scratch/unit.log; mapfile -t unsteady < <(nextest_tests unsteady <$scratch/unit.log)
         red=(); say_results 5 0 >>$scratch/unit.log; echo 'no space left' >$scratch/build.image.log
         declare -A state=([unit]=passed [build.image]=failed); jobs=(unit build.image) most_unsteady={most_unsteady}
         table=('unit ok' 'build FAILED') cpu_seconds=('unit 5') seed=7 factor=100 lost=() passed=5 failed=0
         summary && echo green || echo red",
        file.path().display()
    ))
}

#[test]
fn the_last_screen_has_each_red_and_unsteady_test_with_the_command_that_runs_it() {
    let said = last_screen(3);
    let expected = "RED: 1\n  hack/test build\n      no space left\n\n\
        UNSTEADY, failed and then passed alone: 1 (up to 3 leave a run green)\n  hack/test unit tests::first_only  # utc\n      \
        pkg/utc/src/lib.rs:3:118:  the first try\n\nunit ok\nbuild FAILED\n";
    assert!(said.contains(expected), "{said}");
    assert!(said.ends_with("5 passed, 0 failed\ngreen\n"), "{said}");
}

#[test]
fn too_many_unsteady_tests_are_red() {
    let said = last_screen(0);
    assert!(said.contains("failed: unsteady\n") && said.ends_with("5 passed, 1 failed\nred\n"), "{said}");
}

/// nextest only warns of a key that it does not know: with `retires = 0` a leak would have a second run.
#[test]
fn the_configuration_of_nextest_has_only_keys_that_it_knows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let config: toml::Table = fs::read_to_string(root.join(".config/nextest.toml")).unwrap().parse().unwrap();
    let mut profile = config["profile"]["default"].as_table().unwrap().clone();
    let overrides = profile.remove("overrides").unwrap();
    let keys = |table: &toml::Table| table.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&config), ["nextest-version", "profile"]);
    assert_eq!(
        keys(&profile),
        ["fail-fast", "failure-output", "final-status-level", "retries", "slow-timeout", "status-level"]
    );
    assert_eq!(profile["retries"].as_integer(), Some(1));
    let [one_try] = overrides.as_array().unwrap().as_slice() else { panic!("{overrides:?}") };
    assert_eq!(keys(one_try.as_table().unwrap()), ["filter", "retries"]);
    assert_eq!(one_try["retries"].as_integer(), Some(0));
    let pinned = config["nextest-version"].as_str().unwrap();
    let wheels = fs::read_to_string(root.join("hack/wheels")).unwrap();
    assert!(wheels.contains(&format!("cargo-nextest=={pinned} ")), "{pinned}: {wheels}");
}
