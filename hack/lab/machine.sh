# Sourced by lab: one boot of the machine in $boot, or of two of them on one wire.
# shellcheck shell=bash disable=SC2154

# A job is a folder that the guest has at /run/lab/job. Host to guest: argv, cwd, keep, hostname, interactive. Guest to
# host: status, dmesg. The console of the machine is in it too. The job of a second machine is the folder peer in it.
job='' guest='' second=''

new_job() {
  local p
  job=$(mktemp -d "${TMPDIR:-/tmp}/silkrail-lab.XXXXXX")
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  out=${out:-$job/out}
  mkdir -p "$out" || die "cannot make $out"
  echo "$PWD" >"$job/cwd"
  echo lab >"$job/hostname"
  for p in "$PWD" "$cache" "$@"; do # what of /tmp has to be seen in the guest
    [ ! -e "$p" ] || realpath "$p"
  done | sed -n 's,^\(/tmp/[^/]*\).*,\1,p' | sort -u >"$job/keep"
}

finish() {
  [ -z "$guest" ] || kill "$guest" 2>/dev/null || true
  [ -z "$second" ] || kill "$second" 2>/dev/null || true
  [ -z "$job" ] || rm -rf "$job"
}

# Starts QEMU with the options given and waits for it.
boot() {
  local status=0
  start 1 "$job" "$@" <&0 &
  guest=$!
  wait "$guest" || status=$?
  guest=''
  return "$status"
}

# start MACHINE JOB OPTIONS...: becomes QEMU. MACHINE is 1 or 2.
start() {
  local i n=$1 folder=$2 args=()
  shift 2
  for i in 1 2; do # two ports on one hub: what leaves one card arrives at the other
    args+=(-device "pcie-root-port,id=slot$i,slot=$i,chassis=$i" -netdev "hubport,id=net$i,hubid=0"
      -device "igb,bus=slot$i,netdev=net$i,mac=52:54:00:0$((n - 1)):0$i:01")
  done
  if [ -n "$peer" ]; then # and a third port, which is a wire to the other machine's
    args+=(-netdev "dgram,id=wire,local.type=unix,local.path=$job/wire$n,remote.type=unix,remote.path=$job/wire$((3 - n))"
      -netdev "hubport,id=hubwire,hubid=0,netdev=wire")
  fi
  share() { args+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none$3" -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"); }
  share host / ,readonly=on,multidevs=remap
  share job "$folder" ''
  share out "$(realpath "$out")" ''
  # A steady tick: QEMU loses a one-shot timer interrupt now and then, after which an idle CPU would sleep for ever.
  local kernel="quiet panic=-1 oops=panic sysctl.kernel.panic_on_rcu_stall=1 nohz=off highres=off$node_files"
  exec setpriv --pdeathsig TERM timeout --foreground -k 5 "${timeout:-0}" \
    qemu-system-x86_64 -name silkrail-lab -no-user-config -nodefaults -display none -no-reboot \
    -accel tcg,thread=multi,tb-size=512 -machine q35,vmport=off,smm=off -cpu Westmere,+rdrand -smp 2 -m "$memory" \
    -kernel "$boot/vmlinuz" -initrd "$boot/initrd.img" \
    -append "console=ttyS0 $kernel nokaslr mitigations=off audit=0" \
    -device virtio-serial-pci "${args[@]}" "$@" 2>"$folder/qemu"
}

# The second machine, in the background: it does not outlive the first. Its output is in a file.
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

# What became of it, if that is worth a word.
end_peer() {
  local status
  status=$(cat "$job/peer/status" 2>/dev/null || true)
  kill "$second" 2>/dev/null || true
  wait "$second" 2>/dev/null || true
  second=''
  if [ "$1" != 0 ]; then
    say "the other machine's output (exit status ${status:-none: it was still at work}):"
    cat "$job/peer/output" >&2 2>/dev/null || true
  elif [ "${status:-0}" != 0 ]; then
    say "the other machine's script had ended with exit status $status"
  fi
}

# A device /dev/virtio-ports/NAME in the guest whose bytes go to descriptor FD of ours, unchanged.
port() { echo "-add-fd fd=$2,set=$2 -chardev file,id=$1,path=/dev/fdset/$2,append=on -device virtserialport,chardev=$1,name=$1"; }

run() {
  local script qemu=0 status ports cats=()
  script=$(realpath -e "$1" 2>/dev/null) || die "no such script: $1"
  [ -f "$script" ] || die "not a file: $1"
  shift
  timeout=${timeout:-300}
  new_job "$script" ${peer:+"$peer"} "$@"
  printf '%s\0' "$script" "$@" >"$job/argv"
  [ -z "$peer" ] || start_peer "$@"

  # Two channels, or lines written to one terminal or file could change their order.
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
    case $qemu in
    124 | 137) status=124 && say "timeout: $script was not done after $timeout s (raise it with --timeout)" ;;
    *) status=125 && say "the guest died without an exit status (QEMU's: $qemu); its last words:" && tail -qn 40 "$job/qemu" "$job/console" | tr -d '\r' >&2 ;;
    esac
  fi
  [ -z "$peer" ] || end_peer "$status"
  if [ "$status" != 0 ]; then
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
