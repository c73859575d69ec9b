# Sourced by lab: boots the machine in $boot, or two of them on one network.
# shellcheck shell=bash disable=SC2154

# A job is a directory that the guest mounts at /run/lab/job. Host to guest: argv, cwd, keep, hostname, interactive. Guest
# to host: status, dmesg. It also contains the machine's console. The job of a second machine is its subdirectory peer.
job='' guest='' second=''

new_job() {
  local p
  job=$(mktemp -d "${TMPDIR:-/tmp}/silkrail-lab.XXXXXX")
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  out=${out:-$job/out}
  mkdir -p "$out" || die "cannot create $out"
  echo "$PWD" >"$job/cwd"
  echo lab >"$job/hostname"
  for p in "$PWD" "$cache" "$@"; do # entries of /tmp that the guest needs
    [ ! -e "$p" ] || realpath "$p"
  done | sed -n 's,^\(/tmp/[^/]*\).*,\1,p' | sort -u >"$job/keep"
}

finish() {
  [ -z "$guest" ] || kill "$guest" 2>/dev/null || true
  [ -z "$second" ] || kill "$second" 2>/dev/null || true
  [ -z "$job" ] || rm -rf "$job"
}

# Starts QEMU with the given options and waits for it.
boot() {
  local status=0 watcher
  start 1 "$job" "$@" <&0 &
  guest=$!
  watch "$guest" "$job" 3>&- 4>&- &
  watcher=$!
  wait "$guest" || status=$?
  guest=''
  kill "$watcher" 2>/dev/null || true
  return "$status"
}

# watch PID JOB: ends a machine whose clock has stopped. If a CPU of it loses the timer interrupt that advances the clock, nothing
# in it ever times out, including its own detection of stalls.
watch() {
  local age last
  # A sleep outlives the watcher: it must not keep the output of the lab open.
  while sleep 10 >/dev/null 2>&1 && kill -0 "$1" 2>/dev/null; do
    last=$2/hostname # written before the machine starts
    [ ! -e "$2/heartbeat" ] || last=$2/heartbeat
    age=$(($(date +%s) - $(stat -c %Y "$last")))
    [ "$age" -ge "${SILKRAIL_LAB_HEARTBEAT:-120}" ] || continue
    say "the guest's clock has stopped: no heartbeat for $age s"
    touch "$2/stopped"
    kill "$1"
    return
  done
}

# start MACHINE JOB OPTIONS...: executes QEMU. MACHINE is 1 or 2.
start() {
  local i n=$1 folder=$2 args=()
  shift 2
  for i in 1 2; do # two ports on one hub, which connects both NICs
    args+=(-device "pcie-root-port,id=slot$i,slot=$i,chassis=$i" -netdev "hubport,id=net$i,hubid=0"
      -device "igb,bus=slot$i,netdev=net$i,mac=52:54:00:0$((n - 1)):0$i:01")
  done
  if [ -n "$peer" ]; then # a third port connects to the hub of the other machine
    args+=(-netdev "dgram,id=wire,local.type=unix,local.path=$job/wire$n,remote.type=unix,remote.path=$job/wire$((3 - n))"
      -netdev "hubport,id=hubwire,hubid=0,netdev=wire")
  fi
  if [ -n "$control" ] && [ "$n" = 1 ]; then
    args+=(-netdev "user,id=control,ipv6=off,hostfwd=tcp:127.0.0.1:$control-:$control"
      -device "virtio-net-pci,netdev=control,romfile=")
  fi
  share() { args+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none$3" -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"); }
  share host / ,readonly=on,multidevs=remap
  share job "$folder" ''
  share out "$(realpath "$out")" ''
  # A periodic tick: QEMU occasionally loses a one-shot timer interrupt, after which an idle CPU would sleep forever.
  local kernel="quiet panic=-1 oops=panic sysctl.kernel.panic_on_rcu_stall=1 nohz=off highres=off$node_files"
  exec setpriv --pdeathsig TERM timeout --foreground -k 5 "${timeout:-0}" \
    qemu-system-x86_64 -name silkrail-lab -no-user-config -nodefaults -display none -no-reboot \
    -accel tcg,thread=multi,tb-size=512 -machine q35,vmport=off,smm=off -cpu Westmere,+rdrand -smp "$cpus" -m "$memory" \
    -kernel "$boot/vmlinuz" -initrd "$boot/initrd.img" \
    -append "console=ttyS0 $kernel nokaslr mitigations=off audit=0 transparent_hugepage=never" \
    -device virtio-serial-pci "${args[@]}" "$@" 2>"$folder/qemu"
}

# Starts the second machine in the background, with its output in a file. It is stopped with the first one.
start_peer() {
  local script
  script=$(realpath -e "$peer" 2>/dev/null) || die "no such script: $peer"
  mkdir "$job/peer"
  cp "$job/cwd" "$job/keep" "$job/peer/"
  echo lab-peer >"$job/peer/hostname"
  printf '%s\0' "$script" "$@" >"$job/peer/argv"
  start 2 "$job/peer" -serial "file:$job/peer/console" -chardev "file,id=stdout,path=$job/peer/output" \
    -device virtserialport,chardev=stdout,name=stdout </dev/null &
  second=$!
}

# Stops the second machine, and reports its output or exit status on failure.
end_peer() {
  local status
  status=$(cat "$job/peer/status" 2>/dev/null || true)
  kill "$second" 2>/dev/null || true
  wait "$second" 2>/dev/null || true
  second=''
  if [ "$1" != 0 ]; then
    say "the other machine's output (exit status ${status:-none: it was still running}):"
    cat "$job/peer/output" >&2 2>/dev/null || true
  elif [ "${status:-0}" != 0 ]; then
    say "the other machine's script had ended with exit status $status"
  fi
}

# port NAME FD: prints QEMU's options for a device /dev/virtio-ports/NAME in the guest that writes to our descriptor FD.
port() { echo "-add-fd fd=$2,set=$2 -chardev file,id=$1,path=/dev/fdset/$2,append=on -device virtserialport,chardev=$1,name=$1"; }

# complaints: prints what the kernels said first of a stall, an oops or a hung task: their last lines are of what follows from it, and
# a test that fails does not know it.
complaints() {
  cat "$job/console" "$job/peer/console" 2>/dev/null | tr -d '\r' |
    grep -m 10 -aE 'rcu.*stall|soft lockup|blocked for more than|BUG:|Oops|general protection|[Cc]locksource' || true
}

run() {
  local script qemu=0 status ports cats=()
  script=$(realpath -e "$1" 2>/dev/null) || die "no such script: $1"
  [ -f "$script" ] || die "not a file: $1"
  shift
  timeout=${timeout:-300}
  new_job "$script" ${peer:+"$peer"} "$@"
  printf '%s\0' "$script" "$@" >"$job/argv"
  [ -z "$peer" ] || start_peer "$@"

  # Use one channel if stdout and stderr are the same file, to keep the order of lines.
  exec 3> >(exec cat) && cats+=($!)
  ports=$(port stdout 3)
  if [ ! /dev/fd/1 -ef /dev/fd/2 ]; then
    exec 4> >(exec cat >&2) && cats+=($!)
    ports+=" $(port stderr 4)"
  fi
  # shellcheck disable=SC2086
  boot -serial "file:$job/console" $ports </dev/null || qemu=$?
  exec 3>&- 4>&-
  wait "${cats[@]}" || true

  status=$(cat "$job/status" 2>/dev/null || true)
  if [ -z "$status" ]; then
    [ ! -e "$job/stopped" ] || qemu=stopped
    case $qemu in
    124 | 137) status=124 && say "timeout: $script did not end within $timeout s (use --timeout to increase it)" ;;
    *) status=125 && say "the guest ended without an exit status (QEMU: $qemu); its last output:" && tail -qn 80 "$job/qemu" "$job/console" | tr -d '\r' >&2 ;;
    esac
  fi
  [ -z "$peer" ] || end_peer "$status"
  if [ "$status" != 0 ]; then
    complaints >"$job/complaints"
    [ ! -s "$job/complaints" ] || { say "the kernel's first complaints:"; cat "$job/complaints" >&2; }
    say "exit status $status; console, dmesg and output are kept in $job"
    job=''
  fi
  exit "$status"
}

shell() {
  new_job
  touch "$job/interactive"
  stty size 2>/dev/null >"$job/tty" || true
  say "booting; leave with exit, or with Ctrl-A x"
  local status=0
  boot -serial mon:stdio || status=$?
  [ "$status" = 0 ] || say "QEMU: exit status $status"
  exit "$(cat "$job/status" 2>/dev/null || echo "$status")"
}
