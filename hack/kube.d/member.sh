# Sourced by hack/kube.d/node: the kubelet and the container runtime.
# shellcheck shell=bash disable=SC2086,SC2154

# The address of a node must not be on the loopback link.
network() {
  ip link add $link type veth peer name ${link}p
  ip link set ${link}p up
  ip link set $link up
  ip address add $address/24 dev $link
  ip route show default | grep -q . || ip route add default via ${address%.*}.254 dev $link
  local plugin
  mkdir -p $kube/cni/{bin,net.d}
  for plugin in macvlan ipvlan sriov ib-sriov ipoib rdma ifacer silkrail-ipam; do
    ln -s "$CARGO_TARGET_DIR/dist-quick/cni/$plugin" "$kube/cni/bin/$plugin"
  done
  ln -s "$tools/go-plugins/loopback" $kube/cni/bin/
  ln -s "$quick_dir/multus-double" $kube/cni/bin/multus
  cat >$kube/cni/net.d/90-multus.conflist <<EOF
{"cniVersion": "1.0.0", "name": "multus", "plugins": [{"type": "multus", "cluster":
 {"cniVersion": "1.0.0", "name": "cluster", "plugins": [{"type": "macvlan", "master": "$link", "mode": "bridge",
  "ipam": {"type": "silkrail-ipam", "pools": [{"name": "cluster", "subnet": "${address%.*}.0/24",
  "ips": ["${address%.*}.100-${address%.*}.200"]}]}}]}}]}
EOF
}

# The kubelet needs a cgroup below which every controller is enabled.
cgroups() {
  local controller controllers
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    read -ra controllers </sys/fs/cgroup/cgroup.controllers
    for controller in "${controllers[@]}"; do
      echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control ||
        die "the cgroup controller $controller cannot be enabled in /sys/fs/cgroup: is this the root cgroup?"
    done
    mkdir -p /sys/fs/cgroup/silkrail-kube
    return
  fi
  for controller in /sys/fs/cgroup/*/; do
    [ "${controller%/unified/}" != "$controller" ] || mkdir -p "$controller/silkrail-kube"
  done
  cat /sys/fs/cgroup/cpuset/cpuset.cpus >/sys/fs/cgroup/cpuset/silkrail-kube/cpuset.cpus
  cat /sys/fs/cgroup/cpuset/cpuset.mems >/sys/fs/cgroup/cpuset/silkrail-kube/cpuset.mems
}

start_containerd() {
  cat >$kube/containerd.toml <<EOF
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "$tools/runc/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$kube/cni/bin"
    conf_dir = "$kube/cni/net.d"
EOF
  start containerd containerd --config $kube/containerd.toml
}

# No registry is needed. This takes minutes in the lab's machine.
import_images() {
  local image
  wait_for 180 "containerd answers" ctr version
  for image in "$tools"/kube-images/*.tar; do
    ctr --namespace k8s.io images import --snapshotter native "$image" >>"$logs/images.log" 2>&1 ||
      die "containerd cannot import ${image##*/}: see $logs/images.log"
  done
  # That of conf/pods, which has the same commands.
  ctr --namespace k8s.io images tag localhost/busybox:1 docker.io/mellanox/rping-test:latest >>"$logs/images.log"
}

# The kubelet is started by a script of its own, so that tests can restart it.
start_kubelet() {
  cat >$kube/kubelet.yaml <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 0.0.0.0
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $kube/keys/kubelet-client.crt}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /silkrail-kube
enforceNodeAllocatable: []
failSwapOn: false
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
featureGates: {LocalStorageCapacityIsolation: false}
makeIPTablesUtilChains: false
hairpinMode: none
resolvConf: ""
syncFrequency: 10s
nodeStatusUpdateFrequency: 2s
topologyManagerPolicy: best-effort
serializeImagePulls: false
# A sandbox may take twice as long, if the machine is emulated and starts one on each of its VFs.
runtimeRequestTimeout: 10m
EOF
  cat >$kube/start-kubelet <<EOF
#!/bin/sh
# Starts the kubelet in the background; its process is in $kube/kubelet.pid.
export AWS_EC2_METADATA_DISABLED=true PATH=$PATH
setsid kubelet --config=$kube/kubelet.yaml --kubeconfig=$KUBECONFIG --container-runtime=remote \\
  --container-runtime-endpoint=unix:///run/containerd/containerd.sock --hostname-override=$node --node-ip=$address \\
  --cert-dir=$kube/keys/kubelet --v=2 --vmodule=manager=3 >>$logs/kubelet.log 2>&1 </dev/null &
echo \$! >$kube/kubelet.pid
EOF
  chmod +x $kube/start-kubelet
  $kube/start-kubelet
}

is_ready() {
  api "api/v1/nodes/$node" | jq -e '.status.conditions[] | select(.type == "Ready" and .status == "True")' &&
    api api/v1/namespaces/default/serviceaccounts/default
}

# api PATH: kubectl takes seconds in the lab's machine.
api() { curl -sfk -H "Authorization: Bearer $(<$kube/token)" "$server/$1"; }
