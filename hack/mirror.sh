# Sourced by scripts that use apt, or download Debian packages without installing them: from the mirror of this machine's apt.
# shellcheck shell=bash

# mirror_of SUITE: prints the URL of a suite's repository, for any format of the apt sources.
mirror_of() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$1" '$1 == suite && !found++ { print $2 }'
}

# apt_get ARGUMENTS...: runs apt-get alone. Of its locks it waits only for dpkg's, so jobs and work trees take one of their own. What
# a package starts does not keep it.
apt_get() { flock --close /var/lib/dpkg apt-get -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 "$@"; }

# read_lists: reads the lists of packages, and fails if one is missing. A mirror can be in the middle of an update.
read_lists() {
  apt_get update -qq -o APT::Update::Error-Mode=any >/dev/null 2>&1 || apt_get update -qq -o APT::Update::Error-Mode=any >&2
}

# download PACKAGE DIRECTORY: once more with new lists, since a file of the former ones may have been replaced on the mirror.
download() { try_download "$@" 2>/dev/null || { read_lists || true; try_download "$@"; }; }

try_download() { (cd "$2" && apt_get download -qq -o APT::Sandbox::User=root "$1" >&2); }
