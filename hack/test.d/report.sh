# Sourced by hack/test: what is said before, during and after a run.
# shellcheck shell=bash disable=SC2034,SC2154

most_unsteady=3 # in a run that is green
passed=0 failed=0 lost=() reported=' ' table=() cpu_seconds=()
last_run=$CARGO_TARGET_DIR/last-test # CPU seconds of each step

steps_of_jobs() { printf '%s\n' "${jobs[@]%%.*}" | awk '!seen[$0]++'; }
jobs_of() { printf '%s\n' "${jobs[@]}" | awk -F. -v step="$1" '$1 == step'; }

show_plan() {
  local step parts
  expected=$(for step in $(steps_of_jobs); do echo "${cpu_budget[$step]:-0}"; done | awk -v cpus="$cpus" '{ sum += $1 } END { printf "%d", sum / cpus }')
  echo "$cpus CPUs, $gigabytes GiB of memory: at most $cpus machines and $(((cpus + 1) / 2)) other jobs at the same time; about $((expected / 60)) minutes on a machine of the reference's speed"
  echo "rotation $seed: SILKRAIL_SWEEP=$SILKRAIL_SWEEP; all of those that test ${SILKRAIL_TOUCHED:-no directory}"
  for step in $(steps_of_jobs); do
    parts=$(jobs_of "$step" | wc -l)
    printf '  %-12s %2d job%s  %5s s of CPU time\n' "$step" "$parts" "$([ "$parts" = 1 ] && echo ' ' || echo s)" "${cpu_budget[$step]:-?}"
  done
}

# progress: says what runs.
progress() {
  local done_jobs=0 name running=''
  for name in "${jobs[@]}"; do
    case ${state[$name]} in
    passed | failed | skipped) done_jobs=$((done_jobs + 1)) ;;
    running) running+=" $name (${began[$name]:+$((SECONDS - ${began[$name]}))} s)" ;;
    esac
  done
  say "$(clock $SECONDS) of about $(clock $((expected * factor / 100))): $done_jobs of ${#jobs[@]} jobs done, running:$running"
}

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# ended JOB: reports a job that failed at once, and a step when its last job has ended.
ended() {
  local name step=${1%%.*}
  case ${state[$1]} in
  failed) show_failure "$1" ;;
  passed) grep -E ': (programs|ready): ' "$scratch/$1.log" || true ;; # the versions of what tests run
  esac
  for name in $(jobs_of "$step"); do
    case ${state[$name]} in waiting | running) return ;; esac
  done
  [[ $reported != *" $step "* ]] || return 0
  reported+="$step "
  report_step "$step"
}

show_failure() {
  echo "=== $1"
  cat "$scratch/$1.log"
  echo "=== $1: FAILED, exit status $(<"$scratch/$1.status"), ${took[$1]} s"
}

# report_step STEP: adds a line to the table of steps, and prints it.
report_step() {
  local name cpu=0 good=0 bad=0 count verdict=ok ran=() wall line
  for name in $(jobs_of "$1"); do
    case ${state[$name]} in
    skipped) [ $verdict = FAILED ] || verdict=skipped; bad=$((bad + 1)); continue ;;
    failed) verdict=FAILED ;;
    esac
    cpu=$((cpu + $(cpu_of "$name")))
    ran+=("${began[$name]} $((${began[$name]} + ${took[$name]}))")
    good=$((good + $(count passed "$scratch/$name.log")))
    count=$(count failed "$scratch/$name.log")
    [ "${state[$name]}" != failed ] || [ "$count" -gt 0 ] || count=1 # a job that fails without a failing test
    bad=$((bad + count))
  done
  wall=$(printf '%s\n' "${ran[@]}" | seconds_in)
  line=$(printf '%-12s %-7s %5d tests, wall %4d s (budget %s), CPU %4d s (budget %s, last run %s)' "$1" $verdict $good "$wall" \
    "$(scaled "${wall_budget[$1]:-0}")" $cpu "$(scaled "${cpu_budget[$1]:-0}")" "$(last_cpu_of "$1")")
  if is_over_budget "$1" $cpu; then
    line+='  OVER BUDGET'
    [ -z "$strict" ] || { verdict='OVER BUDGET'; bad=$((bad + 1)); }
  fi
  echo "=== $line"
  table+=("$line")
  cpu_seconds+=("$1 $cpu")
  [ "$verdict" = ok ] || lost+=("$1")
  passed=$((passed + good)) failed=$((failed + bad))
}

# seconds_in: reads lines of a beginning and an end, and prints how many seconds are in at least one of them.
seconds_in() { sort -n | awk '$2 > end { sum += $2 - ($1 > end ? $1 : end); end = $2 } END { print sum + 0 }'; }

# count passed|failed LOG: prints how many tests did so: what say_results said, or else the sum of libtest's summaries ("test result: ok.
# 12 passed; 0 failed"), also of those that programs print in its format.
count() {
  { grep -E '^tests: ' "$2" || grep -E '^test result: ' "$2" || true; } | { grep -oE "[0-9]+ $1" || true; } |
    awk '{ sum += $1 } END { print sum + 0 }'
}

# summary: fits on a screen, and has all that is needed to go on.
summary() {
  local name red=() unsteady=()
  for name in "${jobs[@]}"; do
    [ "${state[$name]}" != failed ] && [ "${state[$name]}" != passed ] && continue
    mapfile -t -O ${#red[@]} red < <(tests_named red "$name")
    mapfile -t -O ${#unsteady[@]} unsteady < <(tests_named unsteady "$name")
  done
  [ ${#red[@]} = 0 ] || { echo; echo "RED: ${#red[@]}"; list_with_messages $((${#red[@]} > 9 ? 1 : 4)) "${red[@]}"; }
  [ ${#unsteady[@]} = 0 ] || {
    echo
    echo "UNSTEADY, failed and then passed alone: ${#unsteady[@]} (up to $most_unsteady leave a run green)"
    list_with_messages 2 "${unsteady[@]}"
  }
  echo
  printf '%s\n' "${table[@]}"
  printf '%s\n' "${cpu_seconds[@]}" >"$last_run"
  [ ${#unsteady[@]} -le $most_unsteady ] || { lost+=(unsteady); failed=$((failed + ${#unsteady[@]} - most_unsteady)); }
  [ ${#lost[@]} = 0 ] || echo "failed: ${lost[*]}"
  echo "rotation $seed, in $(clock $SECONDS); the machine's speed: $factor % of the reference's time"
  echo "$passed passed, $failed failed"
  [ ${#lost[@]} -eq 0 ]
}

# tests_named red|unsteady JOB: prints lines of a job and a test; of a job that failed without one, the job alone.
tests_named() {
  if ! sed -n "s/^$1: /$2 /p" "$scratch/$2.log" | grep .; then
    [ "$1" = unsteady ] || [ "${state[$2]}" != failed ] || echo "$2"
  fi
}

# list_with_messages LINES TEST...: prints for each job and test the command that runs it alone, and the first lines of what it said; in
# one line if there is one for each.
list_with_messages() {
  local job name test executable message
  for name in "${@:2}"; do
    read -r job executable test <<<"$name"
    [ -n "$test" ] || { test=$executable executable=''; }
    message=$(if [ -n "$test" ]; then message_of "$test" <"$scratch/$job.log"; else tail -n "$1" "$scratch/$job.log"; fi | cut -c1-200)
    : "${message:=it ended without a result: its output is above}"
    echo "  hack/test ${job%%.*}${test:+ $test}${executable:+  # $executable}$([ "$1" -gt 1 ] || head -n 1 <<<": $message")"
    [ "$1" = 1 ] || head -n "$1" <<<"$message" | sed 's/^ */      /'
  done
}

# message_of TEST: reads the output of libtest or nextest, and prints what the test said first: its panic, or else its output.
message_of() {
  awk -v name="$1" '
    $0 == "---- " name " stdout ----" { inside = 1; next }
    /^---- .* stdout ----$/ || /^failures:$/ || /^──/ { inside = 0 }
    / (FAIL|ABRT|TMT|SIG[A-Z0-9]+|PASS) \[[^]]*\] / { inside = $NF == name && !/ PASS /; if (inside && / TMT /) print "timed out"; next }
    !inside || NF == 0 { next }
    /^ *(note:|stack backtrace:)/ && panicked { exit }
    /^ *(stdout|stderr) ───|^ *running 1 test$|^ *test .* \.\.\. FAILED|^ *failures:$/ { next }
    { gsub(/  +/, " ") }
    sub(/^.*panicked at /, "") && !panicked { panicked = 1; printf "%s ", $0; next }
    panicked { print; next }
    { other = other $0 "\n" }
    END { if (!panicked) printf "%s", other }'
}
