# Sourced by lab: one boot of the machine in $boot.
# shellcheck shell=bash disable=SC2154

# A job is a folder that the guest has at /run/lab/job. Host to guest: argv, cwd, keep, mode. Guest to host: status,
# dmesg. The console of the machine is in it too.
job='' guest=''

new_job() {
  local p
  job=$(mktemp -d "${TMPDIR:-/tmp}/silkrail-lab.XXXXXX")
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  out=${out:-$job/out}
  mkdir -p "$out" || die "cannot make $out"
  echo "$PWD" >"$job/cwd"
  for p in "$PWD" "$cache" "$@"; do # what of /tmp has to be seen in the guest
    [ ! -e "$p" ] || realpath "$p"
  done | sed -n 's,^\(/tmp/[^/]*\).*,\1,p' | sort -u >"$job/keep"
}

finish() {
  [ -z "$guest" ] || kill "$guest" 2>/dev/null || true
  [ -z "$job" ] || rm -rf "$job"
}

# Starts QEMU with the options given and waits for it.
boot() {
  local i args=() status=0
  for i in 1 2; do # two ports on one hub: what leaves one card arrives at the other
    args+=(-device "pcie-root-port,id=slot$i,slot=$i,chassis=$i" -netdev "hubport,id=net$i,hubid=0"
      -device "igb,bus=slot$i,netdev=net$i,mac=52:54:00:00:0$i:01")
  done
  share() { args+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none$3" -device "virtio-9p-pci,fsdev=$1,mount_tag=$1"); }
  share host / ,readonly=on,multidevs=remap
  share job "$job" ''
  share out "$(realpath "$out")" ''
  # A steady tick: QEMU loses a one-shot timer interrupt now and then, after which an idle CPU would sleep for ever.
  local kernel="quiet panic=-1 oops=panic sysctl.kernel.panic_on_rcu_stall=1 nohz=off highres=off"
  setpriv --pdeathsig TERM timeout --foreground -k 5 "${timeout:-0}" \
    qemu-system-x86_64 -name silkrail-lab -no-user-config -nodefaults -display none -no-reboot \
    -accel tcg,thread=multi,tb-size=512 -machine q35,vmport=off,smm=off -cpu Nehalem,+rdrand -smp 2 -m "$memory" \
    -kernel "$boot/vmlinuz" -initrd "$boot/initrd.img" \
    -append "console=ttyS0 $kernel nokaslr mitigations=off audit=0" \
    -device virtio-serial-pci "${args[@]}" "$@" <&0 2>"$job/qemu" &
  guest=$!
  wait "$guest" || status=$?
  guest=''
  return "$status"
}

# A device /dev/virtio-ports/NAME in the guest whose bytes go to descriptor FD of ours, unchanged.
port() { echo "-add-fd fd=$2,set=$2 -chardev file,id=$1,path=/dev/fdset/$2,append=on -device virtserialport,chardev=$1,name=$1"; }

run() {
  local script qemu=0 status ports cats=()
  script=$(realpath -e "$1" 2>/dev/null) || die "no such script: $1"
  [ -f "$script" ] || die "not a file: $1"
  shift
  timeout=${timeout:-300}
  new_job "$script" "$@"
  printf '%s\0' "$script" "$@" >"$job/argv"

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
