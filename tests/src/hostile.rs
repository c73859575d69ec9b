//! Actions of a pod with `CAP_NET_ADMIN` on its link.
//!
//! The list covers everything that the owner of a network namespace can change: each attribute of `RTM_NEWLINK`, each `SET`
//! of ethtool, each file of a link in sysfs, links and other objects on the link, and moves to other namespaces.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use testkit::{Observe, TestPod, wait_until};

/// An action of a pod on its link `net1` or its RDMA device.
#[derive(Debug, Clone, Copy)]
pub struct HostileAction {
    /// Name in error messages.
    pub name: &'static str,
    /// Shell script that runs in the pod. If it ends with `hold`, its process stays alive until the attachment is deleted.
    pub script: &'static str,
}

/// Sets a numeric attribute to 2000 by RTM_NEWLINK.
macro_rules! SET_NUMBER {
    ($attribute:literal) => {
        concat!(
            "perl -e '$i = `ip -o link show net1`; $i =~ s/:.*//s; socket(S, 16, 3, 0) or die;
             $m = pack(q(LSSLL CCSlLL SSL), 40, 16, 5, 1, 0, 0, 0, 0, $i, 0, 0, 8, ",
            $attribute,
            ", 2000); send(S, $m, 0) or die; recv(S, $a, 4096, 0); $e = unpack(q(x16 l), $a); die qq(errno $e) if $e'"
        )
    };
}

/// Inverts the setting of adaptive moderation.
macro_rules! MODERATION {
    ($then:literal) => {
        concat!(
            "case $(rdma -d dev show $RDMA) in *adaptive-moderation\\ on*) to=off ;; *) to=on ;; esac
             rdma dev set $RDMA adaptive-moderation $to\n",
            $then
        )
    };
}

const fn action(name: &'static str, script: &'static str) -> HostileAction {
    HostileAction { name, script }
}

/// Actions on a link of any kind.
pub const ANY_LINK: &[HostileAction] = &[
    action("another name", "ip link set net1 down; ip link set net1 name evil0"),
    action("an altname", "ip link property add dev net1 altname evil0"),
    action("an alias", "ip link set net1 alias evil"),
    action("a group", "ip link set net1 group 77"),
    action("down", "ip link set net1 down"),
    action("promiscuous", "ip link set net1 promisc on"),
    action("every multicast", "ip link set net1 allmulticast on"),
    action("no ARP", "ip link set net1 arp off"),
    action("no multicast", "ip link set net1 multicast off"),
    action("dynamic", "ip link set net1 dynamic on"),
    action(
        "flags that no tool sets",
        // SIOCSIFFLAGS: up, debug, notrailers, portsel, automedia
        "perl -e 'socket(S, 2, 2, 0); $r = pack(q(a16s), q(net1), 0x7025); ioctl(S, 0x8914, $r) or die $!'",
    ),
    action("an MTU", "ip link set net1 mtu 1280"),
    action("an address", "ip link set net1 down; ip link set net1 address 02:66:66:66:66:66"),
    action("a broadcast address", "ip link set net1 broadcast 02:66:66:66:66:67"),
    action("a queue length", "ip link set net1 txqueuelen 5"),
    action("dormant", "ip link set net1 mode dormant"),
    action("small GSO packets", "ip link set net1 gso_max_size 2000 gso_max_segs 2"),
    action("small GRO packets", "ip link set net1 gro_max_size 2000"),
    // Attributes that older versions of `ip` do not support.
    action("small GSO packets of IPv4", SET_NUMBER!("63")),
    action("small GRO packets of IPv4", SET_NUMBER!("64")),
    action("no link-local addresses", "ip link set net1 addrgenmode none"),
    action("sysctls", SYSCTLS),
    action(
        "addresses",
        "for n in $(seq 100); do echo address add 10.66.0.$n/16 dev net1; echo address add fd66::$n/64 dev net1 nodad; done | ip -batch -",
    ),
    action(
        "routes and rules",
        "ip address add 10.66.0.1/16 dev net1; ip route add 10.99.0.0/16 via 10.66.0.9 dev net1; ip rule add from 10.66.0.1 table 66
         ip route add table 66 unreachable default",
    ),
    action("a permanent neighbour", "ip neigh replace 10.66.0.7 lladdr 02:66:66:66:66:07 nud permanent dev net1"),
    action("multicast addresses", "ip maddress add 33:33:00:00:66:66 dev net1; ip maddress add 01:00:5e:00:66:66 dev net1"),
    action("a queueing discipline", "tc qdisc replace dev net1 root pfifo limit 1"),
    action(
        "a packet socket in promiscuous mode",
        // AF_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC
        "perl -e 'socket(S, 17, 3, 0x300) or die; $i = `ip -o link show net1`; $i =~ s/:.*//s;
             setsockopt(S, 263, 1, pack(q(iSSa8), $i, 1, 0, q())) or die $!; sleep 600' &
         until ip -d link show net1 | grep -q 'promiscuity 1'; do kill -0 $!; sleep 0.05; done; hold",
    ),
    action("a macvlan on it", "ip link add link net1 evil0 type macvlan mode bridge; ip link set evil0 up"),
    action(
        "a nested namespace that ends",
        "unshare --net sh -c 'until ip link show net1; do sleep 0.05; done' >/dev/null 2>&1 & nested
         ip link set net1 netns $! && wait",
    ),
    action(
        "a nested namespace that stays",
        "unshare --net sleep 600 & nested; ip link set net1 netns $!; hold",
    ),
    action(
        "a nested namespace with other names",
        "unshare --net sleep 600 & nested; ip link set net1 netns $! name evil0
         nsenter --net=/proc/$!/ns/net ip link property add dev evil0 altname eth1; hold",
    ),
];

const SYSCTLS: &str = "cd /proc/sys/net; echo 2 >ipv4/conf/net1/arp_ignore; echo 1 >ipv4/conf/net1/forwarding
    echo 1 >ipv6/conf/net1/disable_ipv6; echo 0 >ipv4/conf/net1/rp_filter; echo 1 >ipv4/neigh/net1/gc_stale_time";

/// Actions on a function of a card.
pub const FUNCTION: &[HostileAction] = &[
    action("a second unicast address", "bridge fdb add 02:66:66:66:66:68 dev net1 self"),
    action("no checksums", "ethtool -K net1 tx off"),
    action("no segmentation", "ethtool -K net1 tso off gso off"),
    action("no aggregation", "ethtool -K net1 gro off"),
    action("no scatter and gather", "ethtool -K net1 sg off"),
    action("small rings", "ethtool -G net1 rx 96 tx 96"),
    action("an interrupt for each packet", "ethtool -C net1 rx-usecs 0"),
    action("moderation by completions", "ethtool -C net1 cqe-mode-rx on cqe-mode-tx on"),
    action("pushed packets and large completions", "ethtool -G net1 tx-push on cqe-size 128"),
    action("a threshold for copied packets", "ethtool --set-tunable net1 rx-copybreak 77"),
    action(
        "contexts of receive side scaling",
        "ethtool -X net1 context new equal 1; ethtool -X net1 context new equal 1; ethtool -X net1 context 1 delete",
    ),
    action(
        "time stamps",
        // SIOCSHWTSTAMP: of every packet
        "perl -e 'socket(S, 2, 2, 0); $c = pack(q(l3), 0, 1, 1);
             $r = pack(q(a16Qx16), q(net1), unpack(q(Q), pack(q(p), $c))); ioctl(S, 0x89b0, $r) or die $!'",
    ),
    action("driver messages", "ethtool -s net1 msglvl 0x7fff"),
    action(
        "files of sysfs",
        "unshare --mount sh -ec 'mount -t sysfs none /sys; cd /sys/class/net/net1
         echo 20000 >gro_flush_timeout; echo 9 >napi_defer_hard_irqs; echo 1 >threaded'",
    ),
    action(
        "a macvlan in mode passthru",
        "ip link add link net1 evil0 type macvlan mode passthru; ip link set evil0 up",
    ),
    action("a VLAN on it", "ip link add link net1 evil0 type vlan id 66; ip link set evil0 up"),
    action(
        "a VLAN on it, in a nested namespace",
        "ip link add link net1 evil0 type vlan id 66; unshare --net sleep 600 & nested; ip link set evil0 netns $!; hold",
    ),
    action(
        "a bridge over it",
        "ip link add evil0 type bridge; ip link set net1 master evil0; ip link set evil0 up; ip link set net1 up",
    ),
    action(
        "a bond over it",
        "ip link add evil0 type bond mode 1; ip link set net1 down; ip link set net1 master evil0; ip link set evil0 up",
    ),
    action("a VRF over it", "ip link add evil0 type vrf table 66; ip link set net1 master evil0"),
    action(
        "a VXLAN on it",
        "ip link add evil0 type vxlan id 6 dev net1 group 239.6.6.6 dstport 4789; ip link set evil0 up",
    ),
    action(
        "a filter that drops all",
        "tc qdisc add dev net1 clsact; tc filter add dev net1 ingress matchall action drop",
    ),
    action(
        "loss by a queueing discipline",
        "tc qdisc replace dev net1 root tbf rate 8kbit burst 1540 limit 3000",
    ),
    action("an XDP program", XDP),
];

/// Loads an XDP program of two instructions that drops every packet (BPF_PROG_LOAD), pins it and attaches it to the link.
const XDP: &str = "mount -t bpf none /sys/fs/bpf
    perl -e '$code = pack(q(CCsl) x 2, 0xb7, 0, 0, 1, 0x95, 0, 0, 0); $gpl = qq(GPL\\0);
             $fd = syscall(321, 5, $a = pack(q(LLQQLLQLL), 6, 2, unpack(q(Q), pack(q(p), $code)), unpack(q(Q), pack(q(p), $gpl)), 0, 0, 0, 0, 0) . qq(\\0) x 72, 120);
             die qq(load: $!) if $fd < 0; $path = qq(/sys/fs/bpf/evil\\0);
             syscall(321, 6, $b = pack(q(QLL), unpack(q(Q), pack(q(p), $path)), $fd, 0) . qq(\\0) x 104, 120) < 0 and die qq(pin: $!)'
    ip link set net1 xdpgeneric pinned /sys/fs/bpf/evil; rm /sys/fs/bpf/evil; umount /sys/fs/bpf";

/// Actions on the RDMA device of the attachment.
pub const RDMA_DEVICE: &[HostileAction] = &[
    action("another name for the RDMA device", "rdma dev set $RDMA name evil0"),
    action("no moderation of completions", MODERATION!("")),
    action("optional counters", "rdma statistic set link $RDMA/1 optional-counters cc_rx_ce_pkts"),
    action("automatic counters", "rdma statistic qp set link $RDMA/1 auto type,pid on"),
    action(
        "no moderation of completions, and return to the host by a namespace that ends",
        MODERATION!(
            "unshare --net sh -c 'until rdma dev show $RDMA; do sleep 0.05; done' >/dev/null 2>&1 & nested
             move_rdma; wait
             until nsenter --net=/proc/1/ns/net rdma dev show $RDMA >/dev/null 2>&1; do sleep 0.1; done"
        ),
    ),
    action(
        "an RDMA device in a nested namespace that stays",
        "unshare --net sleep 600 & nested; move_rdma; hold",
    ),
];

/// The user namespace that owns a pod's network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetnsOwner {
    /// The initial user namespace; the pod has `CAP_NET_ADMIN`.
    Machines,
    /// A user namespace of the pod, in which it has every capability.
    Own,
}

/// The start of each script: it ends at the first error. `nested` waits until the process that it started last is in a network
/// namespace of its own, and `move_rdma` moves the RDMA device there; the name that this needs would keep the namespace.
const START: &str = r#"set -e
    nested() { until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done; }
    move_rdma() {
        ip netns attach nested $!
        rdma dev set $RDMA netns nested && moved=yes || moved=no
        ip netns del nested
        [ $moved = yes ]
    }"#;

/// How a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodEnd {
    /// DEL is called while all processes of the pod are running.
    DelFirst,
    /// The pod's processes end before DEL is called.
    DiesFirst,
}

/// A running action; dropping it kills its processes.
#[derive(Debug)]
pub struct RunningAction {
    shell: Child,
}

impl HostileAction {
    /// Returns whether the process of the action stays alive until the attachment is deleted.
    pub fn holds(&self) -> bool {
        self.script.ends_with("hold")
    }

    /// Runs the action in the pod, with `rdma` as `$RDMA`.
    ///
    /// # Errors
    /// If the kernel does not permit it: then the action proves nothing.
    pub fn run(&self, pod: &TestPod, rdma: &str) -> Result<RunningAction, String> {
        let (script, holds) = match self.script.strip_suffix("hold") {
            Some(script) => (script, true),
            None => (self.script, false),
        };
        let done = pod.path().with_file_name("action-done");
        let _ = fs::remove_file(&done);
        let wait = if holds { "exec sleep 600" } else { "" };
        let script = format!("{START}\n{script}\necho >{}\n{wait}", done.display());
        let mut shell = pod.command("sh");
        shell.args(["-c", &script]).env("RDMA", rdma).stdout(Stdio::null());
        // Also after an error or a panic, the processes that the script has started must not keep their namespaces.
        let mut running = RunningAction { shell: shell.process_group(0).spawn().unwrap() };
        let mut ended = None;
        wait_until(self.name, || {
            ended = running.shell.try_wait().unwrap();
            done.exists() || ended.is_some()
        });
        if !done.exists() {
            return Err(format!("the kernel did not permit the action: {ended:?}"));
        }
        fs::remove_file(done).unwrap();
        if !holds {
            running.shell.wait().unwrap();
        }
        Ok(running)
    }
}

impl Drop for RunningAction {
    fn drop(&mut self) {
        // The whole process group, since child processes hold the namespaces.
        let _ = Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.shell.id())])
            .stderr(Stdio::null())
            .status();
        let _ = self.shell.wait();
    }
}
