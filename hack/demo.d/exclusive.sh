# Sourced by guest: exclusive mode. A VF's network device and its RDMA device move into the pod.
# shellcheck shell=bash

heading "EXCLUSIVE MODE: two pods, each with a VF of eth0 and the VF's own RDMA device"
show silkrail mode set exclusive
remark "VFs are created on the node; each has a network device and an RDMA device"
show lab-vfs 2 eth0
show rdma link
vf() { basename "$(readlink "/sys/class/net/eth0/device/virtfn$1")"; }
# On a cluster, the device plugin and Multus add the VF's address to the configuration of each plugin.
network() { jq --arg vf "$(vf "$1")" '.plugins[].deviceID = $vf | .plugins[0].vlan = 100' conf/exclusive/sriov-rdma.conflist; }
show jq --compact-output '.plugins[]' <<<"$(network 0)"
address_of() { ip -netns "$1" -json -4 address show dev net1 | jq --raw-output '.[].addr_info[0].local'; }
sleep 2 # the driver updates the VFs' carriers with a timer
remember /tmp/before

for i in 0 1; do
  pod "sriov-$i"
  remark "sriov-$i is attached to VF $(vf $i)"
  attach "sriov-$i" "$(network $i)"
done

remark "each pod sees only its own RDMA device, with its own counters; the host sees the others"
debug=/sys/kernel/debug/rdmasim
echo 1000 >"$debug/$(vf 0)/counters/rx_write_requests"
echo 2000 >"$debug/$(vf 1)/counters/rx_write_requests"
for i in 0 1; do
  show ip netns exec "sriov-$i" rdma link
  show ip netns exec "sriov-$i" sh -c "rdma statistic show | tr ' ' '\n' | grep -A1 -x rx_write_requests | paste - -"
  show ip -netns "sriov-$i" -brief address
done
show rdma link
show ip link show eth0
show ip netns exec sriov-0 busybox ping -c 2 "$(address_of sriov-1)"
show silkrail pods

remark "sriov-0 is detached normally; the namespace of sriov-1 is removed before its DEL, as can happen on a busy node"
detach sriov-0 "$(network 0)"
ip netns delete sriov-0
ip netns delete sriov-1
detach sriov-1 "$(network 1)"
unchanged
