# Sourced by scripts that download Debian packages: they use the mirror of this machine's apt.
# shellcheck shell=bash

# mirror_of SUITE: prints the URL of a suite's repository, for any format of the apt sources.
mirror_of() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$1" '$1 == suite && !found++ { print $2 }'
}
