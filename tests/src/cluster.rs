//! The cluster network of a pod, which exists before Silkrail attaches a network.

use testkit::{Observe, TestPod};

/// A pod's cluster network: `eth0` with a default route of each family, as a cluster network plugin creates it.
#[derive(Debug)]
pub struct ClusterNetwork<'a> {
    pod: &'a TestPod,
    before: ClusterRoutes,
}

/// The output of `ip route` and `ip -6 route`, and the routes that the kernel selects for addresses outside the pod.
#[derive(Debug, PartialEq, Eq)]
struct ClusterRoutes {
    listed: Vec<String>,
    chosen: Vec<String>,
}

impl<'a> ClusterNetwork<'a> {
    /// Creates the network of a pod. The other end of the veth pair is in the pod `far`.
    pub fn of(pod: &'a TestPod, far: &TestPod) -> Self {
        Self::with(pod, far, "", "")
    }

    /// Creates the network of a pod, with further arguments of `ip route add` for the default routes of IPv4 and IPv6.
    pub fn with(pod: &'a TestPod, far: &TestPod, v4: &str, v6: &str) -> Self {
        pod.cable("eth0", far, "cali0");
        pod.run_ip("address add 10.244.1.5/24 dev eth0");
        pod.run_ip("address add fd00:244::5/64 dev eth0 nodad");
        pod.run_ip(format!("route add default via 10.244.1.1 dev eth0 {v4}").trim_end());
        pod.run_ip(format!("-6 route add default via fd00:244::1 dev eth0 {v6}").trim_end());
        Self { pod, before: ClusterRoutes::of(pod) }
    }

    /// Checks that all former routes are unchanged and in the same order, and that the kernel selects the same routes. Other
    /// routes may exist.
    ///
    /// # Panics
    /// If a route has changed.
    pub fn is_as_before(&self) {
        let now = ClusterRoutes::of(self.pod);
        let kept: Vec<_> = now.listed.iter().filter(|route| self.before.listed.contains(route)).collect();
        assert_eq!(kept, self.before.listed.iter().collect::<Vec<_>>(), "{now:#?}");
        assert_eq!(now.chosen, self.before.chosen, "{now:#?}");
    }

    /// Checks that there are no other routes.
    ///
    /// # Panics
    /// If there is another route.
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
        // The kernel adds the route to link-local addresses with each link, and removes it with the link.
        let mut listed = [lines("route"), lines("-6 route")].concat();
        listed.retain(|route| !route.starts_with("fe80::/64 "));
        let foreign = ["route get 192.0.2.1", "route get 10.96.0.1", "route get 10.244.2.5"];
        let foreign_v6 =
            ["-6 route get 2001:db8::1", "-6 route get fd00:10:96::a", "-6 route get fd00:10:244::5"];
        Self { listed, chosen: foreign.into_iter().chain(foreign_v6).flat_map(lines).collect() }
    }
}
