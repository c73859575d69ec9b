# Sourced by guest: calls CNI plugins as a container runtime does.
# shellcheck shell=bash

# pod NAME: creates a pod's network namespace.
pod() { ip netns add "$1"; }

# attach POD CONFLIST: calls ADD of each plugin in turn, with the result of the previous one.
attach() {
  local plugin result='' count i
  count=$(jq '.plugins | length' <<<"$2")
  for ((i = 0; i < count; i++)); do
    plugin=$(plugin_conf "$2" "$i" "$result")
    result=$(cni ADD "$1" "$plugin") || { echo "$result"; return 1; }
  done
  jq --compact-output . <<<"$result"
}

# detach POD CONFLIST: calls DEL of each plugin, in reverse order.
detach() {
  local i
  for ((i = $(jq '.plugins | length' <<<"$2") - 1; i >= 0; i--)); do
    cni DEL "$1" "$(plugin_conf "$2" "$i" '')"
  done
}

# plugin_conf CONFLIST INDEX PREVIOUS-RESULT: prints the configuration that a plugin of a list gets on standard input.
plugin_conf() {
  jq --compact-output --argjson i "$2" --argjson previous "${3:-null}" \
    '{cniVersion, name} + .plugins[$i] + (if $previous then {prevResult: $previous} else {} end)' <<<"$1"
}

# cni COMMAND POD CONFIGURATION
cni() {
  CNI_COMMAND=$1 CNI_CONTAINERID=$2 CNI_NETNS=/run/netns/$2 CNI_IFNAME=net1 CNI_PATH=/opt/cni/bin \
    CNI_ARGS="IgnoreUnknown=true;K8S_POD_NAMESPACE=demo;K8S_POD_NAME=$2" \
    "/opt/cni/bin/$(jq --raw-output .type <<<"$3")" <<<"$3" 2>>/tmp/cni.log
}
