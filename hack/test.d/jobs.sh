# Sourced by hack/test: the jobs of a run, and what runs them. A job is a command in a shell of its own. It starts when the jobs
# that it needs have ended well and there is room. Its output, exit status and CPU time are in files in $scratch.
# shellcheck shell=bash disable=SC2034,SC2154

jobs=() # in the order in which they are started
declare -A needs=() command=() memory=() machines_of=() state=() began=() took=() # by name: STEP or STEP.PART

# job NAME NEEDS MEMORY COMMAND...: adds a job. NEEDS is a list of jobs, separated by spaces; MEMORY is in GiB.
job() {
  local name=$1
  jobs+=("$name")
  needs[$name]=$2 memory[$name]=$3
  shift 3
  command[$name]=$(printf '%q ' "$@")
  state[$name]=waiting
}

# machine_job NAME NEEDS MEMORY COMMAND...: adds a job that runs in an emulated machine.
machine_job() {
  job "$@"
  machines_of[$1]=1
}

# Runs all jobs. Each time one ends, `ended JOB` is called, and at least every ten seconds `progress`.
run_jobs() {
  local name pid ticker='' machines=0 others=0 memory_used=0
  declare -A running=()
  trap 'end_running' EXIT
  while :; do
    for name in "${jobs[@]}"; do
      [ "${state[$name]}" = waiting ] || continue
      case $(readiness "$name") in
      lost) state[$name]=skipped; ended "$name"; continue ;;
      not-yet) continue ;;
      esac
      has_room || continue
      start_job "$name"
      running[$!]=$name
      count_job 1
    done
    [ ${#running[@]} -gt 0 ] || break
    [ -n "$ticker" ] || { sleep 10 >/dev/null 2>&1 & ticker=$!; }
    wait -n -p pid "${!running[@]}" "$ticker" || true
    if [ "$pid" = "$ticker" ]; then
      ticker=''
      progress
      continue
    fi
    name=${running[$pid]}
    unset "running[$pid]"
    count_job -1
    took[$name]=$((SECONDS - began[$name]))
    state[$name]=$(verdict_of "$name")
    ended "$name"
  done
  trap 'rm -rf "$scratch"' EXIT
}

# count_job 1|-1: counts job $name, which starts or has ended.
count_job() {
  if [ -n "${machines_of[$name]:-}" ]; then machines=$((machines + $1 * machines_of[$name])); else others=$((others + $1)); fi
  memory_used=$((memory_used + $1 * memory[$name]))
}

# Whether job $name can start: a machine for each CPU, and beside them half as many other jobs, for the time that machines wait.
# A job that needs more memory than there is runs alone.
has_room() {
  [ $((machines + others)) -gt 0 ] || return 0
  [ $((memory_used + memory[$name])) -le "$gigabytes" ] || return 1
  if [ -n "${machines_of[$name]:-}" ]; then
    [ $((machines + machines_of[$name])) -le "$cpus" ]
  elif [ "$machines" -gt 0 ]; then
    [ "$others" -lt $(((cpus + 1) / 2)) ]
  else
    [ "$others" -lt "$cpus" ]
  fi
}

# verdict_of JOB: prints passed or failed. A job of tests that ran none has failed.
verdict_of() {
  if [ "$(<"$scratch/$1.status")" != 0 ]; then
    echo failed
  elif has_tests "${1%%.*}" && [ "$(count passed "$scratch/$1.log")" = 0 ]; then
    echo "no test ran" >>"$scratch/$1.log"
    echo failed
  else
    echo passed
  fi
}

# is_needed JOB: whether other jobs wait for it.
is_needed() {
  local name
  for name in "${jobs[@]}"; do [[ " ${needs[$name]} " != *" $1 "* ]] || return 0; done
  return 1
}

end_running() {
  local pid
  for pid in "${!running[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
  rm -rf "$scratch"
}

# readiness JOB: prints ready, not-yet, or lost, if a job that it needs has failed.
readiness() {
  local need answer=ready
  for need in ${needs[$1]}; do
    case ${state[$need]:-absent} in
    passed | absent) ;; # it is no part of this run
    failed | skipped) echo lost; return ;;
    *) answer=not-yet ;;
    esac
  done
  echo $answer
}

# start_job JOB: in a process group of its own, so that all of it can be ended.
start_job() {
  state[$1]=running began[$1]=$SECONDS
  set -m
  run_job "$1" >"$scratch/$1.log" 2>&1 </dev/null &
  set +m
}

run_job() {
  trap - EXIT
  echo 130 >"$scratch/$1.status"
  # Emulated machines lose more by waiting for a CPU: they have a clock of their own, and timeouts.
  [ -n "${machines_of[$1]:-}" ] || is_needed "$1" || renice -n 10 -p "$BASHPID" >/dev/null
  # Not followed by `||`, which would disable `set -e` in the job.
  set +e
  (set -euo pipefail; eval "${command[$1]}")
  echo $? >"$scratch/$1.status"
  times >"$scratch/$1.times"
}

# cpu_of JOB: prints the CPU time that its processes took, in seconds.
cpu_of() {
  sed 's/[ms]/ /g' "$scratch/$1.times" 2>/dev/null | awk '{ for (i = 1; i < NF; i += 2) sum += 60 * $i + $(i + 1) } END { printf "%d", sum }'
}
