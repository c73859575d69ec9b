# Sourced by hack/test: the steps. `packages_of STEP` prints the Debian packages that a step needs, as FILE:PACKAGE; `add_STEP` adds
# its jobs.
# shellcheck shell=bash disable=SC2034,SC2154

# In this order: what others need first, then what takes longest. `cluster` mostly waits: run last, it would leave
# CPUs idle.
all=(compile packages lab-machine fetch kubernetes build kube lab check cluster unit pair faults soak)

# has_tests STEP: whether each of its jobs runs tests.
has_tests() { case $1 in unit | lab | pair | kube | cluster | faults | soak) ;; *) return 1 ;; esac; }

packages_of() {
  # What every test needs, and the guest, which uses this machine's programs. Others (unshare, nsenter, mount, …) are in every Debian.
  local tests='ip:iproute2 ethtool:ethtool strace:strace sysctl:procps systemd-analyze:systemd ibv_rc_pingpong:ibverbs-utils
    /etc/libibverbs.d/rxe.driver:ibverbs-providers rping:rdmacm-utils busybox:busybox-static
    /usr/lib/cni/macvlan:containernetworking-plugins'
  echo git:git cc:gcc /usr/include/stdlib.h:libc6-dev jq:jq
  case $1 in
  compile) echo protoc:protobuf-compiler ;;
  fetch) echo "$tests" curl:curl /usr/lib/x86_64-linux-gnu/libseccomp.so.2:libseccomp2 ;;
  kubernetes) echo curl:curl openssl:openssl hostname:hostname ;;
  build) echo buildah:buildah /usr/lib/podman/netavark:netavark setpriv:util-linux ;;
  check) echo shellcheck:shellcheck python3:python3 ;;
  unit) echo "$tests" python3:python3 chromium:chromium groff:groff-base strip:binutils curl:curl openssl:openssl /usr/include/linux/if_link.h:linux-libc-dev ;;
  lab) echo "$tests" prove:perl ;; # perl's modules, such as threads
  pair) echo "$tests" ib_write_bw:perftest ;;
  cluster) echo "$tests" openssl:openssl ;;
  kube | faults | soak) echo "$tests" ;;
  esac
}

# --- what others need ---------------------------------------------------------------------------------------------

add_compile() { job compile '' 2 compile_tests; }

# hack/build --quick and hack/kube take what this built: cargo would build some crates again, with the features of fewer packages.
export SILKRAIL_BUILT=yes

# Builds the executables, and all tests.
compile_tests() {
  compile_with_lints build --workspace --lib --bins --tests --examples
  compile_with_lints build --workspace --test='*' # also those that `cargo test` does not run
  hack/build --quick
}

# The packages of all steps of this run. Compiling does not wait for them.
add_packages() { job packages '' 1 install_what_steps_need; }

add_lab-machine() { job lab-machine packages 1 hack/lab/lab prepare; }

# One after another: these use apt.
add_fetch() { job fetch lab-machine 1 fetch_programs; }

fetch_programs() {
  prometheus
  clients
}

add_kubernetes() { job kubernetes fetch 3 hack/kube build; }

# --- what finds mistakes --------------------------------------------------------------------------------------------

add_check() {
  job check.sources 'packages fetch' 1 hack/check fmt arrows shell pages words files deny
  job check.lints compile 1 no_lints
}

add_build() {
  job build.plugins compile 2 hack/build silkrail-cni
  job build.image 'compile packages' 1 hack/image --quick
}

add_unit() {
  job unit 'compile packages fetch' 2 run_tests -E "not ($in_machines)"
  [ "$seed" = all ] || ! is_touched pkg/block-leases || job unit.leases compile 1 all_schedules
}

# A model whose states take a minute.
all_schedules() { SILKRAIL_SWEEP=all "$(awk -F'\t' '$2 == "model" { print $4 }' "$scratch/tests")"; }

# Machines with one CPU: they run in parallel, and none waits for a CPU of its own that does not run. Each takes half a minute to
# boot, and to translate the programs that it runs.
add_lab() {
  local part
  for ((part = 1; part <= cpus; part++)); do machine_job "lab.$part" 'compile lab-machine fetch' 2 lab_part $part "$cpus"; done
}

# On one CPU with a third machine, each of the two sometimes has none for a second: no message arrives in a test of that length.
add_pair() {
  machine_job pair 'compile lab-machine' 4 two_machines
  machines_of[pair]=2
}

two_machines() {
  local tests
  mapfile -t tests < <(tests_of_this_run pair)
  run_list in_pair "${tests[@]}"
}

in_pair() {
  hack/lab/lab run --cpus 1 --timeout 900 --peer tests/tests/pair/peer /usr/bin/env RUSTC_BOOTSTRAP=1 \
    "$(test_executable pair)" "${libtest[@]}" --test-threads=1 --exact "$@"
}

add_kube() { machine_job kube 'compile lab-machine kubernetes' 4 kube_node; }

kube_node() {
  local tests
  mapfile -t tests < <(tests_of_this_run kube)
  run_list in_kube "${tests[@]}"
}

in_kube() {
  hack/kube run --lab --cpus 1 --logs "$scratch/kube" \
    /usr/bin/env "${choice[@]}" RUSTC_BOOTSTRAP=1 "$(test_executable kube)" "${libtest[@]}" --test-threads=1 --exact "$@"
}

add_cluster() {
  job cluster.pools 'compile kubernetes' 2 cluster_pools
  job cluster.node 'compile kubernetes' 2 cluster_node
}

cluster_pools() {
  local tests
  mapfile -t tests < <(all_tests_of cluster_pools)
  run_list in_cluster "${tests[@]}"
}

in_cluster() { (cd tests && "$(test_executable cluster_pools)" "${libtest[@]}" --test-threads=3 --exact "$@"); }

cluster_node() {
  local tests
  mapfile -t tests < <(all_tests_of kube_pools)
  run_list in_node "${tests[@]}"
}

in_node() { hack/kube run /usr/bin/env RUSTC_BOOTSTRAP=1 "$(test_executable kube_pools)" "${libtest[@]}" --exact "$@"; }

# Faults are injected into the release executable. A point takes a fifth of a CPU second, and seconds in the lab: there it is one of
# each campaign, and more of the plugins that the change touches.
add_faults() {
  local faults=$quick_dir/silkrail-faults release=$CARGO_TARGET_DIR/dist/cni/macvlan plugin only=()
  job faults.namespaces 'build.plugins packages' 1 "$faults" netns --release "$release" --share "$(share_of 48)"
  machine_job faults.lab 'build.plugins lab-machine' 2 in_a_machine --cpus 1 --timeout 14400 "$faults" lab --release "$release" --share "$(share_of 1000)"
  [ "$seed" != all ] || return 0
  for plugin in main/ipvlan main/sriov main/ib-sriov main/ipoib meta/rdma meta/ifacer; do
    ! is_touched "plugins/$plugin" || only+=(--only "${plugin#*/} ")
  done
  [ ${#only[@]} -eq 0 ] || machine_job faults.touched 'build.plugins lab-machine' 2 in_a_machine --cpus 1 --timeout 14400 \
    "$faults" lab --release "$release" --share "$(share_of 100)" "${only[@]}"
}

# share_of N: prints the share of this run of lists of which a run takes an N-th.
share_of() { if [ "$seed" = all ]; then echo all; else echo "$seed/$1"; fi; }

# One of the three, by the seed: each has a set-up of its own.
add_soak() {
  local soak=$quick_dir/silkrail-soak kinds=(shared cluster exclusive) kind
  [ "$seed" = all ] || kinds=("${kinds[seed % 3]}")
  for kind in "${kinds[@]}"; do "soak_$kind" "$soak" "$kind" --seconds "$soak_seconds" --seed "$((${seed/all/0} + 1))"; done
}

soak_shared() { job soak.shared 'compile packages' 1 "$@"; }
soak_cluster() { job soak.cluster 'compile kubernetes' 1 "$@" --nodes 10 --pods 40 --workers 4; }
soak_exclusive() { machine_job soak.exclusive 'compile lab-machine' 2 in_a_machine --cpus 1 --timeout $((soak_seconds + 300)) "$@"; }
