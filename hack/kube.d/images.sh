# Sourced by hack/kube.d/node: container images of this machine's programs, as docker archives.
# shellcheck shell=bash

# busybox_image NAME COMMAND FILE: the image localhost/NAME:1 with busybox. The shell COMMAND is its entry point.
busybox_image() {
  local work
  work=$(mktemp -d)
  mkdir -p "$work"/{bin,dev,etc,proc,sys,tmp}
  add_busybox "$work"
  image "localhost/$1:1" "$(jq -n --arg command "$2" '["/bin/sh", "-c", $command]')" "$work" "$3"
  rm -r "$work"
}

# silkrail_image FILE: an image as that of conf/deploy/Containerfile, with the executables of the debug build and the libraries
# that they need, and without the plugins.
silkrail_image() {
  local work program
  work=$(mktemp -d)
  for program in silkrail silkraild; do strip -o "$work/$program" "$CARGO_TARGET_DIR/debug/$program"; done
  ldd "$work/silkraild" | grep -o '/[^ ]*' | while read -r library; do install -D "$library" "$work$library"; done
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
