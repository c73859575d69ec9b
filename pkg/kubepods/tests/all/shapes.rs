//! Every form of `/proc/<pid>/cgroup` that runtimes and kubelet create, and similar texts that do not belong to a pod.

use kubepods::{PodMembership, cgroup_path, membership};

const UID: &str = "8a2f0c3e-1b4d-4e5f-9a6b-7c8d9e0f1a2b";
const OTHER: &str = "11111111-2222-3333-4444-555555555555";
const HASH: &str = "0b1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f";
const ID: &str = "5f3d0c1b2a49586778695a4b3c2d1e0f5f3d0c1b2a49586778695a4b3c2d1e0f";

/// Replaces `UID`, `SLICE` (the UID with `_` instead of `-`), `OTHER`, `HASH` and `ID` by the values above.
fn filled(text: &str) -> String {
    let text = text.replace("SLICE", &UID.replace('-', "_")).replace("UID", UID);
    text.replace("OTHER", OTHER).replace("HASH", HASH).replace("ID", ID)
}

fn found(text: &str) -> Option<(String, Option<String>)> {
    membership(&filled(text)).map(|PodMembership { pod, container }| (pod.to_string(), container))
}

#[test]
fn a_container_of_a_pod_is_found_in_every_shape() {
    let shapes = [
        (
            "v2 systemd containerd",
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podSLICE.slice/cri-containerd-ID.scope\n",
        ),
        (
            "v2 systemd crio",
            "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podSLICE.slice/crio-ID.scope\n",
        ),
        (
            "v2 systemd crio nested",
            "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podSLICE.slice/crio-ID.scope/container\n",
        ),
        (
            "v2 systemd docker",
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podSLICE.slice/docker-ID.scope\n",
        ),
        ("v2 systemd guaranteed", "0::/kubepods.slice/kubepods-podSLICE.slice/cri-containerd-ID.scope\n"),
        ("v2 cgroupfs", "0::/kubepods/burstable/podUID/ID\n"),
        ("v2 cgroupfs guaranteed", "0::/kubepods/podUID/ID\n"),
        ("v2 cgroupfs besteffort, nested by the pod", "0::/kubepods/besteffort/podUID/ID/init.scope/a b:c\n"),
        ("no newline", "0::/kubepods/podUID/ID"),
        (
            "v1 cgroupfs",
            "12:rdma:/kubepods/burstable/podUID/ID\n5:cpu,cpuacct:/kubepods/burstable/podUID/ID\n0::/system.slice/containerd.service\n",
        ),
        (
            "v1, some controllers at their root",
            "9:name=systemd:/\n8:pids:/\n4:memory:/kubepods/podUID/ID\n0::/\n",
        ),
        ("v1 systemd", "1:name=systemd:/kubepods.slice/kubepods-podSLICE.slice/docker-ID.scope\n"),
        (
            "kind, from the host, systemd",
            "0::/system.slice/docker-OTHERnode.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podSLICE.slice/cri-containerd-ID.scope\n",
        ),
        (
            "kind, from its node, systemd",
            "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podSLICE.slice/cri-containerd-ID.scope\n",
        ),
        ("kind, cgroupfs", "0::/docker/0123abcd/kubelet/kubepods/besteffort/podUID/ID\n"),
        ("k3s in a container", "0::/k3s/kubepods/burstable/podUID/ID\n"),
        (
            "a runtime without SystemdCgroup",
            "0::/system.slice/containerd.service/kubepods-burstable-podSLICE.slice:cri-containerd:ID\n",
        ),
        ("the same at the root", "0::/kubepods-podSLICE.slice:cri-containerd:ID\n"),
        (
            "cgroup namespace, all shown",
            "0::/../../../../kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podSLICE.slice/cri-containerd-ID.scope\n",
        ),
        ("cgroup namespace, cgroupfs", "0::/../../../../kubepods/burstable/podUID/ID\n"),
        (
            "cgroup namespace, a neighbour, systemd",
            "0::/../../kubepods-burstable-podSLICE.slice/cri-containerd-ID.scope\n",
        ),
        ("cgroup namespace, a neighbour, cgroupfs", "0::/../../podUID/ID\n"),
        ("cgroup namespace, another QoS", "0::/../../../besteffort/podUID/ID\n"),
        ("a process that outlives its cgroup", "0::/kubepods/podUID/ID (deleted)\n"),
        ("upper-case letters", "0::/kubepods/pod8A2F0C3E-1B4D-4E5F-9A6B-7C8D9E0F1A2B/ID\n"),
    ];
    for (shape, text) in shapes {
        assert_eq!(found(text), Some((UID.to_owned(), Some(ID.to_owned()))), "{shape}: {text}");
    }
}

#[test]
fn a_static_pod_keeps_its_hash() {
    for text in [
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podHASH.slice/cri-containerd-ID.scope\n",
        "0::/kubepods/burstable/podHASH/ID\n",
        "11:memory:/kubepods/podHASH/ID\n",
    ] {
        assert_eq!(found(text), Some((HASH.to_owned(), Some(ID.to_owned()))), "{text}");
    }
}

#[test]
fn a_process_of_a_pod_outside_its_containers_has_no_container_id() {
    for text in [
        "0::/kubepods/burstable/podUID\n",
        "0::/kubepods/burstable/podUID (deleted)\n",
        "0::/kubepods/podUID/kata_overhead\n",
        "0::/kubepods.slice/kubepods-podSLICE.slice/crio-conmon-ID.scope\n",
        "0::/kubepods/podUID/init.scope\n",
        "0::/kubepods/podUID/../ID\n",
    ] {
        assert_eq!(found(text), Some((UID.to_owned(), None)), "{text}");
    }
}

#[test]
fn the_outermost_pod_is_the_owner() {
    for text in [
        "0::/kubepods/podUID/ID/kubepods/burstable/podOTHER/ID\n",
        "0::/kubepods/podUID/ID/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podHASH.slice/x\n",
    ] {
        assert_eq!(found(text), Some((UID.to_owned(), Some(ID.to_owned()))), "{text}");
    }
}

#[test]
fn similar_names_are_not_pods() {
    for text in [
        "",
        "\n",
        "0::/\n",
        "0::\n",
        "0\n",
        "0::/system.slice/sshd.service\n",
        "0::/machine.slice/libpod-ID.scope\n",
        "0::/machine.slice/libpod_pod_ID.slice/libpod-ID.scope/container\n",
        "0::/podUID/ID\n",
        "0::/burstable/podUID/ID\n",
        "0::/data/podUID\n",
        "0::/kubepods/mypodUID/ID\n",
        "0::/kubepods/tmp/podUID/ID\n",
        "0::/kubepods/burstable/besteffort/podUID/ID\n",
        "0::/my/burstable/podUID/ID\n",
        "0::/mykubepods/podUID/ID\n",
        "0::/kubepods/podUIDx/ID\n",
        "0::/kubepods/pod/UID/ID\n",
        "0::/kubepods-podSLICE/ID\n",
        "0::/kubepods-podSLICE.slicex/ID\n",
        "0::/mykubepods-podSLICE.slice/ID\n",
        "0::/system.slice/my-podSLICE.slice/ID\n",
        "0::/kubepods-podSLICE.service/ID\n",
        "0::kubepods/podUID/ID\n",
        "0::/../../user/podUID/ID\n",
        "0::/../a/../kubepods/podUID/ID\n",
        "kubepods/podUID\n",
    ] {
        assert_eq!(found(text), None, "{text:?}");
    }
}

#[test]
fn a_cgroup_in_user_slice_is_never_a_pod() {
    for text in [
        "0::/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-podSLICE.slice/x.scope\n",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/kubepods/burstable/podUID/ID\n",
        "0::/../../../user.slice/user-1000.slice/user@1000.service/kubepods/podUID/ID\n",
    ] {
        assert_eq!(found(text), None, "{text}");
    }
}

#[test]
fn a_process_of_the_node_has_the_path_that_systemd_shows() {
    let slurm = "/system.slice/slurmstepd.scope/job_17/step_0";
    for (text, path) in [
        ("0::/system.slice/slurmstepd.scope/job_17/step_0\n", Some(slurm)),
        (
            "5:cpu,cpuacct:/other\n1:name=systemd:/system.slice/slurmstepd.scope/job_17/step_0\n0::/\n",
            Some(slurm),
        ),
        ("1:name=systemd:/other\n0::/system.slice/slurmstepd.scope/job_17/step_0\n", Some(slurm)),
        ("5:cpu,cpuacct:/other\n0::/\n", Some("/")),
        ("0::/a:b\n", Some("/a:b")),
        ("5:cpu,cpuacct:/other\n", None),
        ("", None),
    ] {
        assert_eq!(cgroup_path(text), path, "{text:?}");
    }
}
