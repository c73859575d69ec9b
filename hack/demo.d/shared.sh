# Sourced by guest: shared mode. Pods share the node's RDMA devices; each has its own link and address on the NIC.
# shellcheck shell=bash disable=SC2154

heading "SHARED MODE: two macvlan pods on the RoCE NIC eth0, addresses 172.81.0.100-172.81.0.120"
show silkrail mode get
network=$(jq '.plugins[0].master = "eth0"' conf/shared/macvlan.conflist)
show jq --compact-output '.plugins[0]' <<<"$network"
remember /tmp/before

for name in macvlan-1 macvlan-2; do
  pod "$name"
  remark "$name is attached; the result for the runtime:"
  attach "$name" "$network"
done

remark "each pod sees the RDMA devices of the node, and its own interface"
for name in macvlan-1 macvlan-2; do
  show ip netns exec "$name" rdma link
  show ip -netns "$name" -brief address
done

remark "the pods' addresses are in the GID table of mlx5_0, the RDMA device of eth0 (index, type, GID, link)"
gids() {
  local port=/sys/class/infiniband/mlx5_0/ports/1 i
  for i in $(seq 0 254); do
    ! grep -qs 'RoCE v2' "$port/gid_attrs/types/$i" ||
      echo "$i  RoCE v2  $(cat "$port/gids/$i")  $(cat "$port/gid_attrs/ndevs/$i")"
  done | grep 'ac51:' # 172.81
}
show gids

remark "the pods can reach each other"
show ip netns exec macvlan-1 busybox ping -c 2 172.81.0.101

remark "RDMA devices and addresses of the pods"
show silkrail pods

remark "both are detached"
for name in macvlan-1 macvlan-2; do
  detach "$name" "$network"
  ip netns delete "$name"
done
unchanged
