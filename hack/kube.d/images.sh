# Sourced by hack/kube: container images of this machine's programs, as docker archives in target/tools/kube-images.
# shellcheck shell=bash

# Makes the images unless they are newer than the programs.
images() {
  local to=$CARGO_TARGET_DIR/tools/kube-images file is_old=''
  for file in "$CARGO_TARGET_DIR"/dist-quick/bin/{silkrail,silkraild} hack/kube.d/images.sh; do
    [ "$to/silkrail.tar" -nt "$file" ] || is_old=yes
  done
  [ -n "$is_old" ] || return 0
  # A node may read the former ones.
  rm -rf "$to.new"
  mkdir -p "$to.new"
  busybox_image pause 'exec sleep 1000000' "$to.new/pause.tar"
  busybox_image busybox 'exec sh' "$to.new/busybox.tar"
  silkrail_image "$to.new/silkrail.tar"
  rm -rf "$to"
  mv "$to.new" "$to"
}

# busybox_image NAME COMMAND FILE: the image localhost/NAME:1 with busybox. The shell COMMAND is its entry point.
busybox_image() {
  local work
  work=$(mktemp -d)
  mkdir -p "$work"/{bin,dev,etc,proc,sys,tmp}
  add_busybox "$work"
  image "localhost/$1:1" "$(jq -n --arg command "$2" '["/bin/sh", "-c", $command]')" "$work" "$3"
  rm -r "$work"
}

# silkrail_image FILE: an image as that of conf/deploy/Containerfile, with the executables of `hack/build --quick`, which are static,
# and without the plugins.
silkrail_image() {
  local work program
  work=$(mktemp -d)
  for program in silkrail silkraild; do strip -o "$work/$program" "$CARGO_TARGET_DIR/dist-quick/bin/$program"; done
  image registry.example.com/silkrail:latest '["/silkrail"]' "$work" "$1"
  rm -r "$work"
}

# image TAG ENTRYPOINT DIRECTORY FILE: writes FILE, with the files of DIRECTORY. ENTRYPOINT is a JSON list.
image() {
  local tag=$1 entrypoint=$2 from=$3 work digest
  work=$(mktemp -d)
  tar -C "$from" -cf "$work/layer.tar" .
  digest=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  jq -n --arg digest "sha256:$digest" --argjson entrypoint "$entrypoint" '{architecture: "amd64", os: "linux",
    created: "1970-01-01T00:00:00Z", config: {Env: ["PATH=/bin:/usr/bin"], Entrypoint: $entrypoint},
    rootfs: {type: "layers", diff_ids: [$digest]}, history: [{created: "1970-01-01T00:00:00Z"}]}' >"$work/config.json"
  jq -n --arg tag "$tag" '[{Config: "config.json", RepoTags: [$tag], Layers: ["layer.tar"]}]' >"$work/manifest.json"
  tar -C "$work" -cf "$4" manifest.json config.json layer.tar
  rm -r "$work"
}

add_busybox() {
  local applet
  install "$(command -v busybox)" "$1/bin/busybox"
  for applet in sh sleep ls cat ip ping id kill mount grep; do ln -s busybox "$1/bin/$applet"; done
  echo 'root:x:0:0:root:/:/bin/sh' >"$1/etc/passwd"
  echo 'root:x:0:' >"$1/etc/group"
}
