# Sourced by hack/test: the tests of a change.
# shellcheck shell=bash disable=SC2034,SC2154

# Tests of package silkrail-tests that a change needs, beside the unit tests of its crates: a prefix of paths, a test target, and
# a filter of names. They run in namespaces of this machine.
tests_of_paths='
pkg/ipam                  netns     ipam::
pkg/ipam                  netns     ipam_selection::
plugins/ipam              netns     ipam_
plugins/main/macvlan      netns     macvlan
plugins/main/macvlan      parity    -
pkg/child-link            netns     macvlan
pkg/plugin-runtime        netns     invariants
pkg/cni                   protocol  -
plugins                   protocol  -
pkg/journal               netns     gc
pkg/state                 netns     gc
pkg/gc                    netns     gc
pkg/doctor                netns     doctor
pkg/doctor                command   doctor
pkg/installer             netns     install
pkg/check                 netns     mesh
conf                      repository -
plugins/silkrail/         command   -
conf/prometheus           monitoring -
conf/grafana              monitoring -
tests/tests/netns         netns     -
tests/tests/protocol      protocol  -
'

# quick [BASE]
quick() {
  local base=$1 files packages
  [ -n "$base" ] || base=$(base_of_change)
  mapfile -t files < <(changed_files "$base")
  [ ${#files[@]} -gt 0 ] || { say "nothing has changed since $base"; return; }
  compiler
  debian jq:jq git:git
  mapfile -t packages < <(packages_of_files "${files[@]}")
  say "since $base: ${#files[@]} files; packages: ${packages[*]:-none}"
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  hack/check fmt arrows
  [ ${#packages[@]} -eq 0 ] || quick_tests "${packages[@]}"
  quick_targets "${files[@]}"
  say "passed in $SECONDS s"
}

# What is not pushed yet, or else what is not committed, or else the last commit.
base_of_change() {
  git merge-base HEAD '@{upstream}' 2>/dev/null ||
    if [ -n "$(git status --porcelain)" ]; then echo HEAD; else echo HEAD~1; fi
}

changed_files() {
  git diff --name-only "$1"
  git ls-files --others --exclude-standard
}

# packages_of_files FILE...: prints the names of the packages that contain these files, except the tests of many crates.
packages_of_files() {
  local file directory
  for file; do
    directory=$(dirname "$file")
    while [ "$directory" != . ] && [ ! -e "$directory/Cargo.toml" ]; do directory=$(dirname "$directory"); done
    [ "$directory" = . ] || [ "$directory" = tests ] || sed -n 's/^name = "\(.*\)"/\1/p' "$directory/Cargo.toml" | head -n 1
  done | sort -u
}

# users_of PACKAGE...: prints the packages that use these directly, besides the tests and benchmarks of many.
users_of() {
  cargo metadata --locked --no-deps --format-version 1 | jq -r --args '.packages[] |
    select(any(.dependencies[] | select(.path and .kind == null).name; IN($ARGS.positional[])) and (.name | IN($ARGS.positional[]) | not)).name' "$@" |
    grep -vxE "silkrail-(tests|fuzz)|bench"
}

# quick_tests PACKAGE...: the changed packages first, where a mistake is most likely.
quick_tests() {
  local users unit_tests=(--bins)
  mapfile -t users < <(users_of "$@")
  compile_for_quick test "${@/#/--package=}" --tests --no-run # those of libraries and programs, too
  nextest --no-tests=pass
  [ ${#users[@]} -gt 0 ] || return 0
  ! has_library "${users[@]}" || unit_tests+=(--lib) # cargo refuses it if no package has one
  compile_for_quick test "${users[@]/#/--package=}" "${unit_tests[@]}" --no-run
  nextest --no-tests=pass
}

# has_library PACKAGE...: whether one of these packages has a library.
has_library() {
  cargo metadata --locked --no-deps --format-version 1 | jq -e --args 'any(.packages[] |
    select(.name | IN($ARGS.positional[])).targets[].kind[]; . == "lib")' "$@" >/dev/null
}

# quick_targets FILE...: runs the tests that the table has for these files.
quick_targets() {
  local prefix target filter file chosen
  chosen=$(while read -r prefix target filter; do
    [ -n "$prefix" ] || continue
    for file; do [[ $file/ != "$prefix"/* ]] || { echo "$target $filter"; break; }; done
  done <<<"$tests_of_paths" | sort -u)
  [ -n "$chosen" ] || return 0
  can_make_namespaces
  # shellcheck disable=SC2046
  compile_for_quick build --package={silkrail-tests,silkrail,silkraild,silkrail-cni} --bin={silkrail,silkraild,silkrail-cni} \
    $(sed 's/^/--test=/; s/ .*//' <<<"$chosen" | sort -u)
  hack/build --quick >/dev/null
  nextest -E "$(filter_of <<<"$chosen")"
}

# filter_of: reads lines of a test target and a filter of names, and prints the filter of nextest that selects them all.
filter_of() { sed -E 's/^([^ ]+) -$/binary(\1)/; s/^([^ ]+) (.+)$/(binary(\1) \& test(\2))/' | paste -sd '|'; }

# compile_for_quick CARGO_ARGUMENTS...: as compile_with_lints, but forgets those before, and fails if there are lints.
compile_for_quick() {
  rm -f "$scratch/built"
  compile_with_lints "$@"
  no_lints
}

# unit_of_name NAME: builds only packages whose sources have such a function or module.
unit_of_name() {
  local packages last=${1##*::} files
  compiler
  debian jq:jq git:git
  can_make_namespaces
  mapfile -t files < <(git grep --untracked -lE "\b(fn|mod) \w*${last//[^a-zA-Z0-9_]/}" -- '*.rs'
    git ls-files --cached --others --exclude-standard "*${last//[^a-zA-Z0-9_]/}*.rs")
  mapfile -t packages < <({ packages_of_files "${files[@]}"; printf '%s\n' "${files[@]}" | sed -n 's|^tests/.*|silkrail-tests|p'; } | sort -u | sed 's/^/--package=/')
  [ ${#packages[@]} -gt 0 ] || die "no source has a function or module whose name contains $last"
  # shellcheck disable=SC2046
  debian $(packages_of unit | tr '\n' ' ')
  SILKRAIL_BUILT='' hack/build --quick >/dev/null
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  compile_with_lints test "${packages[@]}" --tests --no-run
  nextest --no-capture "$1"
}

# The examples in the documentation. rustdoc takes a second for each crate, also for those without examples.
doc_tests() {
  local packages
  mapfile -t packages < <(grep -rlE '^\s*//[/!] ```' pkg plugins --include=*.rs | sed -n 's|/src/.*|/Cargo.toml|p' | sort -u |
    xargs sed -n 's/^name = "\(.*\)"/--package=\1/p')
  cargo test --quiet --locked --doc "${packages[@]}"
}
