# Sourced by guest: output functions of the demonstration.
# shellcheck shell=bash

heading() { printf '\n\n== %s\n' "$*"; }
remark() { printf '\n-- %s\n' "$*"; }

# show COMMAND...: prints it, then runs it.
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

# remember FILE: records everything on the node that an attachment changes: links and VF settings, RDMA devices, Silkrail's
# state. The pools' maps are excluded: they only record where the search for a free address continues.
remember() {
  {
    ip -details link
    rdma dev
    rdma link
    [ ! -d /run/silkrail ] || find /run/silkrail -name maps -prune -o \( -type f -o -type l \) -print | sort
  } >"$1"
}

# unchanged: compares the node with the recorded state.
unchanged() {
  remember /tmp/after
  if show diff /tmp/before /tmp/after; then
    echo "(empty: every link, VF setting, RDMA device, address and state file is unchanged)"
  else
    echo "THE NODE HAS CHANGED" >&2
    exit 1
  fi
}
