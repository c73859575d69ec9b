# Sourced by hack/test: compiles test executables, and runs those that need no machine with nextest (.config/nextest.toml).
# shellcheck shell=bash disable=SC2034,SC2154

# The times of tests and --fail-fast are features of nightly toolchains, which RUSTC_BOOTSTRAP enables.
libtest=(-Zunstable-options --report-time)
export RUSTC_BOOTSTRAP=1

# Executables whose tests need a machine of the lab or a cluster.
in_machines='binary(lab) | binary(pair) | binary(kube) | binary(kube_pools) | binary(cluster_pools)'

# compile_with_lints CARGO_ARGUMENTS...: adds the compiler's warnings and errors to $scratch/lints, and test executables to
# $scratch/tests, a line each (package, target, path), and to $scratch/binaries.json for nextest.
compile_with_lints() {
  local status=0
  quick_cargo compile "$@" --locked --message-format=json >>"$scratch/built" || status=$?
  jq -rs '[.[] | select(.reason == "compiler-message").message.rendered] | unique[]' "$scratch/built" >"$scratch/lints"
  [ $status = 0 ] || { cat "$scratch/lints"; return $status; }
  jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable) |
    [(.manifest_path | split("/")[-2]), .target.name, .executable] | @tsv' "$scratch/built" | sort -u >"$scratch/tests"
  jq -s --arg target "$CARGO_TARGET_DIR" -f hack/test.d/binaries.jq "$scratch/built" >"$scratch/binaries.json"
  cargo metadata --locked --format-version 1 --no-deps >"$scratch/metadata.json"
}

no_lints() { [ ! -s "$scratch/lints" ] || { cat "$scratch/lints"; return 1; }; }

# test_executable TARGET: prints the path of a test executable of package silkrail-tests.
test_executable() { awk -F'\t' -v name="$1" '$1 == "tests" && $2 == name { print $3 }' "$scratch/tests"; }

# all_tests_of TARGET: prints the names of the tests of an executable of package silkrail-tests, or of those that were asked for.
all_tests_of() { "$(test_executable "$1")" --list --format=terse ${only:+"$only"} | sed -n 's/: test$//p'; }

# run_tests NEXTEST_ARGUMENTS...: runs compiled tests, and says which failed.
run_tests() {
  local status=0 said red unsteady counts
  said=$(mktemp -p "$scratch")
  nextest --test-threads $((2 * cpus)) ${stress:+--stress-count "$stress" --retries 0} "$@" 2>&1 | tee "$said" || status=$?
  mapfile -t red < <(nextest_tests red <"$said")
  mapfile -t unsteady < <(nextest_tests unsteady <"$said")
  counts=$(nextest_counts <"$said")
  # shellcheck disable=SC2086
  # Two numbers.
  [ -z "$counts" ] || say_results $counts
  return $status
}

# nextest ARGUMENTS...: runs compiled tests.
nextest() {
  wheel cargo-nextest
  "$wheel" nextest run --binaries-metadata "$scratch/binaries.json" --cargo-metadata "$scratch/metadata.json" "$@" </dev/null
}

# nextest_tests red|unsteady: reads nextest's output, and prints the executables and names of tests that failed, or that failed at first.
nextest_tests() {
  awk -v wanted="$1" '
    /^ *Summary \[/ { ended = 1; next }
    ended && match($0, /^ *(TRY [0-9]+ )?(FLAKY|[A-Z-]+)( [0-9\/]+)? \[[^]]*\] (\[[0-9\/]+\] )?\([^)]*\) /) {
      if (($1 == "FLAKY") == (wanted == "unsteady")) print substr($0, RLENGTH + 1)
    }'
}

# nextest_counts: reads nextest's output, and prints how many tests passed and failed.
nextest_counts() {
  sed -nE 's/^ *(Summary|Stress test) \[[^]]*\] (iteration [0-9/]+: )?[0-9/]+ tests? run: //p' | tr ',' '\n' | awk '
    / (passed)/ { passed += $1 } / (failed|timed out)/ { failed += $1 } END { if (NR) print passed + 0, failed + 0 }'
}
