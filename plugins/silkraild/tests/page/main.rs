//! The page in a real browser, served by the real executable.
//!
//! A node without RDMA is the test machine. Devices and pods come from recordings of silkraild in the lab's virtual machine
//! (`record` in this directory), because a browser is twenty times slower there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod browser;
mod daemon;
mod replay;

use serde_json::Value;

use crate::{browser::Page, daemon::PageDaemon, replay::Replay};

const SHARED: [&str; 2] = [include_str!("shared-1.json"), include_str!("shared-2.json")];
const EXCLUSIVE: [&str; 2] = [include_str!("exclusive-1.json"), include_str!("exclusive-2.json")];

fn recorded(recordings: [&str; 2]) -> [Value; 2] {
    recordings.map(|text| serde_json::from_str(text).unwrap())
}

/// Opens the page with recordings, after changing them.
fn shown(recordings: [&str; 2], change: impl Fn(&mut Value)) -> Page {
    let mut responses = recorded(recordings);
    responses.iter_mut().for_each(change);
    let daemon = PageDaemon::start();
    let replay = Replay::start(&daemon, &responses);
    Page::open(&replay.url())
}

#[test]
fn a_node_without_rdma_gets_instructions() {
    let daemon = PageDaemon::start();
    let page = Page::open(&daemon.url("/"));
    page.says("Live");
    page.says("The kernel of this node does not support RDMA");
    page.says("modprobe mlx5_ib");
    page.says("No pod of this node has an RDMA device");
    assert!(page.title().starts_with("node-1"), "{}", page.title());
}

#[test]
fn in_shared_mode_pods_are_shown_with_their_gids_and_objects() {
    let page = shown(SHARED, |_| ());
    page.says("shared RDMA mode");
    page.row("mlx5_0", &["active", "eth0", "100 Gb/s", "8 of 255"]);
    page.row("ml/train-0", &["mlx5_0, shared", "172.81.0.100/16", "mlx5_0 5: 172.81.0.100", "RoCE v2"]);
    page.row("ml/train-0", &["rxe0: 1 QP, 1 CQ, 1 MR, 1 PD, 1 context", "4.00 KiB pinned", "1 RC RTS"]);
    page.row("storage/nvmf-target-x7k2p", &["mlx5_1, shared", "unknown: the device is shared"]);
}

#[test]
fn in_exclusive_mode_pods_are_shown_with_their_traffic() {
    let page = shown(EXCLUSIVE, |_| ());
    page.says("exclusive RDMA mode");
    page.says("7 VFs of mlx5_0: 2 active, 2 in pods");
    page.row("ml/rank-1", &["mlx5_3, exclusive", "172.81.0.104", "Gb/s", "exclusive device"]);
}

#[test]
fn a_link_can_contain_the_filter() {
    let daemon = PageDaemon::start();
    let replay = Replay::start(&daemon, &recorded(EXCLUSIVE));
    let page = Page::open(&format!("{}#rank-1", replay.url()));
    page.says("1 of 16 devices");
    page.row("mlx5_3", &["VF of mlx5_0", "active", "ml/rank-1"]);
    assert!(page.has_row("ml/rank-1") && !page.has_row("ml/rank-0") && !page.has_row("mlx5_0"));
}

#[test]
fn problems_are_explained() {
    let page = shown(EXCLUSIVE, |node| {
        let device =
            &mut node["devices"].as_array_mut().unwrap().iter_mut().find(|d| d["name"] == "mlx5_2").unwrap();
        device["ports"][0]["state"] = "down".into();
        device["ports"][0]["gids"]["capacity"] = 4.into();
        node["pods"][0]["holdings"] = serde_json::json!([{
            "device": "mlx5_2", "objects": {"qp": 3}, "memoryBytes": 0,
            "queuePairs": [{"type": "rc", "state": "err", "count": 2}, {"type": "rc", "state": "rts", "count": 1}]
        }]);
        node["collectors"][0]["succeeded"] = false.into();
        node["collectors"][0]["troubles"] =
            serde_json::json!([{"reason": "timeout", "isFailure": true, "text": "no answer within 2 s"}]);
    });
    for problem in [
        "mlx5_1: 42 × out of sequence in",
        "mlx5_1: priority 3 was paused for",
        "mlx5_2 is down, used by ml/rank-0",
        "mlx5_2: 4 of 4 GID entries are in use",
        "ml/rank-0: 2 queue pairs in the error state on mlx5_2",
        "silkraild could not read all values: mode",
        "no answer within 2 s",
    ] {
        page.says(problem);
    }
}

#[test]
fn a_name_that_is_html_is_shown_as_text() {
    const NAME: &str =
        "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
    let page = shown(SHARED, |node| {
        node["node"] = NAME.into();
        node["pods"][0]["name"] = NAME.into();
        node["pods"][0]["namespace"] = NAME.into();
        node["pods"][0]["attachments"][0]["network"] = NAME.into();
        node["devices"][0]["ports"][0]["netdev"] = NAME.into();
        node["devices"][0]["name"] = NAME.into();
    });
    assert!(page.html.contains("&lt;img src=x onerror="), "{}", page.html);
    assert!(!page.html.contains("<img"), "{}", page.html);
    assert!(page.title().starts_with("&lt;img"), "{}", page.title());
}

#[test]
fn a_node_of_256_devices_is_shown_at_a_glance() {
    let page = shown(EXCLUSIVE, |node| {
        let devices = node["devices"].as_array_mut().unwrap();
        let vf = devices.iter().find(|device| device["name"] == "mlx5_4").unwrap().clone();
        for index in devices.len()..256 {
            let mut another = vf.clone();
            another["name"] = format!("mlx5_{index}").into();
            another["index"] = index.into();
            devices.push(another);
        }
    });
    page.says("256 devices");
    page.says("247 VFs of mlx5_0: 2 active, 2 in pods");
    assert!(!page.has_row("mlx5_200"), "its VFs are collapsed");
}

#[test]
fn a_daemon_that_does_not_respond_is_not_shown_as_live() {
    let daemon = PageDaemon::start();
    let replay = Replay::start(&daemon, &recorded(SHARED)[..1]);
    let page = Page::open(&replay.url());
    page.says("silkraild does not respond: the recording has ended");
    page.says("read ");
    page.row("mlx5_0", &["active"]);
}
