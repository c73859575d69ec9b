use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    panic::{self, AssertUnwindSafe},
    thread,
    time::UNIX_EPOCH,
};

use clap::Parser;
use exporter::{
    Attribution, CollectError, DeviceInfo, DeviceReading, DeviceSnapshot, DeviceUsage, ErrorReason,
    NodeSnapshot, PodInfo, PodTraffic, PortReading, RawCounters, ResourceHolder, ResourceShare,
};
use rustix::{
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use super::{
    rates::Rates,
    usage::{PodLabel, PodUsage},
    *,
};

/// Counters of a port: received data in words of 4 bytes, sent packets, RNR NAKs, CNPs sent.
type Values = [u64; 4];

fn port(device: u32, name: &str, [words, packets, rnr, cnp]: Values) -> PortReading {
    let list = |pairs: &[(&str, u64)]| pairs.iter().copied().collect::<RawCounters>();
    PortReading {
        port: rdma::Port {
            device,
            device_name: name.into(),
            port: 1,
            state: rdma::PortState::Active,
            phys_state: rdma::PhysState::LinkUp,
            link: None,
            link_name: None,
            link_layer: rdma::LinkLayer::Ethernet,
        },
        hw_counters: list(&[("rnr_nak_retry_err", rnr), ("np_cnp_sent", cnp)]),
        counters: list(&[("port_rcv_data", words), ("port_xmit_packets", packets)]),
        link_statistics: RawCounters::default(),
        physical: Default::default(),
        cm: None,
        speed: None,
        gids: None,
    }
}

fn device(index: u32, name: &str, values: Values, share: Option<(Arc<PodInfo>, u64)>) -> DeviceSnapshot {
    let shares = share.map(|(pod, qp)| {
        let share = ResourceShare { counts: [("qp", qp)].into(), ..ResourceShare::default() };
        (ResourceHolder::Pod(pod), share)
    });
    let usage = DeviceUsage { shares: shares.into_iter().collect(), kernel_connects: false };
    let reading = DeviceReading {
        place: netns::NetNsId::new(1, 2),
        on_node: true,
        pod: None,
        process: None,
        device: rdma::Device {
            index,
            name: name.into(),
            node_guid: rdma::Guid(0),
            sys_image_guid: rdma::Guid(0),
            fw_version: None,
            node_type: None,
            protocol: None,
            ports: 1,
            adaptive_moderation: None,
        },
        facts: Arc::new(DeviceInfo::default()),
        ports: vec![port(index, name, values)],
        counters: RawCounters::default(),
        traffic_class: None,
        resources: Some(rdma::resource::ResourceCounts { qp: Some(5), ..Default::default() }),
        objects: None,
        counter_sets: None,
    };
    DeviceSnapshot::new(reading, Some(usage))
}

fn pod(uid: &str) -> Arc<PodInfo> {
    Arc::new(PodInfo { namespace: "ml".into(), name: "train-0".into(), uid: Some(uid.into()) })
}

fn traffic(uid: &str, words: u64) -> PodTraffic {
    PodTraffic::new(pod(uid), "mlx5_1", Attribution::SoleUser, &port(2, "mlx5_1", [words, 0, 0, 0]))
}

/// A node with two devices, of which a pod uses the second.
fn sample(seconds: u64, devices: [Values; 2], pods: Vec<PodTraffic>) -> Sample {
    let mut snapshot = NodeSnapshot::new("gpu-07".into(), UNIX_EPOCH + Duration::from_secs(1000 + seconds));
    snapshot.has_rdma = true;
    snapshot.devices =
        vec![device(1, "mlx5_0", devices[0], None), device(2, "mlx5_1", devices[1], Some((pod("u-1"), 3)))];
    snapshot.pods = BTreeMap::from([(pod("u-1"), None)]);
    snapshot.traffic = pods;
    Sample::of(&snapshot, Duration::from_secs(seconds))
}

fn usage() -> NodeUsage {
    let before = sample(10, [[100, 10, 1, 1], [5000, 0, 0, 0]], vec![traffic("u-1", 1000)]);
    let now = sample(12, [[600, 50, 4, 1], [5_005_000, 0, 0, 8]], vec![traffic("u-1", 5_001_000)]);
    let mut usage = NodeUsage::since(Some(&before), &now);
    SortKey::Bytes.sort(&mut usage);
    usage
}

fn args(more: &[&str]) -> TopArgs {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        top: TopArgs,
    }
    Program::parse_from([&["top"], more].concat()).top
}

#[test]
fn tables_show_the_busiest_first() {
    let mut out = Vec::new();
    print_tables(&usage(), &mut out).unwrap();
    // 5,000,000 words of 4 bytes in 2 s; 500 words, 40 packets, 3 RNR NAKs; 8 CNPs.
    let expected = "\
1970-01-01T00:16:52Z  2.0 s
DEVICE  RX-B/S  TX-B/S  RX-PKT/S  TX-PKT/S  ERR/S  CNP/S  RX-PAUSE/S  TX-PAUSE/S  DROP/S  QP  POD
mlx5_1  10.0M   -       -         0         0      4      -           -           -       5   -
mlx5_0  1.00k   -       -         20        1.50   0      -           -           -       5   -

POD         RX-B/S  TX-B/S  RX-PKT/S  TX-PKT/S  ERR/S  QP  DEVICES
ml/train-0  10.0M   -       -         0         0      3   mlx5_1

";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn each_key_sorts() {
    let first = |key: u8| {
        let mut usage = usage();
        SortKey::of_key(key).unwrap().sort(&mut usage);
        usage.devices[0].name.clone()
    };
    assert_eq!(
        [b'b', b'p', b'e', b'c', b'u', b'n'].map(first).join(" "),
        "mlx5_1 mlx5_0 mlx5_0 mlx5_1 mlx5_0 mlx5_0"
    );
    assert_eq!(SortKey::of_key(b'x'), None);
}

#[test]
fn what_is_not_known_is_last_and_equal_values_are_sorted_by_name() {
    let rates = |bytes: Option<f64>, cnp: Option<f64>, pause: Option<f64>| Rates {
        receive_bytes: bytes,
        congestion: cnp.map(|rate| ("cnp_sent", rate)).into_iter().collect(),
        receive_pause_frames: pause,
        ..Rates::default()
    };
    let sorted = |key: SortKey| {
        let mut usage = NodeUsage::since(None, &sample(1, [[0; 4]; 2], Vec::new()));
        let rows = [
            ("d", rates(None, Some(1.0), Some(2.0))),
            ("c", rates(Some(0.0), Some(1.0), None)),
            ("b", rates(Some(9.0), None, Some(5.0))),
            ("a", rates(None, Some(1.0), Some(3.0))),
        ];
        let row = |(name, rates): (&str, Rates)| {
            let label = PodLabel { namespace: "ml".into(), name: name.into() };
            PodUsage { label, devices: Vec::new(), queue_pairs: None, per_second: rates }
        };
        usage.pods = rows.map(row).into();
        key.sort(&mut usage);
        usage.pods.iter().map(|pod| pod.label.name.as_str()).collect::<String>()
    };
    assert_eq!([SortKey::Bytes, SortKey::Congestion, SortKey::Errors].map(sorted), ["bcad", "adcb", "abcd"]);
}

#[test]
fn only_what_counts_as_a_failure_is_a_problem() {
    let mut snapshot = NodeSnapshot::new("gpu-07".into(), UNIX_EPOCH);
    let error =
        |reason, what: &str| CollectError { collector: Collector::Devices, reason, what: what.into() };
    snapshot.errors = vec![
        error(ErrorReason::Unreadable, "a"),
        error(ErrorReason::Timeout, "b"),
        error(ErrorReason::Malformed, "c"),
    ];
    assert_eq!(Sample::of(&snapshot, Duration::ZERO).problems, ["b", "c"]);
}

#[test]
fn a_pod_that_is_created_again_has_no_burst() {
    let zero = [[0; 4]; 2];
    let before = sample(1, zero, vec![traffic("u-1", 9_000_000), traffic("u-2", 100)]);
    let now = sample(2, zero, vec![traffic("u-2", 350)]);
    assert_eq!(NodeUsage::since(Some(&before), &now).pods[0].per_second.receive_bytes, Some(1000.0));
}

#[test]
fn a_pod_has_the_queue_pairs_of_all_its_devices() {
    let mut snapshot = NodeSnapshot::new("gpu-07".into(), UNIX_EPOCH);
    let shares = [("mlx5_0", 3), ("mlx5_1", 0), ("mlx5_2", 4)].into_iter().zip(1..);
    snapshot.devices =
        shares.map(|((name, qp), index)| device(index, name, [0; 4], Some((pod("a"), qp)))).collect();
    let sample = Sample::of(&snapshot, Duration::ZERO);
    let pods: Vec<_> = sample.pods.values().map(|pod| (pod.devices.len(), pod.queue_pairs)).collect();
    assert_eq!(pods, [(3, Some(7))]);
}

#[test]
fn a_device_has_the_traffic_of_all_its_ports_and_a_pod_that_of_all_its_devices() {
    let snapshot = |words: u64| {
        let mut snapshot = NodeSnapshot::new("gpu-07".into(), UNIX_EPOCH);
        let mut reading = device(1, "mlx5_0", [words, 0, 0, 0], None).reading;
        let mut second = port(1, "mlx5_0", [2 * words, 0, 0, 0]);
        second.port.port = 2;
        reading.ports.push(second);
        snapshot.devices = vec![DeviceSnapshot::new(reading, None)];
        let on = |device: &str, words| {
            PodTraffic::new(pod("a"), device, Attribution::SoleUser, &port(2, device, [words, 0, 0, 0]))
        };
        snapshot.traffic = vec![on("mlx5_0", words), on("mlx5_1", 3 * words)];
        snapshot
    };
    let sample = |words, seconds| Sample::of(&snapshot(words), Duration::from_secs(seconds));
    let usage = NodeUsage::since(Some(&sample(0, 1)), &sample(100, 2));
    // Words of four bytes.
    assert_eq!(usage.devices[0].per_second.receive_bytes, Some(1200.0));
    assert_eq!(usage.pods[0].per_second.receive_bytes, Some(1600.0));
    assert_eq!(usage.pods[0].devices, ["mlx5_0", "mlx5_1"]);
}

#[test]
fn a_device_that_was_not_read_before_has_no_rates() {
    let mut before = sample(1, [[0; 4]; 2], Vec::new());
    before.counters.clear();
    let now = sample(2, [[9; 4]; 2], Vec::new());
    // Nor is there a rate before the first interval.
    for before in [Some(&before), None, Some(&now)] {
        let usage = NodeUsage::since(before, &now);
        assert_eq!((usage.devices.len(), &usage.devices[0].per_second), (2, &rates::Rates::default()));
    }
}

#[test]
fn json_is_one_line_without_control_characters() {
    let mut usage = usage();
    usage.pods[0].label.name = "a\u{1b}b\u{9b}c\u{7f}\u{202e}\"".into();
    let mut out = Vec::new();
    print_json(&usage, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.chars().filter(|c| c.is_control()).collect::<String>(), "\n");
    assert!(!text.contains('\u{202e}'));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["pods"][0]["name"], usage.pods[0].label.name.as_str());
    let expected = serde_json::json!({
        "name": "mlx5_0", "queuePairs": 5,
        "perSecond": {
            "receiveBytes": 1000.0, "transmitPackets": 20.0,
            "errors": { "rnr_nak": 1.5 }, "congestion": { "cnp_sent": 0.0 },
        },
    });
    assert_eq!(value["devices"][1], expected);
    assert_eq!((&value["time"], &value["interval"]), (&1012.0.into(), &2.0.into()));
}

#[test]
fn the_interval_is_limited() {
    assert_eq!(args(&["-i", "0.5"]).interval, Duration::from_millis(500));
    for wrong in ["0", "0.05", "3601", "-1", "nan", "inf", "x"] {
        assert!(interval(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn rows_are_shared_among_devices_and_pods() {
    assert_eq!(shares(20, 8, 3), [8, 12]);
    assert_eq!(shares(20, 100, 3), [17, 3]);
    assert_eq!(shares(20, 100, 100), [10, 10]);
    assert_eq!(shares(20, 2, 100), [2, 18]);
    assert_eq!(shares(0, 9, 9), [0, 0]);
}

/// A terminal of 40 columns and 12 rows: its two ends.
fn terminal() -> (File, OwnedFd) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let terminal = ioctl_tiocgptpeer(&controller, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 12, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (controller.into(), terminal)
}

/// Collects what is written to a terminal until it is closed.
fn read_all(mut controller: File) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        // EIO when the last user of the terminal has closed it.
        while let Ok(count @ 1..) = controller.read(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8(all).unwrap()
    })
}

/// The tests use the one screen that the process has in turn.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn no_line_is_longer_than_the_terminal_and_no_frame_higher() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (controller, terminal) = terminal();
    let reader = read_all(controller);
    let screen = Screen::enter(&terminal, None::<&OwnedFd>).unwrap();
    assert_eq!(screen.size(), (40, 12));
    let mut usage = usage();
    usage.problems =
        vec!["mlx5_9:\x1b[31m the firmware hangs, and this text is longer than the line".into(); 3];
    screen.show(&args(&[]).frame(&usage, SortKey::Bytes, 12).unwrap()).unwrap();
    screen.show(&vec!["x".repeat(100); 100]).unwrap();
    drop((screen, terminal));
    let text = reader.join().unwrap();
    let frames: Vec<_> = text.split("\x1b[H").collect();
    assert!(frames[0].contains("\x1b[?1049h") && frames[0].contains("\x1b[?25l"), "{text:?}");
    assert!(frames[1].contains("mlx5_1  10.0M   -       -         0     \x1b[K"), "{text:?}");
    assert!(frames[1].contains("not read (2 more): mlx5_9:?[31m the firm\x1b[K"), "{text:?}");
    for frame in &frames[1..] {
        let lines: Vec<_> = frame.split("\r\n").collect();
        assert!(lines.len() <= 12, "{frame:?}");
        assert!(lines.iter().all(|line| line.split('\x1b').next().unwrap().len() <= 40), "{frame:?}");
    }
    assert!(text.ends_with("\x1b[?7h\x1b[?25h\x1b[?1049l"), "{text:?}");
}

#[test]
fn a_panic_restores_the_terminal_before_its_message() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (controller, terminal) = terminal();
    let reader = read_all(controller);
    let before = tcgetattr(&terminal).unwrap().local_modes;
    assert!(before.contains(LocalModes::ICANON | LocalModes::ECHO));
    let screen = Screen::enter(&terminal, Some(&terminal)).unwrap();
    assert!(!tcgetattr(&terminal).unwrap().local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| panic!("a test")));
    assert!(panicked.is_err());
    // The screen still exists, as in a build that aborts.
    assert_eq!(tcgetattr(&terminal).unwrap().local_modes, before);
    drop((screen, terminal));
    let text = reader.join().unwrap();
    assert_eq!(text.matches("\x1b[?1049l").count(), 1, "{text:?}");
}
