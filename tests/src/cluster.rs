//! The network that a pod has before ours: the cluster's.

use testkit::{Observe, TestPod};

/// A pod's cluster network: `eth0` with a default route of each family, as its plugin leaves it.
#[derive(Debug)]
pub struct ClusterNetwork<'a> {
    pod: &'a TestPod,
    before: ClusterRoutes,
}

/// What `ip route` and `ip -6 route` print, and over which link foreign addresses are reached.
#[derive(Debug, PartialEq, Eq)]
struct ClusterRoutes {
    listed: Vec<String>,
    chosen: Vec<String>,
}

impl<'a> ClusterNetwork<'a> {
    /// Gives a pod its network. The far ends of cables are in a pod of their own.
    pub fn of(pod: &'a TestPod, far: &TestPod) -> Self {
        Self::with(pod, far, "", "")
    }

    /// The same; this is added to the default route of IPv4, and of IPv6.
    pub fn with(pod: &'a TestPod, far: &TestPod, v4: &str, v6: &str) -> Self {
        pod.cable("eth0", far, "cali0");
        pod.run_ip("address add 10.244.1.5/24 dev eth0");
        pod.run_ip("address add fd00:244::5/64 dev eth0 nodad");
        pod.run_ip(format!("route add default via 10.244.1.1 dev eth0 {v4}").trim_end());
        pod.run_ip(format!("-6 route add default via fd00:244::1 dev eth0 {v6}").trim_end());
        Self { pod, before: ClusterRoutes::of(pod) }
    }

    /// Every route that was there is as it was, in the same order, and traffic goes where it went. There may be others.
    ///
    /// # Panics
    /// If not.
    pub fn is_as_before(&self) {
        let now = ClusterRoutes::of(self.pod);
        let kept: Vec<_> = now.listed.iter().filter(|route| self.before.listed.contains(route)).collect();
        assert_eq!(kept, self.before.listed.iter().collect::<Vec<_>>(), "{now:#?}");
        assert_eq!(now.chosen, self.before.chosen, "{now:#?}");
    }

    /// Nothing else is there either.
    ///
    /// # Panics
    /// If there is.
    pub fn is_alone(&self) {
        assert_eq!(ClusterRoutes::of(self.pod), self.before);
    }
}

impl ClusterRoutes {
    fn of(pod: &TestPod) -> Self {
        let lines = |args: &str| -> Vec<String> {
            let text = pod.run("ip", &args.split(' ').collect::<Vec<_>>());
            text.lines().map(|line| line.trim().to_owned()).collect()
        };
        // The kernel's own route to link-local addresses, which every link has, comes and goes with the link.
        let mut listed = [lines("route"), lines("-6 route")].concat();
        listed.retain(|route| !route.starts_with("fe80::/64 "));
        let foreign = ["route get 192.0.2.1", "route get 10.96.0.1", "route get 10.244.2.5"];
        let foreign_v6 =
            ["-6 route get 2001:db8::1", "-6 route get fd00:10:96::a", "-6 route get fd00:10:244::5"];
        Self { listed, chosen: foreign.into_iter().chain(foreign_v6).flat_map(lines).collect() }
    }
}
