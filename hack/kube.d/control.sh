# Sourced by hack/kube.d/node: the control plane.
# shellcheck shell=bash disable=SC2086,SC2154

keys() {
  mkdir -p $kube/keys
  openssl genrsa -out $kube/keys/accounts.key 2048 2>/dev/null
  openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=apiserver -keyout $kube/keys/kubelet-client.key \
    -out $kube/keys/kubelet-client.crt 2>/dev/null
  openssl rsa -in $kube/keys/accounts.key -pubout -out $kube/keys/accounts.pub 2>/dev/null
  token=$(openssl rand -hex 16)
  (umask 077 && echo "$token" >$kube/token &&
    printf '%s\n' "$token,admin,1,\"system:masters\"" "$token-node,system:node:$node,2,\"system:nodes\"" >$kube/keys/tokens.csv)
  kubeconfig admin "$token" 'insecure-skip-tls-verify: true' >$kube/kubeconfig
  # Of programs that read the API as a kubelet: with $kube/keys in the place of its certificates.
  kubeconfig node "$token-node" 'certificate-authority: /var/lib/kubelet/pki/apiserver.crt' >$kube/kubelet.conf
}

# kubeconfig USER TOKEN TRUST
kubeconfig() {
  cat <<EOF
apiVersion: v1
kind: Config
clusters: [{name: kube, cluster: {server: $server, $3}}]
users: [{name: $1, user: {token: $2}}]
contexts: [{name: kube, context: {cluster: kube, user: $1}}]
current-context: kube
EOF
}

start_control_plane() {
  local etcd=http://127.0.0.1:2379 peer=http://127.0.0.1:2380
  start etcd etcd --data-dir $kube/etcd --unsafe-no-fsync --listen-client-urls $etcd --advertise-client-urls $etcd \
    --listen-peer-urls $peer --initial-advertise-peer-urls $peer --initial-cluster default=$peer
  start apiserver kube-apiserver --etcd-servers=$etcd --bind-address=127.0.0.1 --secure-port=6443 \
    --advertise-address=$address --cert-dir=$kube/keys --token-auth-file=$kube/keys/tokens.csv --authorization-mode=Node,RBAC \
    --anonymous-auth=false --service-cluster-ip-range=10.96.0.0/24 --allow-privileged=true \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=$kube/keys/accounts.pub \
    --service-account-signing-key-file=$kube/keys/accounts.key --kubelet-preferred-address-types=Hostname \
    --kubelet-client-certificate=$kube/keys/kubelet-client.crt --kubelet-client-key=$kube/keys/kubelet-client.key
  wait_for 300 "the API server is ready" kubectl get --raw /readyz
  kubectl apply --filename=hack/kube.d/networks.yaml >"$logs/networks.log"
  start scheduler kube-scheduler --kubeconfig=$KUBECONFIG --leader-elect=false --bind-address=127.0.0.1 --port=0 \
    --cert-dir=$kube/keys
  start controller-manager kube-controller-manager --kubeconfig=$KUBECONFIG --leader-elect=false \
    --bind-address=127.0.0.1 --port=0 --cert-dir=$kube/keys --root-ca-file=$kube/keys/apiserver.crt \
    --service-account-private-key-file=$kube/keys/accounts.key
}
