# Sourced by hack/test: runs tests of an executable by their names, and those that failed once more. Tests that run on this machine
# alone have nextest for that; these need a machine of the lab, or share a control plane in their process.
# shellcheck shell=bash disable=SC2034,SC2154

most_failures=5 # of one list: more of them are the change's, and have no second run

# Occasionally an emulated CPU stops taking interrupts, or the kernel loses a race that is its own (hack/lab/README.md, "Stalls");
# the kernel reports it and stops the machine. Tests that had not finished then run in another machine, at most four more. A test
# that causes this itself stops these as well.
machines=5

# run_list RUNNER TEST...: runs these tests. RUNNER is a function that gives its arguments, options and names, to a test executable.
# After a failure the tests that have not run yet have another machine, since a failed test may have left anything in its own. At
# the end each test that failed runs once more, in a machine of its own.
run_list() {
  local runner=$1 left=("${@:2}") bad=() red=() unsteady=() broken='' stalls=0 status interrupted said options test
  said=$(mktemp -p "$scratch")
  while [ ${#left[@]} -gt 0 ]; do
    status=0 interrupted='' options=()
    [ ${#bad[@]} -ge $most_failures ] || options=(--fail-fast)
    "$runner" "${options[@]}" "${left[@]}" 2>&1 | tee "$said" || status=$?
    mapfile -t -O ${#bad[@]} bad < <(tests_that FAILED <"$said")
    if [ $((stalls += 1)) -lt $machines ] && is_stall "$status" "$said"; then
      echo "the kernel stalled; the remaining tests run in another machine"
    else
      interrupted=$(interrupted_test <"$said")
      [ -z "$interrupted" ] || bad+=("$interrupted")
      [ "$(tests_that . <"$said" | wc -l)" -gt 0 ] || [ -n "$interrupted" ] || { broken=yes; break; }
    fi
    mapfile -t left < <(printf '%s\n' "${left[@]}" | grep -vxFf <(tests_that . <"$said"; echo "$interrupted"))
  done
  for test in "${bad[@]}"; do
    if [ ${#bad[@]} -le $most_failures ] && ! has_one_try "$test" && "$runner" "$test"; then unsteady+=("$test"); else red+=("$test"); fi
  done
  say_results $(($# - 1 - ${#left[@]} - ${#red[@]})) $((${#left[@]} + ${#red[@]}))
  [ ${#red[@]} = 0 ] && [ -z "$broken" ]
}

# is_stall STATUS FILE: whether a machine with this exit status and this output ended with a stall or that race. A test that failed
# before is a failure.
is_stall() {
  [ "$1" = 125 ] && grep -qiE 'rcu.*stall|clock has stopped|remove_all_compat_devs' "$2" && ! grep -q '^test .* FAILED' "$2"
}

# tests_that ok|FAILED|.: reads libtest's output, and prints the names of tests that ended so, or all that ended. The output of a
# test, which may be on several lines, is between its name and the verdict.
tests_that() {
  awk -v verdict="$1" '
    /^test [^ ]+ \.\.\. / { name = $2 }
    /(^| )(ok|FAILED)( <[0-9.]+s>)?$/ && name { if ($0 ~ "(^| )" (verdict == "." ? "(ok|FAILED)" : verdict) "( <[0-9.]+s>)?$") print name; name = "" }'
}

# Reads libtest's output, and prints the name of a test that has begun and not ended.
interrupted_test() {
  awk '/^test [^ ]+ \.\.\. / { name = $2 } /(^| )(ok|FAILED)( <[0-9.]+s>)?$/ { name = "" } END { if (name) print name }'
}

# has_one_try TEST: whether its single failure is the finding.
has_one_try() { grep -qE "$(sed -nE "s|^filter = 'test\(/(.*)/\)'$|\1|p" .config/nextest.toml)" <<<"$1"; }

# say_results PASSED FAILED: ends the output of a job with what the report needs. Names are in the arrays red and unsteady.
say_results() {
  echo # after a test that ended in the middle of a line
  [ ${#red[@]} = 0 ] || printf 'red: %s\n' "${red[@]}"
  [ ${#unsteady[@]} = 0 ] || printf 'unsteady: %s\n' "${unsteady[@]}"
  echo "tests: $1 passed, $2 failed"
}
