# Sourced by lab: everything before a boot. prepare sets $boot, a directory with vmlinuz and initrd.img. Its name contains a
# hash of all of its inputs, it is created by one rename, and it is never changed: runs need no lock, and work trees with
# different labs can share one cache.
# shellcheck shell=bash disable=SC2086,SC2154

kernel_modules=(9p 9pnet_virtio overlay igb igbvf ib_uverbs macvlan ipvlan 8021q dummy veth bridge bonding ib_ipoib virtio_net)

prepare() {
  boot=$cache/boot-$(fingerprint "$here"/{prepare.sh,kernel,guest,rdmasim} "${SILKRAIL_LAB_KERNEL:-}")
  if ready; then
    touch -c "$boot" "$(kept_kernel)" 2>/dev/null || true # another work tree removes what is not used
    return
  fi
  mkdir -p "$cache" 2>/dev/null || true
  [ -w "$cache" ] || die "cannot write to $cache: run as root, or set SILKRAIL_LAB_CACHE"
  exec 9>"$cache/lock"
  flock -n 9 || { say "another lab is preparing; waiting for it"; flock 9; }
  if ! ready; then
    [ "$(uname -m)" = x86_64 ] || die "the lab requires an x86_64 machine (QEMU's igb and Debian's amd64 kernel)"
    install_tools
    find_kernel
    fetch_kernel
    build_rdmasim
    build_boot
  fi
  exec 9>&-
}

ready() { [ -e "$boot/initrd.img" ] && [ -e "$boot/vmlinuz" ] && command -v qemu-system-x86_64 >/dev/null; }

# kept_kernel: prints the directory of the kernel that $boot uses.
kept_kernel() { dirname "$(dirname "$(readlink "$boot/vmlinuz")")"; }

# versions: prints what the machine in $boot consists of.
versions() {
  local file
  file=$(readlink "$boot/vmlinuz")
  echo "kernel ${file##*/vmlinuz-}, $(qemu-system-x86_64 --version | sed -n 's/^QEMU emulator version \([^ ]*\).*/QEMU \1/p')"
}

# Prints a hash of files, directories (their files) and words.
fingerprint() {
  local i
  for i; do
    if [ -e "$i" ]; then find "$i" -type f -print0 | sort -z | xargs -0 cat; else echo "$i"; fi
  done | sha256sum | cut -c1-16
}

# --- Debian -------------------------------------------------------------------------------------------------------

# shellcheck source=../mirror.sh
. "$here/../mirror.sh"

apt_updated=''
update() {
  [ -z "$apt_updated" ] || return 0
  say "reading Debian's package lists"
  apt_get update -qq >&2 || die "apt-get update failed: check the apt sources"
  apt_updated=yes
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# want PACKAGE[/SUITE]... installs missing packages. Naming the suite per package, not for the whole call (-t), leaves all
# other packages on the machine unchanged.
want() {
  local missing=() p
  for p; do installed "${p%/*}" || missing+=("$p"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || die "not installed: ${missing[*]}; run 'lab prepare' as root once"
  update
  say "installing ${missing[*]}"
  install_packages "${missing[@]}" || { read_lists || true; install_packages "${missing[@]}"; } ||
    { tail -n 20 "$cache/apt.log" >&2; die "cannot install ${missing[*]}"; }
}

install_packages() {
  DEBIAN_FRONTEND=noninteractive apt_get install -qqy --no-install-recommends "$@" </dev/null >"$cache/apt.log" 2>&1
}

# Sets $suite to the suite with a 6.12 kernel and a QEMU with igb: Debian 12 has them only in its backports.
find_suite() {
  local version uri options=''
  suite=''
  # shellcheck source=/dev/null
  version=$(. /etc/os-release && echo "${ID:-}-${VERSION_ID:-}")
  case $version in
  debian-12) ;;
  debian-1[01] | debian-[0-9]) die "the lab requires Debian 12 or newer; this is $version" ;;
  debian-*) return 0 ;;
  *) die "the lab can be installed only on Debian 12 or newer; this is $version" ;;
  esac
  suite=bookworm-backports
  [ -z "$(mirror_of $suite)" ] || return 0
  uri=$(mirror_of bookworm)
  [ -n "$uri" ] || die "the apt sources do not contain 'bookworm', so its backports cannot be found: add bookworm-backports"
  [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ] || options='signed-by=/usr/share/keyrings/debian-archive-keyring.gpg'
  [[ $uri != *snapshot* ]] || options+=' check-valid-until=no'
  [ -w /etc/apt/sources.list.d ] || die "the apt sources do not contain $suite: run 'lab prepare' as root once"
  say "adding $suite to apt's sources"
  local list=/etc/apt/sources.list.d/silkrail-lab.list
  echo "deb ${options:+[$options] }$uri $suite main" >$list
  # A suite that is missing would make every later update fail.
  apt_get update -qq -o APT::Update::Error-Mode=any -o Dir::Etc::sourcelist=$list -o Dir::Etc::sourceparts=/dev/null \
    -o APT::Get::List-Cleanup=false >&2 ||
    { rm $list; die "Debian's mirror does not answer, or no longer has $suite, from which Debian 12 gets the lab's kernel and QEMU: if so, run the lab on Debian 13"; }
  apt_updated=''
}

install_tools() {
  find_suite
  want {qemu-system-{x86,common,data},seabios}"${suite:+/$suite}"
  want busybox-static cpio xz-utils kmod gcc make iproute2 ethtool jq
}

# --- kernel -------------------------------------------------------------------------------------------------------

# Sets $kernel to a release, such as 6.12.95+deb12-amd64: that of the file kernel, or else the newest. That choice is stored; otherwise
# a new kernel in Debian would replace the one whose headers are installed.
find_kernel() {
  local pinned
  kernel=${SILKRAIL_LAB_KERNEL:-}
  [ -z "$kernel" ] || return 0
  update
  # shellcheck source=/dev/null
  pinned=$(. /etc/os-release && awk -v release="${VERSION_CODENAME:-}" '$1 == release { print $2 }' "$here/kernel")
  for kernel in "$pinned" "$(cat "$cache/release" 2>/dev/null || true)" "$(newest_kernel)"; do
    ! is_available "$kernel" || break
  done
  [ -n "$kernel" ] || die "apt has no package linux-image-amd64: check that its sources contain Debian's main section"
  [ "$kernel" = "$pinned" ] || say "using kernel $kernel: ${pinned:+Debian no longer has $pinned; }change hack/lab/kernel"
  echo "$kernel" >"$cache/release"
}

newest_kernel() {
  apt-cache ${suite:+-o APT::Default-Release=$suite} show --no-all-versions linux-image-amd64 |
    sed -n 's/^Depends: linux-image-\([^ ,]*\).*/\1/p' || true
}

# is_available RELEASE: whether that kernel and its headers are kept here, or in Debian's archive.
is_available() {
  [ -n "$1" ] || return 1
  [ -d "$(tree_of "$1")" ] || apt-cache show "linux-image-$1" >/dev/null 2>&1 || return 1
  [ -e "$(rdmasim_of "$1")/rdmasim.ko" ] || installed "linux-headers-$1" || apt-cache show "linux-headers-$1" >/dev/null 2>&1
}

# The name contains the modules, because those of the list are decompressed there.
tree_of() { echo "$cache/kernel-$1-$(fingerprint "${kernel_modules[@]}")"; }

rdmasim_of() { echo "$cache/rdmasim-$(fingerprint "$here/rdmasim" "$1")"; }

# Unpacks the kernel's package to $tree without installing it: no boot loader, no initramfs hooks.
fetch_kernel() {
  tree=$(tree_of "$kernel")
  [ ! -d "$tree" ] || return 0
  local new=$tree.new m
  rm -rf "$new" && mkdir -p "$new/deb"
  update
  say "fetching kernel $kernel"
  download "linux-image-$kernel" "$new/deb" || die "no package linux-image-$kernel; see SILKRAIL_LAB_KERNEL"
  say "unpacking kernel $kernel"
  dpkg -x "$new"/deb/*.deb "$new"
  rm -rf "$new/deb"
  [ -d "$new/lib/modules" ] || mv "$new/usr/lib" "$new/lib"
  depmod -b "$new" "$kernel"
  for m in $(modules_of "$new"); do xz -d "$m"; done # in the emulator, xz takes a second per module
  depmod -b "$new" "$kernel"
  mv "$new" "$tree"
}

# Prints the files of the kernel modules that a guest loads at boot, in the order of insertion.
modules_of() {
  local m
  for m in "${kernel_modules[@]}"; do
    modprobe -d "$1" -S "$kernel" --show-depends "$m" | awk '$1 == "insmod" { print $2 }'
  done | awk '!seen[$0]++'
}

build_rdmasim() {
  rdmasim=$(rdmasim_of "$kernel")
  [ ! -e "$rdmasim/rdmasim.ko" ] || return 0
  want "linux-headers-$kernel"
  say "building rdmasim for $kernel"
  rm -rf "$rdmasim" && mkdir -p "$rdmasim"
  cp "$here"/rdmasim/* "$rdmasim/"
  make -s -C "$rdmasim" KERNEL="/usr/src/linux-headers-$kernel" >"$rdmasim/log" 2>&1 || {
    cat "$rdmasim/log" >&2
    rm -f "$rdmasim/rdmasim.ko"
    die "cannot build rdmasim"
  }
}

# --- boot directory -----------------------------------------------------------------------------------------------

build_boot() {
  say "building the initrd"
  local new=$boot.new root=$boot.new/root n=0 m
  rm -rf "$new" && mkdir -p "$root"/{bin,modules,proc,sys,dev,host,ram,root,job,lab}
  cp /bin/busybox "$root/bin/"
  for m in $(modules_of "$tree") "$rdmasim/rdmasim.ko"; do
    n=$((n + 1))
    objcopy --strip-debug "$m" "$root/modules/$(printf %02d $n)-$(basename "$m")"
  done
  cp "$here/guest/init" "$root/init"
  cp -r "$here"/guest/{setup,bin,node-files} "$root/lab/"
  chmod -R +x "$root/init" "$root/lab"
  ln -s "$tree/lib/modules" "$root/lab/modules"
  (cd "$root" && find . | cpio -o -H newc --quiet) >"$new/initrd.img"
  rm -rf "$root"
  ln -s "$tree/boot/vmlinuz-$kernel" "$new/vmlinuz"
  rm -rf "$boot" && mv "$new" "$boot"
  find "$cache" -maxdepth 1 \( -name 'boot-*' -o -name 'rdmasim-*' -o -name 'kernel-*' ! -path "$tree" \) -mtime +7 -exec rm -rf {} +
}
