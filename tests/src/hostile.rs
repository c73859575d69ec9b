//! What a pod with `CAP_NET_ADMIN` can do to the link it was given.
//!
//! The list follows what the kernel lets the owner of a network namespace change: each attribute of `RTM_NEWLINK`, each `SET`
//! of ethtool, each file of a link in sysfs, what may be put on a link, and where it may be moved.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use testkit::{Observe, TestPod, wait_until};

/// Something that a pod does to its link `net1`.
#[derive(Debug, Clone, Copy)]
pub struct HostileAction {
    /// What it is called.
    pub name: &'static str,
    /// What a shell in the pod runs. If its last line is `hold`, it then lives on until the pod's attachment was deleted.
    pub script: &'static str,
}

/// Sets an attribute of one number to 2000 by RTM_NEWLINK.
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

/// Turns adaptive moderation over, whatever it is.
macro_rules! MODERATION {
    ($then:literal) => {
        concat!(
            "case $(rdma -d dev show $RDMA) in *adaptive-moderation\\ on*) to=off ;; *) to=on ;; esac
             rdma dev set $RDMA adaptive-moderation $to\n",
            $then
        )
    };
}

const fn trick(name: &'static str, script: &'static str) -> HostileAction {
    HostileAction { name, script }
}

/// Against a link of any kind.
pub const ANY_LINK: &[HostileAction] = &[
    trick("another name", "ip link set net1 down; ip link set net1 name evil0"),
    trick("an altname", "ip link property add dev net1 altname evil0"),
    trick("an alias", "ip link set net1 alias evil"),
    trick("a group", "ip link set net1 group 77"),
    trick("down", "ip link set net1 down"),
    trick("promiscuous", "ip link set net1 promisc on"),
    trick("every multicast", "ip link set net1 allmulticast on"),
    trick("no ARP", "ip link set net1 arp off"),
    trick("no multicast", "ip link set net1 multicast off"),
    trick("dynamic", "ip link set net1 dynamic on"),
    trick(
        "flags that no tool sets",
        // SIOCSIFFLAGS: up, debug, notrailers, portsel, automedia
        "perl -e 'socket(S, 2, 2, 0); $r = pack(q(a16s), q(net1), 0x7025); ioctl(S, 0x8914, $r) or die $!'",
    ),
    trick("an MTU", "ip link set net1 mtu 1280"),
    trick("an address", "ip link set net1 down; ip link set net1 address 02:66:66:66:66:66"),
    trick("a broadcast address", "ip link set net1 broadcast 02:66:66:66:66:67"),
    trick("a queue length", "ip link set net1 txqueuelen 5"),
    trick("dormant", "ip link set net1 mode dormant"),
    trick("small GSO packets", "ip link set net1 gso_max_size 2000 gso_max_segs 2"),
    trick("small GRO packets", "ip link set net1 gro_max_size 2000"),
    // Of attributes that an `ip` of today may not know yet.
    trick("small GSO packets of IPv4", SET_NUMBER!("63")),
    trick("small GRO packets of IPv4", SET_NUMBER!("64")),
    trick("no link-local addresses", "ip link set net1 addrgenmode none"),
    trick("sysctls", SYSCTLS),
    trick(
        "addresses",
        "for n in $(seq 100); do echo address add 10.66.0.$n/16 dev net1; echo address add fd66::$n/64 dev net1 nodad; done | ip -batch -",
    ),
    trick(
        "routes and rules",
        "ip address add 10.66.0.1/16 dev net1; ip route add 10.99.0.0/16 via 10.66.0.9 dev net1; ip rule add from 10.66.0.1 table 66
         ip route add table 66 unreachable default",
    ),
    trick("a neighbour for ever", "ip neigh replace 10.66.0.7 lladdr 02:66:66:66:66:07 nud permanent dev net1"),
    trick("multicast addresses", "ip maddress add 33:33:00:00:66:66 dev net1; ip maddress add 01:00:5e:00:66:66 dev net1"),
    trick("a queueing discipline", "tc qdisc replace dev net1 root pfifo limit 1"),
    trick(
        "a program that hears everything",
        // AF_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC
        "perl -e 'socket(S, 17, 3, 0x300) or die; $i = `ip -o link show net1`; $i =~ s/:.*//s;
             setsockopt(S, 263, 1, pack(q(iSSa8), $i, 1, 0, q())) or die $!; sleep 600' & sleep 0.5; hold",
    ),
    trick("a macvlan on it", "ip link add link net1 evil0 type macvlan mode bridge; ip link set evil0 up"),
    trick(
        "a namespace in the pod, which ends",
        "unshare --net sh -c 'echo ready >/run/nested-$$; sleep 1' & sleep 0.3; ip link set net1 netns $! && wait",
    ),
    trick(
        "a namespace in the pod, which lives",
        "unshare --net sleep 600 & sleep 0.5; ip link set net1 netns $!; hold",
    ),
    trick(
        "a namespace in the pod, with other names there",
        "unshare --net sleep 600 & sleep 0.5; ip link set net1 netns $! name evil0
         nsenter --net=/proc/$!/ns/net ip link property add dev evil0 altname eth1; hold",
    ),
];

const SYSCTLS: &str = "cd /proc/sys/net; echo 2 >ipv4/conf/net1/arp_ignore; echo 1 >ipv4/conf/net1/forwarding
    echo 1 >ipv6/conf/net1/disable_ipv6; echo 0 >ipv4/conf/net1/rp_filter; echo 1 >ipv4/neigh/net1/gc_stale_time";

/// Against a function of a card.
pub const FUNCTION: &[HostileAction] = &[
    trick("a unicast address besides", "bridge fdb add 02:66:66:66:66:68 dev net1 self"),
    trick("no checksums", "ethtool -K net1 tx off"),
    trick("no segmentation", "ethtool -K net1 tso off gso off"),
    trick("no aggregation", "ethtool -K net1 gro off"),
    trick("no scatter and gather", "ethtool -K net1 sg off"),
    trick("small rings", "ethtool -G net1 rx 96 tx 96"),
    trick("an interrupt for each packet", "ethtool -C net1 rx-usecs 0"),
    trick("messages", "ethtool -s net1 msglvl 0x7fff"),
    trick(
        "files of sysfs",
        "unshare --mount sh -ec 'mount -t sysfs none /sys; cd /sys/class/net/net1
         echo 20000 >gro_flush_timeout; echo 9 >napi_defer_hard_irqs; echo 1 >threaded'",
    ),
    trick(
        "a macvlan that takes it all",
        "ip link add link net1 evil0 type macvlan mode passthru; ip link set evil0 up",
    ),
    trick("a VLAN on it", "ip link add link net1 evil0 type vlan id 66; ip link set evil0 up"),
    trick(
        "a VLAN on it, elsewhere",
        "ip link add link net1 evil0 type vlan id 66; unshare --net sleep 600 & sleep 0.5; ip link set evil0 netns $!; hold",
    ),
    trick(
        "a bridge over it",
        "ip link add evil0 type bridge; ip link set net1 master evil0; ip link set evil0 up; ip link set net1 up",
    ),
    trick(
        "a bond over it",
        "ip link add evil0 type bond mode 1; ip link set net1 down; ip link set net1 master evil0; ip link set evil0 up",
    ),
    trick("a VRF over it", "ip link add evil0 type vrf table 66; ip link set net1 master evil0"),
    trick(
        "a VXLAN on it",
        "ip link add evil0 type vxlan id 6 dev net1 group 239.6.6.6 dstport 4789; ip link set evil0 up",
    ),
    trick(
        "a filter that drops all",
        "tc qdisc add dev net1 clsact; tc filter add dev net1 ingress matchall action drop",
    ),
    trick(
        "loss by a queueing discipline",
        "tc qdisc replace dev net1 root tbf rate 8kbit burst 1540 limit 3000",
    ),
    trick("a program in the driver's way", XDP),
];

/// Loads a program that drops every packet (BPF_PROG_LOAD, an XDP program of two instructions), pins it and puts it on the link.
const XDP: &str = "mount -t bpf none /sys/fs/bpf
    perl -e '$code = pack(q(CCsl) x 2, 0xb7, 0, 0, 1, 0x95, 0, 0, 0); $gpl = qq(GPL\\0);
             $fd = syscall(321, 5, $a = pack(q(LLQQLLQLL), 6, 2, unpack(q(Q), pack(q(p), $code)), unpack(q(Q), pack(q(p), $gpl)), 0, 0, 0, 0, 0) . qq(\\0) x 72, 120);
             die qq(load: $!) if $fd < 0; $path = qq(/sys/fs/bpf/evil\\0);
             syscall(321, 6, $b = pack(q(QLL), unpack(q(Q), pack(q(p), $path)), $fd, 0) . qq(\\0) x 104, 120) < 0 and die qq(pin: $!)'
    ip link set net1 xdpgeneric pinned /sys/fs/bpf/evil; rm /sys/fs/bpf/evil; umount /sys/fs/bpf";

/// Against the RDMA device that came along.
pub const RDMA_DEVICE: &[HostileAction] = &[
    trick("another name for the RDMA device", "rdma dev set $RDMA name evil0"),
    trick("no moderation of completions", MODERATION!("")),
    trick(
        "no moderation of completions, and home by a namespace that ends",
        MODERATION!(
            "unshare --net sleep 1 & sleep 0.3; ip netns attach nested $!; rdma dev set $RDMA netns nested; ip netns del nested; wait
             for n in $(seq 100); do nsenter --net=/proc/1/ns/net rdma dev show $RDMA >/dev/null 2>&1 && break; sleep 0.1; done"
        )
    ),
    trick(
        "an RDMA device in a namespace in the pod, which lives",
        "unshare --net sleep 600 & sleep 0.5; ip netns attach nested $!; rdma dev set $RDMA netns nested; ip netns del nested; hold",
    ),
];

/// Whose a pod's namespaces are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetnsOwner {
    /// The machine's root's, with `CAP_NET_ADMIN`.
    Machines,
    /// Those of a user namespace of the pod's own, where it has every capability.
    Own,
}

/// How a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodEnd {
    /// A DEL while all its processes live.
    DelFirst,
    /// It dies, and then comes the DEL.
    DiesFirst,
}

/// A trick under way.
#[derive(Debug)]
pub struct RunningAction {
    shell: Child,
}

impl HostileAction {
    /// Whether it lives on.
    pub fn holds(&self) -> bool {
        self.script.ends_with("hold")
    }

    /// Has the pod do it.
    ///
    /// # Errors
    /// That the kernel does not let it: then the trick proves nothing.
    pub fn play(&self, pod: &TestPod, rdma: &str) -> Result<RunningAction, String> {
        let (script, holds) = match self.script.strip_suffix("hold") {
            Some(script) => (script, true),
            None => (self.script, false),
        };
        let done = pod.path().with_file_name("trick-done");
        let _ = fs::remove_file(&done);
        let wait = if holds { "exec sleep 600" } else { "" };
        let script = format!("set -e\n{script}\necho >{}\n{wait}", done.display());
        let mut shell = pod.command("sh");
        shell.args(["-c", &script]).env("RDMA", rdma).stdout(Stdio::null());
        let mut shell = shell.process_group(0).spawn().unwrap();
        let mut ended = None;
        wait_until(self.name, || {
            ended = shell.try_wait().unwrap();
            done.exists() || ended.is_some()
        });
        if !done.exists() {
            return Err(format!("the kernel did not let the pod do it: {ended:?}"));
        }
        fs::remove_file(done).unwrap();
        if !holds {
            shell.wait().unwrap();
        }
        Ok(RunningAction { shell })
    }
}

impl Drop for RunningAction {
    fn drop(&mut self) {
        // The whole group: what it started holds the namespaces.
        let _ = Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.shell.id())])
            .stderr(Stdio::null())
            .status();
        let _ = self.shell.wait();
    }
}
