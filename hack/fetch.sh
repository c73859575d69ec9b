# Sourced by hack/test: programs that tests run and no test installs, taken out of Debian's packages into target/tools.
# shellcheck shell=bash

# shellcheck source=mirror.sh
. hack/mirror.sh

# What is scraped with, reads rules and evaluates dashboards: its package starts a server where it is installed.
# tests/src/prometheus.rs looks here.
prometheus() {
  local to=$CARGO_TARGET_DIR/tools/bin program package
  for program in prometheus promtool; do
    if type -P $program >/dev/null || [ -x "$to/$program" ]; then continue; fi
    say "fetching $program"
    know_packages
    package=$program # up to Debian 12 promtool was in prometheus
    apt-cache show $program >/dev/null 2>&1 || package=prometheus
    take_out "$package" "$to" "./usr/bin/$program"
  done
}

# A container runtime of the second generation, which asks for STATUS and GC, and Debian's runc for it. No stable release
# of Debian has one yet: it is the next one's. tests/src/containerd.rs looks here.
containerd() {
  local to=$CARGO_TARGET_DIR/tools/containerd newer=forky lists file
  [ ! -d "$to" ] || return 0
  say "fetching containerd 2"
  debian /usr/lib/x86_64-linux-gnu/libseccomp.so.2:libseccomp2
  know_packages
  rm -rf "$to.new"
  take_out runc "$to.new" ./usr/sbin/runc ./usr/bin/runc
  lists=$(mktemp -d)
  (
    apt_of $newer "$lists"
    for file in containerd containerd-shim-runc-v2 ctr; do take_out containerd "$to.new" "./usr/bin/$file"; done
  )
  rm -r "$lists"
  mv "$to.new" "$to"
}

# apt_of SUITE DIRECTORY: has apt know that suite's packages only, kept in a directory; for the rest of the shell.
apt_of() {
  local own uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  # shellcheck source=/dev/null
  own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  uri=$(mirror_of "$own")
  [ -n "$uri" ] || die "apt's sources have no $own, so $1 cannot be found"
  mkdir -p "$2/lists/partial" "$2/cache/archives/partial"
  echo "deb [signed-by=$keyring] $uri $1 main" >"$2/sources.list"
  cat >"$2/apt.conf" <<EOF
Dir::Etc::sourcelist "$2/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$2/lists";
Dir::Cache "$2/cache";
Acquire::Languages "none";
APT::Sandbox::User "root";
EOF
  export APT_CONFIG=$2/apt.conf
  apt-get update -qq || die "apt-get cannot read the packages of $1"
}

know_packages() {
  command -v apt-get >/dev/null || die "this is no Debian: nothing can be fetched"
  apt-cache show libc6 2>/dev/null | grep '^Filename' >/dev/null || apt-get update -qq ||
    die "apt-get cannot update; are its sources right?"
}

# take_out PACKAGE DIRECTORY FILE...: puts the first of these files that a package has into a directory.
take_out() {
  local package=$1 to=$2 from file
  shift 2
  from=$(mktemp -d)
  (cd "$from" && apt-get download -qq -o APT::Sandbox::User=root "$package") ||
    die "apt-get cannot fetch $package; are its sources right?"
  dpkg-deb --fsys-tarfile "$from/$package"_*.deb >"$from/tar"
  for file; do
    if tar -xOf "$from/tar" "$file" >"$from/file" 2>/dev/null && [ -s "$from/file" ]; then
      mkdir -p "$to"
      install "$from/file" "$to/$(basename "$file")"
      rm -r "$from"
      return
    fi
  done
  die "package $package has none of $*"
}
