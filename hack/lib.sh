# Sourced by the scripts of this directory: common paths, messages, and installation of missing packages.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
export CARGO_TARGET_DIR
cd "$root" || exit

me=$(basename "$0")
say() { echo "$me: $*" >&2; }
die() { echo "$me: $*" >&2; exit 2; }

# usage: prints the comment at the top of the running script.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | sed '/^set /d'; }

# Prints the target triple of this machine, such as x86_64-unknown-linux-gnu.
host_triple() { rustc -vV | sed -n 's/^host: //p'; }

# debian FILE:PACKAGE...: installs each package whose file or command is missing.
debian() {
  local pair missing=()
  for pair; do
    command -v "${pair%:*}" >/dev/null || [ -e "${pair%:*}" ] || missing+=("${pair#*:}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "missing packages (Debian names): ${missing[*]}; install them"
  [ "$(id -u)" = 0 ] || die "missing packages: run sudo apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  mkdir -p "$CARGO_TARGET_DIR"
  # Two steps may need packages at the same time.
  (
    flock 9
    apt_install "${missing[@]}" || { apt-get update -qq && apt_install "${missing[@]}"; }
  ) 9>"$CARGO_TARGET_DIR/apt.lock" || die "apt-get cannot install ${missing[*]}: check the apt sources"
}

# Installs what a Rust toolchain needs: a linker and the C library.
linker() {
  command -v cargo >/dev/null || die "no Rust toolchain: install one from https://rustup.rs (those of Debian 12 and 13 are too old)"
  debian cc:gcc /usr/include/stdlib.h:libc6-dev
}

apt_install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null </dev/null
}
