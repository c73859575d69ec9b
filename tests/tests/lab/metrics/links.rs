//! Upper and lower links of the link of an RDMA port.

use silkrail_tests::{daemon::Daemon, machine::LabMachine, scrape::Scrape};
use testkit::Observe;

fn scrape(machine: &LabMachine) -> (Daemon, Scrape) {
    let daemon = Daemon::start(&["--state-dir", machine.node.state_dir().to_str().unwrap()]);
    let scrape = daemon.scrape();
    (daemon, scrape)
}

/// Returns the label `netdev` of a device's port.
fn link(scrape: &Scrape, device: &str) -> String {
    let [info] = scrape.of("rdma_port_info", &[("device", device)])[..] else { panic!("{device}") };
    info.label("netdev").to_owned()
}

// The upper links have the MAC address of the port's link.
#[test]
fn the_link_of_a_port_is_the_one_reported_by_the_kernel_despite_upper_links() {
    let machine = LabMachine::shared();
    let node = &machine.node;
    // Names that sort before and after that of the port's link, for any order of a search by MAC address.
    node.run_ip("link add link eth1 name a0 type vlan id 7");
    node.run_ip("link add link eth1 name z0 type macvlan mode passthru");
    let (_daemon, scrape) = scrape(&machine);
    let seen = link(&scrape, "mlx5_1");
    let count = scrape.of("rdma_port_info", &[("device", "mlx5_1")]).len();
    for name in ["a0", "z0"] {
        node.run_ip(&format!("link delete {name}"));
    }
    assert_eq!((seen.as_str(), count), ("eth1", 1));
}

// The RDMA device of a card that bonds in hardware has the bond as its link, which has no ethtool statistics. The test
// simulates it by the kernel's software RoCE on a bond.
#[test]
fn a_port_on_a_bond_has_the_sum_of_its_members_statistics() {
    let machine = LabMachine::shared();
    let (node, members) = (&machine.node, [machine.vf("eth1", 0), machine.vf("eth1", 1)]);
    node.run("modprobe", &["rdma_rxe"]);
    node.run_ip("link add bond0 type bond mode active-backup fail_over_mac active");
    for member in &members {
        node.run_ip(&format!("link set {} down", member.link));
        node.run_ip(&format!("link set {} master bond0", member.link));
    }
    node.run_ip("link set bond0 up");
    node.run("rdma", &["link", "add", "rxe_bond", "type", "rxe", "netdev", "bond0"]);
    let _set: Vec<_> = members
        .iter()
        .zip(["5", "7"])
        .map(|(member, frames)| machine.simulate(&member.pci, "ethtool/rx_prio3_pause", frames))
        .collect();
    let (daemon, scrape) = scrape(&machine);
    node.run("rdma", &["link", "delete", "rxe_bond"]);
    node.run_ip("link delete bond0");

    assert_eq!(link(&scrape, "rxe_bond"), "bond0");
    let of_bond = [("device", "rxe_bond"), ("port", "1"), ("priority", "3")];
    assert_eq!(scrape.value("rdma_rx_pause_total", &of_bond), "12");
    assert_eq!(scrape.value("rdma_rx_pause_total", &[("device", &members[0].rdma), ("priority", "3")]), "5");
    assert_eq!(scrape.value("rdma_scrape_collector_success", &[("collector", "ethtool")]), "1");
    assert!(!daemon.log().contains("WARN"), "{}", daemon.log());
}
