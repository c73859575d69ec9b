//! `silkrail doctor --fleet`: many daemons, of which some hang, and one that is real.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use silkrail_tests::{cli, pki::OpensslCa};

use crate::DaemonFixture;

/// Nobody listens there. A port that was free a moment ago can be that of another test.
const CLOSED: &str = "127.0.0.1:1";

/// How a fake daemon behaves.
#[derive(Debug, Clone)]
enum FakeDaemon {
    /// It replies.
    Node(Value),
    /// It accepts connections and sends nothing.
    Silent,
    /// It sends a byte each tenth of a second.
    Slow,
    /// It sends without end.
    Endless,
    /// It is another program.
    Garbage,
}

/// Starts a daemon that serves until the test's process ends.
fn serve(behavior: FakeDaemon) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let behavior = behavior.clone();
            thread::spawn(move || reply(stream, &behavior));
        }
    });
    address
}

fn reply(mut stream: TcpStream, behavior: &FakeDaemon) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    assert_eq!(request, "GET /api/v1/node HTTP/1.1");
    let _ = lines.find(String::is_empty);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    match behavior {
        FakeDaemon::Node(node) => {
            let text = node.to_string();
            let (first, second) = text.split_at(text.len() / 2);
            let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
            let body = format!("{}{}0\r\n\r\n", chunk(first), chunk(second));
            let _ = write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n{body}");
        }
        FakeDaemon::Silent => thread::sleep(Duration::from_secs(600)),
        FakeDaemon::Slow => {
            let _ = write!(stream, "{head}\r\n");
            while stream.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
        }
        FakeDaemon::Endless => while stream.write_all(&[b' '; 1 << 16]).is_ok() {},
        FakeDaemon::Garbage => drop(stream.write_all(b"220 mail.example.org ESMTP\r\n\r\n")),
    }
}

/// A node with eight cards and eight GPUs.
fn node(number: usize) -> Value {
    let device = |card: usize| {
        json!({
            "name": format!("mlx5_{card}"), "index": card, "driver": "mlx5_core", "firmware": "28.43.1014",
            "board": "MT_0000000838", "nodeGuid": "0", "pciAddress": format!("0000:{card:02x}:00.0"), "isVf": false,
            "netns": "host", "objects": {},
            "ports": [{"number": 1, "state": "active", "physicalState": "link_up", "linkLayer": "InfiniBand",
                "speed": 400_000_000_000_u64, "counters": {}}],
        })
    };
    let card = |card: usize| json!({"device": format!("mlx5_{card}"), "pcie": "32 GT/s x16", "mtu": 9000});
    json!({
        "node": format!("gpu-{number:02}"), "version": "0.1.0", "time": 1.5, "hasRdma": true, "mode": "shared",
        "collectors": [], "devices": (0..8).map(device).collect::<Vec<_>>(), "pods": [],
        "doctor": {"time": 1, "findings": [], "inventory": {
            "kernel": "6.12.0", "cards": (0..8).map(card).collect::<Vec<_>>(),
            "gpus": vec![json!({"model": "0x10de:0x2330", "lanes": 16}); 8],
        }},
    })
}

/// Returns the differences as `property: majority | value nodes`.
fn differences(report: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let difference = |difference: &Value| {
        let others = difference["others"].as_array().unwrap().iter().map(|other| {
            let nodes: Vec<_> = other["nodes"].as_array().unwrap().iter().map(text).collect();
            format!("{} {}", text(&other["value"]), nodes.join(","))
        });
        let name = format!("{} {}", text(&difference["of"]), text(&difference["name"]));
        format!(
            "{}: {} | {}",
            name.trim(),
            text(&difference["majority"]),
            others.collect::<Vec<_>>().join(" | ")
        )
    };
    report["differences"].as_array().unwrap().iter().map(difference).collect()
}

#[test]
fn what_differs_between_sixty_nodes_is_shown_although_some_hang() {
    let mut addresses = Vec::new();
    for number in 0..60 {
        let mut node = node(number);
        match number {
            7 => node["devices"][3]["firmware"] = json!("28.39.1002"),
            11 => {
                node["devices"].as_array_mut().unwrap().pop();
            }
            13 => node["devices"][0]["ports"][0]["speed"] = json!(200_000_000_000_u64),
            17 => node["doctor"]["inventory"]["cards"][1]["pcie"] = json!("16 GT/s x8"),
            19 => node["doctor"]["inventory"]["kernel"] = json!("6.1.0"),
            23 => {
                node["doctor"]["inventory"]["gpus"].as_array_mut().unwrap().pop();
            }
            29 => node["doctor"]["inventory"]["cards"][2]["mtu"] = json!(1500),
            31 => {
                node["doctor"]["findings"] = json!([{"id": "link-down", "severity": "error", "object": "eth0", "summary": "s", "since": 1}]);
            }
            37 => drop(node.as_object_mut().unwrap().remove("doctor")),
            _ => {}
        }
        addresses.push(serve(FakeDaemon::Node(node)));
    }
    let hang =
        [FakeDaemon::Silent, FakeDaemon::Silent, FakeDaemon::Slow, FakeDaemon::Endless, FakeDaemon::Garbage]
            .map(serve);
    let closed: SocketAddr = CLOSED.parse().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nodes");
    let lines: Vec<_> =
        addresses.iter().chain(&hang).map(|address| format!("http://{address} # a node")).collect();
    fs::write(&file, format!("# the cluster\n\n{}\n", lines.join("\n"))).unwrap();
    let args = format!("doctor --fleet {closed} --fleet-file {} --fleet-timeout 10", file.display());
    let report = cli::silkrail(&format!("{args} --json")).ended(6).json();
    assert_eq!(report["nodes"], 60, "{report}");
    let expected = [
        "GPUs: 8 | 7 gpu-23",
        "devices: 8 | 7 gpu-11",
        "kernel: 6.12.0 | 6.1.0 gpu-19",
        "MT_0000000838 MTU: 9000 | 7 × 9000, 1 × 1500 gpu-29",
        "MT_0000000838 PCIe: 32 GT/s x16 | 7 × 32 GT/s x16, 1 × 16 GT/s x8 gpu-17",
        "MT_0000000838 firmware: 28.43.1014 | 7 × 28.43.1014, 1 × 28.39.1002 gpu-07",
        "MT_0000000838 number: 8 | 7 gpu-11",
        "MT_0000000838 port speed: 400 Gb/s | 7 × 400 Gb/s, 1 × 200 Gb/s gpu-13",
    ];
    assert_eq!(differences(&report), expected);
    let findings = json!([{"id": "link-down", "severity": "error", "nodes": {"gpu-31": ["eth0"]}}]);
    assert_eq!((&report["findings"], &report["notExamined"]), (&findings, &json!(["gpu-37"])));
    let unreachable: Vec<_> =
        report["unreachable"].as_array().unwrap().iter().map(|node| &node["address"]).collect();
    let expected: Vec<_> = [closed].iter().chain(&hang).map(ToString::to_string).collect();
    assert_eq!(unreachable.len(), 6, "{report}");
    assert!(
        unreachable.iter().all(|address| expected.contains(&address.as_str().unwrap().to_owned())),
        "{report}"
    );
    let text = cli::silkrail(&args).ended(6).stdout;
    assert!(text.contains("  firmware of MT_0000000838\n      28.43.1014  on 59 nodes\n"), "{text}");
    assert!(text.contains("error [link-down]  on 1 node: gpu-31 (eth0)"), "{text}");
    assert!(text.contains("no reply within 10 s") && text.contains("Connection refused"), "{text}");
    assert!(
        text.ends_with("60 nodes compared, 6 unreachable: 8 differences, 1 findings, 1 not examined\n"),
        "{text}"
    );
}

#[test]
fn equal_nodes_are_a_success_and_no_node_is_a_failure() {
    let address = serve(FakeDaemon::Node(node(1)));
    let other = serve(FakeDaemon::Node(node(2)));
    cli::silkrail(&format!("doctor --fleet {address},{other}")).ended(0);
    cli::silkrail(&format!("doctor --fleet {CLOSED}")).ended(1);
    for wrong in
        ["--fleet", "--fleet ftp://a", "--fleet-file a", "--fleet a --record", "--fleet a --fleet-timeout 0"]
    {
        cli::silkrail(&format!("doctor {wrong}")).ended(2);
    }
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    fs::write(&token, "secret\n").unwrap();
    let refused =
        cli::silkrail(&format!("doctor --fleet {address} --fleet-token-file {}", token.display())).ended(2);
    assert!(
        refused.stderr.contains("in clear text") && !refused.stderr.contains("secret"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_real_daemon_is_read_over_tls_with_a_client_certificate() {
    let (daemon_node, authority) = (DaemonFixture::new(), OpensslCa::new());
    authority.sign("tls", "silkraild");
    authority.sign("client", "operator");
    authority.write(
        "web.yaml",
        "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n  client_auth_type: RequireAndVerifyClientCert\n  \
         client_ca_file: ca.crt\n",
    );
    let state = daemon_node.0.path().join(daemon_node.root().trim_start_matches('/'));
    fs::create_dir_all(&state).unwrap();
    let finding =
        json!({"id": "link-down", "severity": "error", "object": "eth0", "summary": "s", "since": 1});
    let time = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let record = json!({"time": time, "findings": [finding], "omitted": 0, "ended": [], "inventory": {"kernel": "6.12.0"}});
    fs::write(state.join("doctor.json"), record.to_string()).unwrap();
    let daemon = daemon_node.serve(&["--web.config.file", authority.path("web.yaml").to_str().unwrap()]);
    let path = |name: &str| authority.path(name).display().to_string();
    let run =
        |more: &str| cli::silkrail(&format!("doctor --json --fleet https://{} {more}", daemon.address()));
    let identity = format!("--fleet-cert {} --fleet-key {}", path("client.crt"), path("client.key"));
    let report = run(&format!("--fleet-ca {} {identity}", path("ca.crt"))).ended(6).json();
    assert_eq!((&report["nodes"], &report["unreachable"]), (&json!(1), &json!([])));
    assert_eq!(report["notExamined"], json!([]), "the record is in the reply");
    assert_eq!(report["findings"][0]["id"], "link-down", "an error is told, although all nodes have it");
    let unknown = OpensslCa::new();
    run(&format!("--fleet-ca {} {identity}", unknown.path("ca.crt").display())).ended(1);
    run(&format!("--fleet-ca {}", path("ca.crt"))).ended(1);
    assert!(run(&identity).ended(1).stderr.contains("needs --fleet-ca"));
    run(&format!("--fleet-ca {}", path("web.yaml"))).ended(1);
}
