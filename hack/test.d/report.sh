# Sourced by hack/test: what is said before, during and after a run.
# shellcheck shell=bash disable=SC2034,SC2154

passed=0 failed=0 lost=() reported=' '

steps_of_jobs() { printf '%s\n' "${jobs[@]%%.*}" | awk '!seen[$0]++'; }
jobs_of() { printf '%s\n' "${jobs[@]}" | awk -F. -v step="$1" '$1 == step'; }

show_plan() {
  local step parts
  expected=$(for step in $(steps_of_jobs); do echo "${cpu_budget[$step]:-0}"; done | awk -v cpus="$cpus" '{ sum += $1 } END { printf "%d", sum / cpus }')
  echo "$cpus CPUs, $gigabytes GiB of memory: at most $cpus machines and $(((cpus + 1) / 2)) other jobs at the same time; about $((expected / 60)) minutes on a machine of the reference's speed"
  echo "long lists: SILKRAIL_SWEEP=$SILKRAIL_SWEEP; all of those that test ${SILKRAIL_TOUCHED:-no directory}"
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
  [ "${state[$1]}" != failed ] || show_failure "$1"
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

# reasons JOB: repeats what the failed tests of a job printed, a few lines of each, or else the job's last lines.
reasons() {
  echo "=== $1: FAILED because"
  awk '/^---- .* stdout ----$/ { left = 15 } /^failures:$/ { left = 0 } left-- > 0' "$scratch/$1.log" | grep . || tail -n 15 "$scratch/$1.log"
}

report_step() {
  local name cpu=0 good=0 bad=0 verdict=ok logs=() ran=() wall time
  for name in $(jobs_of "$1"); do
    case ${state[$name]} in
    skipped) [ $verdict = FAILED ] || verdict=skipped; bad=$((bad + 1)); continue ;;
    failed) verdict=FAILED ;;
    esac
    logs+=("$scratch/$name.log")
    cpu=$((cpu + $(cpu_of "$name")))
    ran+=("${began[$name]} $((${began[$name]} + ${took[$name]}))")
    good=$((good + $(count passed "$scratch/$name.log")))
    time=$(count failed "$scratch/$name.log")
    [ "${state[$name]}" != failed ] || [ "$time" -gt 0 ] || time=1 # a job that fails without a failing test
    bad=$((bad + time))
  done
  wall=$(printf '%s\n' "${ran[@]}" | seconds_in)
  if [ $verdict = ok ] && over_budget "$1" "$wall" $cpu; then
    verdict='OVER BUDGET'
    bad=$((bad + 1))
  fi
  printf '=== %-12s %-7s %5d tests, wall %4d s (budget %s), CPU %4d s (budget %s)\n' "$1" "$verdict" $good "$wall" \
    "$(scaled "${wall_budget[$1]:-0}")" $cpu "$(scaled "${cpu_budget[$1]:-0}")"
  [ "$verdict" != 'OVER BUDGET' ] || { echo "    its slowest tests:"; slowest "${logs[@]}"; }
  [ "$verdict" = ok ] || lost+=("$1")
  passed=$((passed + good)) failed=$((failed + bad))
}

# seconds_in: reads lines of a beginning and an end, and prints how many seconds are in at least one of them.
seconds_in() { sort -n | awk '$2 > end { sum += $2 - ($1 > end ? $1 : end); end = $2 } END { print sum + 0 }'; }

# count passed|failed LOG: prints the sum of libtest's summaries ("test result: ok. 12 passed; 0 failed"), also of those that
# programs print in its format.
count() {
  { grep -E '^test result: ' "$2" || true; } | { grep -oE "[0-9]+ $1" || true; } | awk '{ sum += $1 } END { print sum + 0 }'
}

summary() {
  local name
  if [ ${#lost[@]} -gt 0 ]; then
    for name in "${jobs[@]}"; do [ "${state[$name]}" != failed ] || reasons "$name"; done
    echo "failed: ${lost[*]}"
  fi
  echo "in $(clock $SECONDS); the machine's speed: $factor % of the reference's time"
  echo "$passed passed, $failed failed"
  [ ${#lost[@]} -eq 0 ]
}
