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

# over_budget STEP WALL CPU: whether a step took more than twice as much as it may. With fewer than two CPUs it takes longer. With all
# cases of the long lists there is no limit.
over_budget() {
  local cpus_missing=1
  [ "$seed" != all ] || return 1
  [ "$cpus" -ge 2 ] || cpus_missing=2
  [ -n "${cpu_budget[$1]:-}" ] || return 1
  [ "$3" -le $((2 * $(scaled "${cpu_budget[$1]}"))) ] || return 0
  [ "${wall_budget[$1]}" != - ] && [ "$2" -gt $((2 * cpus_missing * $(scaled "${wall_budget[$1]}"))) ]
}

# slowest LOG...: prints the slowest tests, from libtest's report of times.
slowest() {
  sed -nE 's/^test ([^ ]+) .*<([0-9.]+)s>$/\2 \1/p' "$@" | sort -rn | head -n 10 | sed 's/ / s  /; s/^/      /'
}
