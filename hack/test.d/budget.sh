# Sourced by hack/test: what steps took beside what they may take (hack/test.d/budgets). Machines differ, so budgets are multiplied
# by a factor that is measured at the start.
# shellcheck shell=bash disable=SC2034,SC2154

declare -A wall_budget=() cpu_budget=()

read_budgets() {
  local step wall cpu
  while read -r step wall cpu; do
    case $step in
    '' | '#'*) ;;
    calibration) calibration=$wall ;;
    *) wall_budget[$step]=$wall cpu_budget[$step]=$cpu ;;
    esac
  done <hack/test.d/budgets
}

# Sets $factor to how much slower this machine is than the reference, in percent, with all CPUs busy: two CPUs can be threads of one
# core. It is the fastest of three runs of a computation, which fits into a cache: emulators and linkers are not faster by as much.
calibrate() {
  local best
  best=$(for _ in 1 2 3; do
    for _ in $(seq "$cpus"); do busy_seconds & done | sort -rn | head -n 1
  done | sort -n | head -n 1)
  factor=$(awk -v here="$best" -v there="$calibration" 'BEGIN { f = 100 * here / there; printf "%d", f < 70 ? 70 : f }')
}

# busy_seconds: computes, and prints the CPU time.
busy_seconds() {
  local TIMEFORMAT=%U
  { time awk 'BEGIN { for (i = 0; i < 8000000; i++) s = (s * 31 + i) % 65521; exit s == 0 }'; } 2>&1
}

# scaled SECONDS: prints a budget on this machine.
scaled() { if [ "$1" = - ]; then echo none; else echo $(($1 * factor / 100)); fi; }

# is_over_budget STEP CPU: whether a step took more than twice as much as it may. With all cases of the long lists there is no limit.
is_over_budget() { [ "$seed" != all ] && [ -n "${cpu_budget[$1]:-}" ] && [ "$2" -gt $((2 * $(scaled "${cpu_budget[$1]}"))) ]; }

# last_cpu_of STEP: prints what it took in the last run on this machine.
last_cpu_of() { awk -v step="$1" '$1 == step { seconds = $2 " s" } END { print seconds ? seconds : "none" }' "$last_run" 2>/dev/null || echo none; }
