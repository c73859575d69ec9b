//! State of a VF and its RDMA device that is from a former boot, damaged, or cannot be written.

use std::{fs, path::PathBuf};

use serde_json::json;
use testkit::{Observe, wait_until};

use silkrail_tests::{chain::Chain, machine::LabMachine, reboot::age};

#[test]
fn invariant_10_state_of_the_chain_from_before_a_reboot_is_ignored() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, first, second) = (machine.vf("eth0", 0), machine.node.pod("a"), machine.node.pod("b"));
    let old = Chain::new(&machine, &vf, &first, json!({"vlan": 5})).container("old");
    let new = Chain::new(&machine, &vf, &second, json!({"vlan": 6})).container("new");
    let state = || machine.node.snapshot().state().iter().filter(|file| !file.starts_with("ipam/")).count();
    let reboot = || {
        old.add();
        age(&machine.node);
        // A reboot also returns the VF to the host in its initial state.
        machine.node.run_ip("netns attach host 1");
        first.run("rdma", &["dev", "set", &vf.rdma, "netns", "host"]);
        first.run_ip("link set net1 down");
        first.run_ip(&format!("link set net1 name {} netns host", vf.link));
        machine.node.run_ip("netns delete host");
        machine.node.run_ip(&format!("link set eth0 vf {} vlan 0", vf.index));
    };

    // DEL removes the state and changes nothing else, not even a VLAN that could be the pod's.
    reboot();
    machine.node.run_ip(&format!("link set eth0 vf {} vlan 9", vf.index));
    old.del();
    assert_eq!(state(), 0);
    assert_eq!(machine.vf_info(&vf)["vlan_list"][0]["vlan"], 9);
    machine.node.run_ip(&format!("link set eth0 vf {} vlan 0", vf.index));

    // ADD ignores the state; the late DEL does not change the new pod.
    reboot();
    let result = new.add();
    let held = machine.node.snapshot();
    old.del();
    let after = machine.node.snapshot();
    assert!(!after.difference(&held).contains("+ "), "{}", after.difference(&held));
    new.check(&result);
    new.del();
    assert_eq!(state(), 0);

    // GC removes the state.
    reboot();
    for call in [old.sriov(), old.rdma()] {
        call.with("cni.dev/valid-attachments", &json!([])).gc().done();
    }
    assert_eq!(state(), 0);
    drop((first, second));
    fs::remove_dir_all(machine.node.state_dir().join("ipam")).unwrap();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_2_del_of_the_chain_succeeds_with_damaged_claims() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 1);
    let precious = machine.node.state_dir().with_file_name("precious");
    fs::write(&precious, "precious").unwrap();
    let damages: [&dyn Fn(&PathBuf); 7] = [
        &|file| fs::write(file, "").unwrap(),
        &|file| fs::write(file, &fs::read(file).unwrap()[..40]).unwrap(),
        &|file| fs::write(file, "\0\u{7f}garbage").unwrap(),
        &|file| fs::write(file, r#"{"version": 2, "holders": []}"#).unwrap(),
        &|file| std::os::unix::fs::symlink(&precious, remove(file)).unwrap(),
        &|file| fs::create_dir(remove(file)).unwrap(),
        &|file| drop(machine.node.run("mkfifo", &[remove(file)])),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 5}));
        chain.add();
        for part in ["vf", "rdma"] {
            damage(&machine.node.state_dir().join(part).join(&vf.pci));
        }
        for (call, part) in [(chain.rdma(), "rdma"), (chain.sriov(), "vf")] {
            let answer = call.del();
            answer.done();
            let dir = machine.node.state_dir().join(part);
            let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(names.iter().all(|path| !path.ends_with(&vf.pci)), "{number}: {names:?}");
            assert_eq!(names.len(), 1, "{number}: the quarantined file is kept: {names:?}");
            assert!(
                answer.stderr.contains("level=warn") && answer.stderr.contains(&vf.pci),
                "{number}: {answer:?}"
            );
            machine.node.run("rm", &["-r", dir.to_str().unwrap()]);
        }
        drop(pod);
        machine.node.snapshot().assert_is(&before);
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }
}

fn remove(file: &PathBuf) -> &PathBuf {
    fs::remove_file(file).unwrap();
    file
}

#[test]
fn invariant_3_an_unreadable_claim_does_not_release_the_vf_of_a_pod() {
    let machine = LabMachine::exclusive();
    let (vf, first, second) = (machine.vf("eth0", 2), machine.node.pod("a"), machine.node.pod("b"));
    let chain = Chain::new(&machine, &vf, &first, json!({"vlan": 5}));
    let result = chain.add();
    for part in ["vf", "rdma"] {
        fs::write(machine.node.state_dir().join(part).join(&vf.pci), "garbage").unwrap();
    }
    let other = Chain::new(&machine, &vf, &second, json!({"vlan": 6})).container("other");
    other.sriov().add().error(11).says(&[&vf.pci]);
    assert_eq!(machine.vf_info(&vf)["vlan_list"][0]["vlan"], 5);
    assert_eq!(first.link("net1").unwrap()["parentdev"], vf.pci);
    assert_eq!(result["interfaces"][0]["pciID"], vf.pci);
    chain.del();
    assert_eq!(machine.vf("eth0", 2).link, vf.link);
}

#[test]
fn invariant_2_del_of_the_chain_succeeds_with_damaged_journals_and_the_next_pod_gets_the_vf() {
    let machine = LabMachine::exclusive();
    let (vf, first, second) = (machine.vf("eth0", 3), machine.node.pod("a"), machine.node.pod("b"));
    let chain = Chain::new(&machine, &vf, &first, json!({}));
    chain.add();
    for entry in fs::read_dir(machine.node.state_dir().join("attachments")).unwrap() {
        fs::write(entry.unwrap().path(), "garbage").unwrap();
    }
    chain.del();
    assert!(machine.node.snapshot().claims().is_empty());
    first.end();
    wait_until("the VF is on the host", || !machine.vf("eth0", 3).link.is_empty());
    let new = Chain::new(&machine, &vf, &second, json!({})).container("new");
    let result = new.add();
    new.check(&result);
    new.del();
    let link = machine.vf("eth0", 3).link;
    machine.node.run_ip(&format!("link set {link} name {}", vf.link));
}

#[test]
fn invariant_1_a_chain_without_disk_space_at_any_step_leaves_nothing() {
    let machine = LabMachine::exclusive();
    let state = machine.node.state_dir().display().to_string();
    let (vf, pod) = (machine.vf("eth0", 4), machine.node.pod("a"));
    let mut failed = 0;
    for inodes in 1.. {
        machine
            .node
            .run("mount", &["-t", "tmpfs", "-o", &format!("nr_inodes={inodes},mode=755"), "tmpfs", &state]);
        let before = machine.node.snapshot();
        let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 5, "trust": "on"}));
        let sriov = chain.sriov().add();
        let rdma = sriov.status.success().then(|| chain.rdma().with("prevResult", &sriov.ok()).add());
        let last = rdma.as_ref().unwrap_or(&sriov);
        let done = last.status.success();
        if !done {
            last.error(5).says(&["No space left on device", "free space"]);
            failed += 1;
        }
        // DEL runs while the file system is still full.
        chain.del();
        machine.node.snapshot().assert_is(&before);
        machine.node.run("umount", &[&state]);
        if done {
            break;
        }
    }
    assert!(failed > 5, "only {failed} sizes were too small");
}
