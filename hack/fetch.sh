# Sourced by hack/test: extracts programs that tests run from Debian's packages into target/tools, without installing them.
# shellcheck shell=bash

# shellcheck source=mirror.sh
. hack/mirror.sh

# Fetches Prometheus and promtool, for scrapes, rules and dashboards. The package is not installed, because it would start a
# server. tests/src/prometheus.rs uses these files.
prometheus() {
  local to=$CARGO_TARGET_DIR/tools/bin program package
  for program in prometheus promtool; do
    if type -P $program >/dev/null || [ -x "$to/$program" ]; then continue; fi
    say "fetching $program"
    know_packages
    package=$program # up to Debian 12 promtool is part of the package prometheus
    apt-cache show $program >/dev/null 2>&1 || package=prometheus
    take_out "$package" "$to" "./usr/bin/$program"
  done
}

# Fetches containerd 2, which calls STATUS and GC, and Debian's runc. No stable release of Debian has containerd 2 yet, so
# it comes from the next one. tests/src/containerd.rs uses these files.
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

# apt_of SUITE DIRECTORY: makes apt use only the packages of that suite, with its state in a directory, until the shell
# ends.
apt_of() {
  local own uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  # shellcheck source=/dev/null
  own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  uri=$(mirror_of "$own")
  [ -n "$uri" ] || die "the apt sources do not contain $own, so $1 cannot be found"
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
  apt-get update -qq || die "apt-get cannot read the package lists of $1"
}

know_packages() {
  command -v apt-get >/dev/null || die "this machine does not run Debian: packages cannot be downloaded"
  apt-cache show libc6 2>/dev/null | grep '^Filename' >/dev/null || apt-get update -qq ||
    die "apt-get update failed: check the apt sources"
}

# take_out PACKAGE DIRECTORY FILE...: extracts the first of these files that exists in a package into a directory.
take_out() {
  local package=$1 to=$2 from file
  shift 2
  from=$(mktemp -d)
  (cd "$from" && apt-get download -qq -o APT::Sandbox::User=root "$package") ||
    die "apt-get cannot download $package: check the apt sources"
  dpkg-deb --fsys-tarfile "$from/$package"_*.deb >"$from/tar"
  for file; do
    if tar -xOf "$from/tar" "$file" >"$from/file" 2>/dev/null && [ -s "$from/file" ]; then
      mkdir -p "$to"
      install "$from/file" "$to/$(basename "$file")"
      rm -r "$from"
      return
    fi
  done
  die "package $package contains none of $*"
}
