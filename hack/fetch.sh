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

# The suites of Debian from which programs are extracted, whatever release this machine runs: some programs are in one only.
oldest=bookworm stable=trixie newer=forky

# Fetches the programs that call CNI plugins: two containerds, podman, and a program that uses libcni.
clients() {
  containerd
  fetch containerd-1.6 "$oldest" containerd_from
  fetch podman "$oldest" podman_from
  go_plugins
  libcni
  rm -rf "$CARGO_TARGET_DIR/tools/apt"
}

# Fetches containerd 2, which calls STATUS and GC. No stable release of Debian has it yet. The runc of its release needs a
# newer C library. tests/src/containerd.rs uses these files.
containerd() {
  debian /usr/lib/x86_64-linux-gnu/libseccomp.so.2:libseccomp2 busybox:busybox-static jq:jq
  fetch runc "$oldest" runc_from
  fetch containerd "$newer" containerd_from
}

runc_from() { extract runc "$1" ./usr/sbin/runc; }

containerd_from() {
  extract containerd "$1" ./usr/bin/containerd ./usr/bin/containerd-shim-runc-v2 ./usr/bin/ctr
}

# Extracts podman 4, the last one that calls CNI plugins, with the libraries that a minimal Debian does not have, or has in
# another version. tests/src/podman.rs uses these files.
podman_from() {
  local lib=./usr/lib/x86_64-linux-gnu
  extract podman "$1" ./usr/bin/podman
  extract conmon "$1" ./usr/bin/conmon
  extract libgpgme11 "$1" $lib/libgpgme.so.11
  extract libgpg-error0 "$1" ./lib/x86_64-linux-gnu/libgpg-error.so.0
  extract libassuan0 "$1" $lib/libassuan.so.0
  extract libsubid4 "$1" $lib/libsubid.so.4
  extract libglib2.0-0 "$1" $lib/libglib-2.0.so.0
  extract libdevmapper1.02.1 "$1" ./lib/x86_64-linux-gnu/libdevmapper.so.1.02.1
}

# Extracts the Go plugins with which tests/parity.md compares ours: always the same build, because its libraries matter too.
go_plugins() { fetch go-plugins "$oldest" go_plugins_from; }

go_plugins_from() { extract containernetworking-plugins "$1" ./usr/lib/cni/{macvlan,ipvlan,host-local,static,loopback}; }

# Compiles tests/tests/clients/libcni.go with libcni 1.3, which has all operations, and a Go compiler, which are not kept.
libcni() {
  local to=$CARGO_TARGET_DIR/tools/libcni go=$CARGO_TARGET_DIR/tools/go
  [ ! -x "$to/libcni" ] || [ tests/tests/clients/libcni.go -nt "$to/libcni" ] || return 0
  fetch go "$stable" go_from
  fetch libcni-source "$newer" libcni_from
  say "compiling libcni.go"
  mkdir -p "$to"
  GOROOT=$go/usr/lib/go-1.24 GOPATH=$CARGO_TARGET_DIR/tools/libcni-source/usr/share/gocode GO111MODULE=off GOTOOLCHAIN=local \
    GOCACHE=$go/cache CGO_ENABLED=0 "$go/usr/lib/go-1.24/bin/go" build -o "$to/libcni" tests/tests/clients/libcni.go
  rm -rf "$go" "$CARGO_TARGET_DIR/tools/libcni-source"
}

go_from() { unpack golang-1.24-go "$1"; unpack golang-1.24-src "$1"; }

libcni_from() { unpack golang-github-appc-cni-dev "$1"; }

# fetch NAME SUITE FUNCTION: unless it exists, creates target/tools/NAME with what FUNCTION extracts into a directory, its
# argument, from the packages of that suite.
fetch() { [ -d "$CARGO_TARGET_DIR/tools/$1" ] || fetch_to "$CARGO_TARGET_DIR/tools/$1" "$2" "$3"; }

# fetch_to DIRECTORY SUITE FUNCTION
fetch_to() {
  local to=$1
  say "fetching ${1##*/}"
  know_packages
  rm -rf "$to.new"
  (
    apt_of "$2" "$CARGO_TARGET_DIR/tools/apt/$2"
    "$3" "$to.new"
  )
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
  # What is installed here is no candidate.
  : >"$2/status"
  cat >"$2/apt.conf" <<EOF
Dir::Etc::sourcelist "$2/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$2/lists";
Dir::State::status "$2/status";
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
  unpack "$package" "$from"
  for file; do
    if [ -s "$from/$file" ]; then
      mkdir -p "$to"
      install "$from/$file" "$to"
      rm -r "$from"
      return
    fi
  done
  die "package $package contains none of $*"
}

# extract PACKAGE DIRECTORY FILE...: extracts these files of a package into a directory.
extract() {
  local package=$1 to=$2 from file
  shift 2
  from=$(mktemp -d)
  unpack "$package" "$from"
  mkdir -p "$to"
  for file; do
    install "$from/$file" "$to" || die "package $package does not contain $file"
  done
  rm -r "$from"
}

# unpack PACKAGE DIRECTORY: downloads a package and extracts all of its files into a directory.
unpack() {
  local from
  from=$(mktemp -d)
  (cd "$from" && apt-get download -qq -o APT::Sandbox::User=root "$1") ||
    die "apt-get cannot download $1: check the apt sources"
  mkdir -p "$2"
  dpkg-deb -x "$from/$1"_*.deb "$2"
  rm -r "$from"
}
