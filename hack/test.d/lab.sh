# Sourced by hack/test: tests in machines of the lab.
# shellcheck shell=bash disable=SC2034,SC2154

# What of the lab rotates, and the code that it tests: modules of the executable lab, and whole executables. A quarter of the tests of
# each module runs, the next quarter with the next seed; all of them if that code changed, and those in a file that changed. The
# long lists in the lab's tests have three shares, and the next four seeds take the next one: twelve seeds run every case of every test.
rotating_modules='
metrics              pkg/exporter pkg/pod-rdma pkg/workloads plugins/silkraild/src
bootstrap            pkg/provision pkg/rdma-mode
busy                 pkg/vf plugins/main/sriov
char_device_numbers  pkg/exclusive-rdma plugins/meta/rdma
containerd           pkg/plugin-runtime plugins/main/sriov plugins/meta/rdma
device_plugin        pkg/device-plugin pkg/inventory
doctor               pkg/doctor
early_late           pkg/exclusive-rdma pkg/vf plugins/main/sriov plugins/meta/rdma
fleet                pkg/exclusive-rdma pkg/vf plugins/main/sriov plugins/meta/rdma
gc                   pkg/gc
go_back              pkg/go-plugins
go_infiniband        pkg/go-plugins plugins/main/ib-sriov plugins/main/ipoib
go_migration         pkg/exclusive-rdma pkg/vf pkg/go-plugins plugins/main/sriov plugins/meta/rdma
hostile              pkg/exclusive-rdma pkg/vf plugins/main/sriov plugins/meta/rdma
ib_passthrough       plugins/main/ib-sriov
ib_sriov             plugins/main/ib-sriov
ifacer               plugins/meta/ifacer
ifacer_bond          plugins/meta/ifacer
ifacer_gc            plugins/meta/ifacer
ipoib                plugins/main/ipoib
isolation            plugins/main/sriov
kernel_requests      pkg/rtnl pkg/rdma pkg/vf
lossless             pkg/dcb pkg/provision pkg/link-settings
names                pkg/vf plugins/main/sriov
other_networks       conf plugins/main plugins/meta
parity               plugins/main/ipvlan pkg/child-link pkg/plugin-runtime
privileges           pkg/doctor plugins/silkrail/src
recover              pkg/provision pkg/tune
resources            pkg/rdma pkg/pod-rdma
scalable_functions   pkg/vf pkg/inventory
stale                pkg/exclusive-rdma pkg/vf pkg/journal pkg/state plugins/main/sriov plugins/meta/rdma
kube                 pkg/device-plugin plugins/silkraild conf/pods conf/silkraild conf/silkraild-device-plugin tests/tests/kube
pair                 pkg/check tests/tests/pair
'

# touched_rows: prints the names of those rows whose code changed.
touched_rows() {
  local name directories directory
  while read -r name directories; do
    for directory in $directories; do ! is_touched "$directory" || { echo "$name"; break; }; done
  done <<<"$rotating_modules"
}

# tests_of_this_run EXECUTABLE: prints the names of those of its tests that this run takes.
tests_of_this_run() {
  local rotating=''
  [ -z "$only" ] || { all_tests_of "$1"; return; }
  [ "$seed" = all ] ||
    rotating=" $(awk 'NF { print $1 }' <<<"$rotating_modules" | grep -vxFf <(touched_rows) | tr '\n' ' ')"
  all_tests_of "$1" |
    awk -F:: -v executable="$1" -v seed="$seed" -v turns="$turns" -v rotating="$rotating" -v touched="$SILKRAIL_TOUCHED" '
    BEGIN {
      n = split(touched, files, " ")
      for (i = 1; i <= n; i++) if (sub(/^tests\/tests\/lab\//, "", files[i])) changed[files[i]]
    }
    {
      rotates = index(rotating, " " (executable == "lab" ? $1 : executable) " ")
      is_next = (number[$1]++ + seed) % turns == 0
      file = $0; sub(/::[^:]*$/, "", file); gsub(/::/, "/", file)
    }
    !rotates || is_next || executable == "lab" && file in changed'
}

# lab_part PART PARTS: runs a part of the tests of the lab in a machine, one by one.
lab_part() {
  local tests
  # Not a row of tests: slow ones are neighbours.
  mapfile -t tests < <(tests_of_this_run lab | awk -v n="$2" -v part="$1" 'NR % n == part % n')
  run_list in_lab "${tests[@]}"
}

# in_lab LIBTEST_ARGUMENTS...: runs tests of the lab in a machine.
in_lab() {
  hack/lab/lab run --cpus 1 --timeout 3000 /usr/bin/env "${choice[@]}" SILKRAIL_SWEEP="$(share_of_a_turn)" RUSTC_BOOTSTRAP=1 \
    "$(test_executable lab)" "${libtest[@]}" --test-threads=1 --exact "$@"
}

# share_of_a_turn: prints the share of the lists in those tests whose turn it is.
share_of_a_turn() { if [ "$seed" = all ]; then echo all; else echo "$((seed / turns))/$((shares / turns))"; fi; }

# in_a_machine LAB_OPTIONS... PROGRAM [ARGS...]: runs a program in a machine, and again from the start after a stall.
in_a_machine() {
  local machine status said
  said=$(mktemp -p "$scratch")
  for ((machine = 1; ; machine++)); do
    status=0
    hack/lab/lab run "$@" 2>&1 | tee "$said" || status=$?
    if [ $machine -ge "$machines" ] || ! is_stall "$status" "$said"; then return "$status"; fi
    echo "the kernel stalled; running again in another machine"
  done
}
