# Sourced by hack/kube.d/node: container images with this machine's busybox.
# shellcheck shell=bash

# image NAME COMMAND DIRECTORY: writes DIRECTORY/NAME.tar, a docker archive of the image localhost/NAME:1, which contains
# busybox. The shell COMMAND is its entry point.
image() {
  local name=$1 command=$2 to=$3 work digest
  work=$(mktemp -d)
  mkdir -p "$work"/root/{bin,dev,etc,proc,sys,tmp}
  add_busybox "$work/root"
  tar -C "$work/root" -cf "$work/layer.tar" .
  digest=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  jq -n --arg digest "sha256:$digest" --arg command "$command" '{architecture: "amd64", os: "linux",
    created: "1970-01-01T00:00:00Z", config: {Env: ["PATH=/bin:/usr/bin"], Entrypoint: ["/bin/sh", "-c", $command]},
    rootfs: {type: "layers", diff_ids: [$digest]}, history: [{created: "1970-01-01T00:00:00Z"}]}' >"$work/config.json"
  jq -n --arg tag "localhost/$name:1" '[{Config: "config.json", RepoTags: [$tag], Layers: ["layer.tar"]}]' \
    >"$work/manifest.json"
  tar -C "$work" -cf "$to/$name.tar" manifest.json config.json layer.tar
  rm -r "$work"
}

add_busybox() {
  local applet
  install "$(command -v busybox)" "$1/bin/busybox"
  for applet in sh sleep ls cat ip ping id kill mount grep; do ln -s busybox "$1/bin/$applet"; done
  echo 'root:x:0:0:root:/:/bin/sh' >"$1/etc/passwd"
  echo 'root:x:0:' >"$1/etc/group"
}
