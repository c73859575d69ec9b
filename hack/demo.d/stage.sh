# Sourced by guest: how the demonstration shows what it does.
# shellcheck shell=bash

heading() { printf '\n\n== %s\n' "$*"; }
remark() { printf '\n-- %s\n' "$*"; }

# show COMMAND...: prints it, then runs it.
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

# remember FILE: all of the node that an attachment touches: links and VF settings, RDMA devices, Silkrail's state. The
# pools' maps are left out: they only remember where the search for a free address goes on.
remember() {
  {
    ip -details link
    rdma dev
    rdma link
    [ ! -d /run/silkrail ] || find /run/silkrail -name maps -prune -o \( -type f -o -type l \) -print | sort
  } >"$1"
}

# unchanged: compares the node with what it was.
unchanged() {
  remember /tmp/after
  if show diff /tmp/before /tmp/after; then
    echo "(empty: every link, VF setting, RDMA device, address and state file is as before)"
  else
    echo "THE NODE IS NOT AS BEFORE" >&2
    exit 1
  fi
}
