# Sourced by hack/test: compiles test executables, and runs them on this machine as `cargo test` does.
# shellcheck shell=bash disable=SC2034,SC2154

# The times of tests are a feature of nightly toolchains, which RUSTC_BOOTSTRAP enables.
libtest=(-Zunstable-options --report-time)
export RUSTC_BOOTSTRAP=1

# compile_with_lints CARGO_ARGUMENTS...: adds the compiler's warnings and errors to $scratch/lints, and to $scratch/tests a line for
# each test executable: package, target, directory, path.
compile_with_lints() {
  local status=0
  quick_cargo compile "$@" --locked --message-format=json >>"$scratch/built" || status=$?
  jq -rs '[.[] | select(.reason == "compiler-message").message.rendered] | unique[]' "$scratch/built" >"$scratch/lints"
  [ $status = 0 ] || { cat "$scratch/lints"; return $status; }
  jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable) |
    [(.manifest_path | split("/")[-2]), .target.name, .manifest_path[:-11], .executable] | @tsv' "$scratch/built" | sort -u >"$scratch/tests"
}

no_lints() { [ ! -s "$scratch/lints" ] || { cat "$scratch/lints"; return 1; }; }

# test_executable TARGET: prints the path of a test executable of package silkrail-tests.
test_executable() { awk -F'\t' -v name="$1" '$1 == "tests" && $2 == name { print $4 }' "$scratch/tests"; }

# run_tests TARGET...: runs these test targets of package silkrail-tests, one after another, and fails if one of them does.
run_tests() {
  local target
  for target; do printf '%s\t%s\n' "$root/tests" "$(test_executable "$target")"; done | run_executables
}

# run_other_tests PART PARTS TARGET...: runs a part of the tests of all packages, without these targets of package silkrail-tests and
# those that need a machine of the lab or a cluster.
run_other_tests() {
  awk -F'\t' -v part="$1" -v parts="$2" -v not=" ${*:3} lab pair kube kube_pools cluster_pools " \
    '($1 != "tests" || !index(not, " " $2 " ")) && ++n % parts == part % parts { print $3 "\t" $4 }' "$scratch/tests" | run_executables
}

# run_executables: reads lines of a directory and a test executable.
run_executables() {
  local directory executable status=0
  while IFS=$'\t' read -r directory executable; do
    (cd "$directory" && "$executable" "${libtest[@]}") </dev/null || status=1
  done
  return $status
}
