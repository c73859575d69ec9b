# Sourced where Debian's packages come from: the mirror that this machine's apt uses is the one to use.
# shellcheck shell=bash

# mirror_of SUITE: the address from which apt takes a suite, whatever the format of its sources.
mirror_of() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$1" '$1 == suite && !found++ { print $2 }'
}
