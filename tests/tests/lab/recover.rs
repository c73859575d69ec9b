//! `silkrail recover` and `silkrail tune`: the plan, and the changes with `--yes`.

use std::fs;

use serde_json::json;
use silkrail_tests::{
    chain::Chain,
    cli,
    machine::{LabMachine, set_vfs},
};
use testkit::Observe;

fn recover(machine: &LabMachine, args: &str) -> cli::CommandOutput {
    cli::silkrail(&format!("recover {args} --state-dir {}", machine.node.state_dir().display()))
}

#[test]
fn a_broken_function_is_recovered_by_the_least_invasive_step() {
    let machine = LabMachine::shared();
    let vf = machine.vf("eth0", 1);
    let state = || machine.node.link(&vf.link).unwrap();
    machine.node.run_ip(&format!("link set {} down", vf.link));
    let plan = recover(&machine, &vf.rdma).ended(0);
    assert!(plan.stdout.contains("its link is down") && plan.stdout.contains("nothing was done"), "{plan:?}");
    assert_eq!(state()["operstate"], "DOWN");
    let done = recover(&machine, &format!("{} --yes --json", vf.link)).ended(0).json();
    assert_eq!((&done["steps"], &done["left"]), (&json!(["set the link up"]), &json!([])));
    assert!(state()["flags"].as_array().unwrap().contains(&json!("LOWER_UP")));
    let healthy = recover(&machine, &format!("{} --yes", vf.link)).ended(0);
    assert!(healthy.stdout.contains("no problem found"), "{healthy:?}");

    fs::write(format!("/sys/bus/pci/devices/{}/driver/unbind", vf.pci), &vf.pci).unwrap();
    let plan = recover(&machine, &vf.pci).ended(0);
    assert!(plan.stdout.contains("no driver is bound to it"), "{plan:?}");
    recover(&machine, &format!("{} --yes", vf.pci)).ended(0);
    let now = machine.vf("eth0", 1);
    assert!(!now.link.is_empty() && !now.rdma.is_empty(), "{now:?}");

    let reset = recover(&machine, &format!("{} --by reset --yes --json", vf.pci)).ended(0).json();
    let steps = ["unbind the driver", "reset the function", "bind the driver", "set the link up"];
    assert_eq!(reset["steps"], json!(steps));
    assert!(!machine.vf("eth0", 1).rdma.is_empty());
    let unknown = recover(&machine, "mlx5_99").ended(2);
    assert!(unknown.stderr.contains("no function \"mlx5_99\""), "{unknown:?}");
    // Other tests need VFs in their initial state.
    set_vfs(0, &["eth0"]);
}

#[test]
fn a_function_in_use_is_not_recovered() {
    let machine = LabMachine::exclusive();
    let (vf, netns) = (machine.vf("eth0", 2), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &netns, json!({}));
    let result = chain.add();
    for function in [&*vf.pci, "eth0"] {
        let refused = recover(&machine, &format!("{function} --by rebind --yes")).ended(3);
        assert!(refused.stdout.contains("attachment "), "{refused:?}");
    }
    chain.check(&result);
    chain.del();
}

#[test]
fn settings_are_applied_and_reverted() {
    let machine = LabMachine::shared();
    let thresh = || machine.node.run("sysctl", &["-n", "net.ipv4.neigh.default.gc_thresh1"]);
    let before = thresh();
    cli::silkrail("tune check").ended(6);
    cli::silkrail("tune apply").ended(0);
    assert_eq!(thresh(), before, "nothing is changed without --yes");
    let done = cli::silkrail("tune apply --yes --json").ended(0).json();
    let set = done["changes"].as_array().unwrap();
    assert!(set.iter().all(|change| change["error"].is_null()), "{done}");
    assert_eq!(thresh().trim(), "4096");
    cli::silkrail("tune check").ended(0);
    cli::silkrail("tune revert --yes").ended(0);
    assert_eq!(thresh(), before);
    assert!(!fs::exists("/etc/sysctl.d/90-silkrail.conf").unwrap());
}
