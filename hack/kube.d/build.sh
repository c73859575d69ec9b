# Sourced by hack/kube: fetches and builds the programs of a Kubernetes node, of Debian 12's packages. Nothing is installed.
# shellcheck shell=bash

# shellcheck source=../fetch.sh
. hack/fetch.sh

# The version of Debian 12's source package. Later ones are in no Debian release.
kubernetes_version=1.20.2

kube_cache=${SILKRAIL_KUBE_CACHE:-/var/cache/silkrail-kube/v1}

# Fetches etcd, kubectl and the container runtime, and builds kubelet, API server, scheduler and controller manager.
# target/tools/kubernetes is a link to a directory that work trees share. Its name contains a hash of what makes it, it is created
# by one rename, and it is never changed.
kubernetes() {
  local built link=$CARGO_TARGET_DIR/tools/kubernetes
  containerd
  fetch containerd-1.6 "$oldest" containerd_from
  built=$kube_cache/kubernetes-$(hash_of "$oldest" "$kubernetes_version" \
    "$(declare -f kubernetes_from kubernetes_source kubernetes_programs generate_openapi)")
  if [ ! -d "$built" ]; then
    mkdir -p "$kube_cache" || die "cannot write to $kube_cache: set SILKRAIL_KUBE_CACHE"
    (
      flock 9
      [ -d "$built" ] || fetch_to "$built" "$oldest" kubernetes_from
    ) 9>"$kube_cache/lock"
    find "$kube_cache" -maxdepth 1 -name 'kubernetes-*' ! -path "$built" -mtime +30 -exec rm -rf {} +
  fi
  [ "$(readlink "$link")" = "$built" ] || { rm -rf "$link" && ln -s "$built" "$link"; }
  rm -rf "$CARGO_TARGET_DIR/tools/apt"
}

# It works in a directory beside the result, which is of use only if it is complete.
kubernetes_from() {
  local work=$1.work
  rm -rf "$work"
  mkdir -p "$work/tmp" "$1"
  extract etcd-server "$1" ./usr/bin/etcd
  extract kubernetes-client "$1" ./usr/bin/kubectl
  kubernetes_source "$work"
  say "building Kubernetes $kubernetes_version: takes four minutes with two CPUs"
  # GOFLAGS and the like of this machine must not matter.
  env -i PATH="$work/go/usr/lib/go-1.19/bin:$PATH" HOME="$work" GOROOT="$work/go/usr/lib/go-1.19" GOPATH="$work/path" \
    GOCACHE="$work/cache" GOTMPDIR="$work/tmp" GO111MODULE=off GOPROXY=off CGO_ENABLED=0 \
    bash -euc "$(declare -f kubernetes_programs generate_openapi); kubernetes_programs '$1' '$work'" ||
    die "Kubernetes cannot be built; its source and the Go compiler are in $work"
  chmod -R u+w "$work"
  rm -rf "$work"
}

# kubernetes_source DIRECTORY: unpacks a Go compiler and the source of Kubernetes.
kubernetes_source() {
  local package tree=$1/path/src/k8s.io/kubernetes reflect=github.com/modern-go/reflect2
  for package in golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev; do unpack "$package" "$1/go"; done
  download_source "$1" || download_source "$1" ||
    die "Debian's suite $source_of_packages has no source of kubernetes any more, or the mirror does not answer"
  mkdir -p "${tree%/*}"
  tar -xf "$1"/kubernetes_*"$kubernetes_version".orig.tar.gz -C "${tree%/*}" ||
    die "Debian's source of kubernetes is no longer $kubernetes_version: change hack/kube.d/build.sh"
  mv "${tree%/*}"/kubernetes-* "$tree"
  # Its reflect2 1.0.1 crashes if it is built with Go 1.18 or later.
  rm "$tree/vendor/$reflect"/*.{go,s}
  cp "$1/go/usr/share/gocode/src/$reflect"/*.{go,s} "$tree/vendor/$reflect/"
}

# download_source DIRECTORY
download_source() (
  cd "$1" || exit
  sed 's/^deb /deb-src /' "${APT_CONFIG%/*}/sources.list" >sources.list
  apt_get -o Dir::Etc::sourcelist="$1/sources.list" update -qq &&
    apt_get -o Dir::Etc::sourcelist="$1/sources.list" source -qq --download-only kubernetes >/dev/null
)

# kubernetes_programs TO WORK: builds the programs, with Go's environment.
kubernetes_programs() {
  cd "$2/path/src/k8s.io/kubernetes" || exit
  generate_openapi "$2"
  local package flags='-s -w'
  for package in component-base/version client-go/pkg/version; do
    package=k8s.io/kubernetes/vendor/k8s.io/$package
    flags+=" -X $package.gitVersion=v1.20.2 -X $package.gitMajor=1 -X $package.gitMinor=20"
  done
  # No registry is used.
  sed -i '/credentialprovider\/\(aws\|azure\|gcp\)"/d' cmd/kubelet/app/plugins.go
  # The compiler takes 40 % less time if it inlines nothing, writes nothing for debuggers and collects its garbage less often.
  # Go's own packages stay fast.
  GOGC=400 go build -tags providerless,dockerless -trimpath -gcflags=all=-dwarf=false \
    -gcflags='k8s.io/kubernetes/...=-dwarf=false -l' -ldflags "$flags" -o "$1/" \
    ./cmd/kubelet ./cmd/kube-apiserver ./cmd/kube-scheduler ./cmd/kube-controller-manager
}

# generate_openapi WORK: generates the file of the API server that is not part of the source.
generate_openapi() {
  local directories
  directories=$(grep -rlE --include='*.go' '^[[:space:]]*//[[:space:]]*\+k8s:openapi-gen=' pkg cmd plugin staging/src/k8s.io |
    grep -v -e /code-generator/ -e /sample-apiserver/ | xargs -n1 dirname | sort -u |
    sed 's#^staging/src/#vendor/#; s#^#k8s.io/kubernetes/#' | paste -sd,)
  go build -o "$1/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  "$1/openapi-gen" --logtostderr -i "$directories" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$1/openapi-report"
}
