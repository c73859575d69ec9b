# Sourced by the scripts of this directory: common paths, messages, and installation of missing packages.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
export CARGO_TARGET_DIR
cd "$root" || exit

# shellcheck source=mirror.sh
. hack/mirror.sh

me=$(basename "$0")
say() { echo "$me: $*" >&2; }
die() { echo "$me: $*" >&2; exit 2; }

# Says which variables change results here and are not set in CI, but not again in a script that another one calls.
say_variables() {
  local names
  names=$(compgen -e | grep -E '^(RUSTFLAGS|RUSTC_WRAPPER|CARGO_(BUILD|PROFILE)_.+|KUBE_ROUNDS|SOAK_SECONDS|SILKRAIL_.+)$' | paste -sd' ' || true)
  [ -n "${SILKRAIL_SAID:-}${SILKRAIL_LAB:-}" ] || [ -z "$names" ] || say "these variables are set: $names"
  export SILKRAIL_SAID=yes
}
say_variables
umask 022 # of released files and of images

# usage: prints the comment at the top of the running script.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | sed '/^set /d'; }

# Prints the number of tests/rotation.
rotation() { grep -v '^#' "$root/tests/rotation"; }

# Prints the target triple of this machine, such as x86_64-unknown-linux-gnu.
host_triple() { rustc -vV | sed -n 's/^host: //p'; }

# start_time PROCESS: prints when it was started. PIDs are used again.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# every_ten_seconds WHAT COMMAND...: runs a command that prints nothing, and says every ten seconds that it still runs.
every_ten_seconds() {
  local what=$1 ticker status=0 began=$SECONDS
  shift
  # Without its output: a sleep outlives the ticker.
  (while sleep 10 >/dev/null 2>&1; do say "$what: $((SECONDS - began)) s"; done) &
  ticker=$!
  "$@" || status=$?
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  return $status
}

# compile ARGUMENTS...: runs cargo, and says every few seconds how much of its work is done.
compile() {
  local status=0 progress
  exec {progress}> >(cargo_progress)
  CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=120 CARGO_TERM_COLOR=never cargo "$@" 2>&"$progress" || status=$?
  exec {progress}>&-
  wait $! || true
  return $status
}

# Executables and tests without optimisation are built with these flags, into this directory: static, and not position-independent,
# they start faster, above all in the lab's emulator. Without line numbers of functions and symbols they are linked faster, and a
# quarter as large. One codegen unit for each crate takes a third less CPU time than sixteen. Flags for a target do not apply to
# build scripts and procedural macros. With $SILKRAIL_LINTS clippy's driver compiles, and reports lints in the same pass.
quick_triple=$(uname -m)-unknown-linux-gnu
# shellcheck disable=SC2034
quick_dir=$CARGO_TARGET_DIR/$quick_triple/debug
quick_cargo() {
  [ -z "${SILKRAIL_LINTS:-}" ] || local -x RUSTC_WORKSPACE_WRAPPER=clippy-driver
  CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_DEV_STRIP=symbols CARGO_PROFILE_DEV_CODEGEN_UNITS=1 \
    CARGO_ENCODED_RUSTFLAGS=$'-Ctarget-feature=+crt-static\x1f-Crelocation-model=static' "$1" "$2" --target "$quick_triple" "${@:3}"
}

# cargo_progress: reads what cargo prints for a terminal, where a line of progress ends with a carriage return, and prints at most
# one such line in five seconds, but at least one in ten. It prints all warnings and errors.
cargo_progress() {
  local began=$SECONDS said=$SECONDS text='' part status progress=starting line
  while :; do
    status=0
    IFS= read -r -t 5 -d $'\r' part || status=$?
    text+=$part
    if [ $status -le 128 ]; then # otherwise this is a part of a line, after five seconds
      while IFS= read -r line; do
        if [[ $line =~ Building\ \[.*\]\ *(.*[^\ ]) ]]; then
          progress="compiling ${BASH_REMATCH[1]}"
        elif [[ -n $line && ! $line =~ ^[^a-z]*(Add|Block|Check|Compil|Download|Finish|Fresh|Lock|Updat|Execut|Runn)[a-z]+\  ]]; then
          echo "$line" >&2
        fi
      done <<<"$text"
      text=''
      [ $status -eq 0 ] || break
    fi
    if [ $((SECONDS - said)) -ge 5 ]; then
      say "$((SECONDS - began)) s: ${progress:0:100}"
      said=$SECONDS
    fi
  done
}

# debian FILE:PACKAGE...: installs each package whose file or command is missing.
debian() {
  local pair missing=()
  for pair in $(printf '%s\n' "$@" | sort -u); do
    command -v "${pair%:*}" >/dev/null || [ -e "${pair%:*}" ] || missing+=("${pair#*:}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ -z "${SILKRAIL_NO_INSTALL:-}" ] || die "missing packages (Debian names): ${missing[*]}; install them, or run without --no-install"
  command -v apt-get >/dev/null || die "missing packages (Debian names): ${missing[*]}; install them"
  [ "$(id -u)" = 0 ] || die "missing packages: run sudo apt-get install ${missing[*]}"
  say "installing Debian packages: ${missing[*]}"
  every_ten_seconds "installing" install_packages "${missing[@]}" || die "apt-get cannot install ${missing[*]}: check the apt sources"
}

install_packages() { apt_install "$@" 2>/dev/null || { read_lists || true; apt_install "$@"; }; }

# Installs what a Rust toolchain needs: a linker and the C library.
linker() {
  command -v cargo >/dev/null || die "no Rust toolchain: install one from https://rustup.rs (those of Debian 12 and 13 are too old)"
  debian cc:gcc /usr/include/stdlib.h:libc6-dev
}

apt_install() {
  DEBIAN_FRONTEND=noninteractive apt_get install -y -qq --no-install-recommends "$@" >/dev/null </dev/null
}
