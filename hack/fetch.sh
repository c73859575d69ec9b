# Sourced by hack/test and hack/kube: extracts programs that tests run from Debian's packages into target/tools, without installing them.
# shellcheck shell=bash

# Fetches Prometheus and promtool of this machine's release, for scrapes, rules and dashboards. The package is not installed, because
# it would start a server. tests/src/prometheus.rs uses these files.
prometheus() {
  local bin=$CARGO_TARGET_DIR/tools/bin program
  ! type -P prometheus >/dev/null || ! type -P promtool >/dev/null || return 0
  fetch prometheus "$(own_release)" prometheus_from
  mkdir -p "$bin"
  for program in prometheus promtool; do ln -sfn "../prometheus/$program" "$bin/$program"; done
}

prometheus_from() {
  if apt-cache show promtool >/dev/null 2>&1; then
    extract prometheus "$1" ./usr/bin/prometheus
    extract promtool "$1" ./usr/bin/promtool
  else # up to Debian 12 it is part of the package prometheus
    extract prometheus "$1" ./usr/bin/{prometheus,promtool}
  fi
}

# The suites of Debian from which programs are extracted, whatever release this machine runs, so that they are the same everywhere.
# Only what no stable release has is from a newer one: a program can change there on any day, or be removed.
oldest=bookworm stable=trixie newer=forky

# Fetches the programs that call CNI plugins: two containerds, podman, and a program that uses libcni.
clients() {
  can_run_containers
  containerd
  fetch containerd-1.6 "$oldest" containerd_from
  fetch podman "$oldest" podman_from
  go_plugins
  libcni
  rm -rf "$CARGO_TARGET_DIR/tools/apt"
  programs
}

# Fails if this machine is one in which tests with containers, or with systemd over an overlay of its files, cannot pass.
can_run_containers() {
  # shellcheck disable=SC2016
  unshare --mount sh -ec '
    [ -e /sys/fs/cgroup/cgroup.procs ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir "/sys/fs/cgroup/silkrail-probe-$$"
    rmdir "/sys/fs/cgroup/silkrail-probe-$$"' || die "this machine has no cgroup 2 that can be written: containerd and podman cannot run"
  unshare --mount sh -ec '
    mount -t tmpfs tmpfs /mnt
    mkdir /mnt/upper /mnt/work /mnt/root
    mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root' ||
    die "an overlay of this machine's files cannot be mounted: systemd cannot be tested"
}

# Says which versions of what packages the tests use, and of which suites.
programs() { say "programs: $(sort -u "$CARGO_TARGET_DIR"/tools/*/.packages | paste -sd, | sed 's/,/, /g')"; }

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

# Compiles tests/tests/clients/libcni.go with libcni 1.3 and a Go compiler, which are not kept. That of stable releases is 1.1, which
# has neither STATUS nor GC.
libcni() { fetch libcni "$newer" libcni_from "$stable" "$(<tests/tests/clients/libcni.go)"; }

libcni_from() {
  local work=$1.work
  unpack golang-github-appc-cni-dev "$work"
  fetch_to "$work/go" "$stable" go_from
  say "compiling libcni.go"
  mkdir -p "$1"
  GOROOT=$work/go/usr/lib/go-1.24 GOPATH=$work/usr/share/gocode GO111MODULE=off GOTOOLCHAIN=local \
    GOCACHE=$work/cache CGO_ENABLED=0 "$work/go/usr/lib/go-1.24/bin/go" build -o "$1/libcni" tests/tests/clients/libcni.go
  rm -rf "$work"
}

go_from() { unpack golang-1.24-go "$1"; unpack golang-1.24-src "$1"; }

# fetch NAME SUITE FUNCTION [INPUT...]: makes target/tools/NAME a link to what FUNCTION extracts into a directory, its argument, from
# the packages of that suite. That directory's name ends with a hash of the suite, the function and its other inputs: what was made
# of others is never taken for it.
fetch() {
  local tools=$CARGO_TARGET_DIR/tools made
  made=$1-$(hash_of "$2" "$(declare -f "$3")" "${@:4}")
  [ -d "$tools/$made" ] || fetch_to "$tools/$made" "$2" "$3"
  [ "$(readlink "$tools/$1")" != "$made" ] || return 0
  rm -rf "${tools:?}/$1"
  ln -sn "$made" "$tools/$1"
  find "$tools" -maxdepth 1 -regextype posix-extended -regex ".*/$1-[0-9a-f]{16}" ! -name "$made" -exec rm -rf {} +
}

hash_of() { printf '%s\n' "$@" | sha256sum | cut -c1-16; }

# fetch_to DIRECTORY SUITE FUNCTION: the directory's file .packages lists what was taken.
fetch_to() {
  local to=$1 name=${1##*/} packages=$1.new/.packages
  say "fetching ${name%-????????????????}"
  rm -rf "$to".new*
  mkdir -p "$to.new"
  (
    apt_of "$2" "$CARGO_TARGET_DIR/tools/apt/$2"
    "$3" "$to.new"
    mv "$to.new" "$to"
  )
}

# shellcheck source=/dev/null
own_release() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# Where `unpack` takes packages from, and lists them: outside of a suite's own apt.
source_of_packages=$(own_release) packages=/dev/null

# apt_of SUITE DIRECTORY: makes apt use only the packages of that suite, with its state in a directory, until the shell
# ends.
apt_of() {
  local uri own keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  own=$(own_release) source_of_packages=$1
  uri=${mirror_here:=$(mirror_of "$own")} # not what is asked below another apt_of
  [ -n "$uri" ] || die "this machine does not run Debian, or the apt sources do not contain ${own:-it}, so $1 cannot be found"
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
  read_lists || die "Debian's mirror does not answer, or no longer has the suite $1: if so, take another one in hack/fetch.sh"
}

know_packages() {
  command -v apt-get >/dev/null || die "this machine does not run Debian: packages cannot be downloaded"
  apt-cache show libc6 2>/dev/null | grep '^Filename' >/dev/null || read_lists || die "apt-get update failed: check the apt sources"
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
  download "$1" "$from" ||
    die "Debian's suite $source_of_packages has no package $1 any more, or the mirror does not answer: if it is gone, hack/fetch.sh must take it from another suite"
  dpkg-deb --show --showformat="\${Package} \${Version} ($source_of_packages)\n" "$from"/*.deb >>"$packages"
  mkdir -p "$2"
  dpkg-deb -x "$from"/*.deb "$2"
  rm -r "$from"
}
