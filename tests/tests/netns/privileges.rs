//! The privileges that the plugins need, and operations that they never do.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::json;
use testkit::{Call, Observe};

use silkrail_tests::rail::{RailNode, ipam, pool};

/// The same call with only these capabilities of root's.
fn with_only(call: &Call, capabilities: &str) -> Call {
    call.clone().under(&["setpriv", "--bounding-set", &format!("-all{capabilities}")])
}

#[test]
fn two_capabilities_are_enough_and_each_of_them_is_needed() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({"mtu": 1400, "mac": "c2:11:22:33:44:55"}));
    for too_few in ["", ",+net_admin", ",+sys_admin"] {
        let refusal = with_only(&call, too_few).add().refusal();
        assert!(refusal.msg.contains("not permitted"), "{too_few}: {refusal:?}");
        rail.node.snapshot().assert_is(&before);
    }
    let enough = with_only(&call, ",+net_admin,+sys_admin");
    enough.status().done();
    let result = enough.add().ok();
    assert_eq!(rail.pod.link("net1").unwrap()["mtu"], 1400);
    assert_eq!(rail.pod.sysctl("net/ipv4/conf/net1/arp_notify"), "1");
    enough.check_after(&result).done();
    enough
        .with("cni.dev/valid-attachments", &json!([{"containerID": "c0ffee", "ifname": "net1"}]))
        .gc()
        .done();
    enough.del().done();
    rail.node.snapshot().assert_is(&before);
}

/// The mode of a directory and of every file and directory below it, except symbolic links.
fn modes(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mut modes = vec![(dir.to_owned(), fs::metadata(dir).unwrap().permissions().mode() & 0o7777)];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            modes.extend(self::modes(&path));
        } else {
            modes.push((path.clone(), fs::metadata(&path).unwrap().permissions().mode() & 0o7777));
        }
    }
    modes
}

#[test]
fn state_is_readable_by_root_only_and_the_pod_map_by_every_user() {
    let rail = RailNode::new();
    for umask in ["0", "022"] {
        let script = format!("umask {umask}; exec \"$0\"");
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=a;K8S_POD_UID=1111-2222";
        fs::remove_dir(rail.node.state_dir()).unwrap();
        let call = rail.macvlan(&json!({})).args(args).under(&["sh", "-c", &script]);
        call.add().ok();
        let found = modes(&rail.node.state_dir());
        assert!(found.len() > 10, "{found:?}");
        for (path, mode) in found {
            let below = path.strip_prefix(rail.node.state_dir()).unwrap();
            let open = below.as_os_str().is_empty() || below.starts_with("podmap");
            let expected = match (open, path.is_dir()) {
                (true, true) => 0o755,
                (true, false) => 0o644,
                (false, true) => 0o700,
                (false, false) => 0o600,
            };
            assert_eq!(mode, expected, "{} is {mode:o} with umask {umask}", path.display());
        }
        call.del().done();
        fs::remove_dir_all(rail.node.state_dir()).unwrap();
        fs::create_dir(rail.node.state_dir()).unwrap();
    }
}

/// The files next to the state directory.
fn surroundings(rail: &RailNode) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        modes(rail.node.state_dir().parent().unwrap()).into_iter().map(|(path, _)| path).collect();
    found.retain(|path| {
        !path.starts_with(rail.node.state_dir()) && !path.starts_with("/run/silkrail-test/netns")
    });
    found
}

#[test]
fn no_name_from_the_input_becomes_a_path() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    let before = surroundings(&rail);
    let long = "x".repeat(300);
    let hostile =
        ["..", "../escaped", "a/../../escaped", "/run/silkrail-test/escaped", ".hidden/x", "a\nb", &long];
    for name in hostile {
        call.clone().container(name).add().error(4);
        call.clone().container(name).del().error(4);
        call.clone().ifname(name).add().error(4);
        call.clone().ifname(name).del().error(4);
        let named =
            rail.macvlan(&json!({"ipam": {"type": "silkrail-ipam", "pools": [pool(name, &["10.7.0.10"])]}}));
        named.add().error(7);
        named.del().done();
        rail.macvlan(&json!({"ipam": {"type": name}})).add().refusal();
        // The names of a pod are not restricted: they are reported, and are not used as file names.
        let args = format!("IgnoreUnknown=1;K8S_POD_UID={name};K8S_POD_NAME={name};K8S_POD_NAMESPACE={name}");
        let pods = call.clone().args(&args);
        pods.add().ok();
        pods.del().done();
    }
    let device = rail.node.plugin("sriov");
    for name in hostile {
        let conf = json!({"cniVersion": "1.1.0", "name": "rail", "type": "sriov", "deviceID": name});
        device.clone().conf(&conf).pod(&rail.pod).add().error(7);
    }
    assert_eq!(surroundings(&rail), before);
    assert!(rail.node.snapshot().state().is_empty(), "{:?}", rail.node.snapshot().state());
}

#[test]
fn unknown_keys_arguments_and_variables_are_never_logged() {
    let rail = RailNode::new();
    let file = rail.node.log_file("log");
    let mut output = String::new();
    let mut collect = |answer: testkit::Answer| {
        output += &answer.stdout;
        output += &answer.stderr;
        answer
    };
    for log in [json!({"logLevel": "debug"}), json!({"logLevel": "debug", "logFile": file})] {
        let mut more = log;
        more["token"] = json!("hush-1");
        more["args"] = json!({"cni": {"password": "hush-2"}});
        more["ipam"] = ipam(&["10.7.0.10"]);
        more["ipam"]["secret"] = json!("hush-3");
        let args = "IgnoreUnknown=1;SECRET=hush-4;K8S_POD_NAME=a";
        let call = rail.macvlan(&more).args(args).env("HTTP_TOKEN", "hush-5");
        let result = collect(call.add()).ok();
        let _ = collect(call.add()).error(102);
        collect(call.check_after(&result)).done();
        let other = rail.node.pod("b");
        let _ = collect(call.clone().container("b").pod(&other).add()).error(101);
        collect(call.del()).done();
        let _ = collect(call.with("mode", &json!("foo")).add()).error(7);
        let _ = collect(call.with("mtu", &json!("x")).status()).error(7);
        collect(call.with("cni.dev/valid-attachments", &json!([])).gc()).done();
    }
    output += &fs::read_to_string(&file).unwrap();
    assert!(output.contains("msg=\"ADD\"") && output.contains("cniName=macvlan"), "{output}");
    assert!(!output.contains("hush"), "{output}");
}

#[test]
fn plugins_write_only_state_and_sysctls_and_communicate_only_with_the_kernel() {
    let rail = RailNode::new();
    let file = rail.node.state_dir().with_file_name("calls");
    let call = rail.macvlan(&json!({}));
    let strace = ["strace", "-fy", "-etrace=?open,openat,socket,execve,mount", "-o", file.to_str().unwrap()];
    let traced = call.clone().under(&strace);
    let mut text = String::new();
    let result = traced.add().ok();
    text += &fs::read_to_string(&file).unwrap();
    traced.check_after(&result).done();
    text += &fs::read_to_string(&file).unwrap();
    traced.del().done();
    text += &fs::read_to_string(&file).unwrap();
    let lines = |what: &str| text.lines().filter(|line| line.contains(what)).collect::<Vec<_>>();
    assert!(lines("socket(").len() > 3, "{text}");
    assert!(lines("socket(").iter().all(|line| line.contains("AF_NETLINK")), "{text}");
    assert_eq!(lines("execve(").len(), 3, "only the plugin itself is executed: {text}");
    assert!(lines("mount(").is_empty(), "{text}");
    let state = rail.node.state_dir().display().to_string();
    let written: Vec<_> =
        text.lines().filter(|l| ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|f| l.contains(f))).collect();
    assert!(written.len() > 3, "{text}");
    for line in written {
        assert!(line.contains(&state) || line.contains("\"/proc/sys/net/ip"), "{line}");
    }
}
