//! Clients that are silent, slow or in haste: whoever else asks is answered, and memory stays bounded.
//!
//! Each crowd comes from addresses of its own, 127.0.0.2 and so on; whoever is honest is 127.0.0.1. A crowd stays for
//! some seconds; SILKRAIL_CROWD_SECONDS=120 says how long otherwise, and then health has to answer within a second.

use std::{
    env, fs, io,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ipam::{LocalStore, Pools, StoreError};
use silkrail_tests::daemon::Daemon;
use testkit::wait_until;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::sleep,
};

use crate::DaemonFixture;

const BOOT: &str = "00000000-0000-0000-0000-000000000000";

/// Of what silkraild may have in memory at its worst, in KiB.
const MEMORY: u64 = 96 * 1024;

/// Connections and what else it has open.
const FILES: usize = 250;

/// Pools, each with two samples; and the name of the node, which is in every sample.
const POOLS: usize = 20;
const NAME: usize = 100_000;

/// A node whose metrics are four megabytes.
fn talkative() -> DaemonFixture {
    let node = DaemonFixture::new();
    let root = node.0.path();
    fs::create_dir_all(root.join("proc/sys/kernel/random")).unwrap();
    fs::write(root.join("proc/sys/kernel/random/boot_id"), BOOT).unwrap();
    let store = LocalStore::open(&root.join(node.root().trim_start_matches('/')), BOOT).unwrap();
    for number in 0..POOLS {
        let text =
            format!("name: p{number}\nsubnet: 10.0.{number}.0/24\nips: [10.0.{number}.1-10.0.{number}.3]");
        let pools = Pools::from_text(&text, Path::new("p.yaml")).unwrap();
        let pool = pools.get(&format!("p{number}")).unwrap();
        store.claim::<StoreError>(pool, &"a@n".parse().unwrap(), Instant::now(), |_| Ok(())).unwrap();
    }
    node
}

/// How long a crowd stays, and within which time health answers meanwhile: at most what a probe waits.
fn measure() -> (Duration, Duration) {
    match env::var("SILKRAIL_CROWD_SECONDS") {
        Ok(seconds) => (Duration::from_secs(seconds.parse().unwrap()), Duration::from_secs(1)),
        Err(_) => (Duration::from_secs(15), Duration::from_secs(5)),
    }
}

/// Clients that go on until this value is dropped.
struct ClientLoad {
    over: Arc<AtomicBool>,
    /// How often one of them has come.
    visits: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// What one client does, once.
type ClientAction = fn(u64, Ipv4Addr, SocketAddr) -> Pin<Box<dyn Future<Output = io::Result<()>>>>;

impl ClientLoad {
    /// So many clients, taking turns among the sources, each of which visits again and again.
    fn of(clients: u64, sources: u64, daemon: &Daemon, visit: ClientAction) -> Self {
        let (over, visits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, counted, address) = (over.clone(), visits.clone(), daemon.address());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let tasks = tokio::task::LocalSet::new();
            for client in 0..clients {
                let counted = counted.clone();
                let source = Ipv4Addr::new(127, 0, 0, u8::try_from(2 + client % sources).unwrap());
                tasks.spawn_local(async move {
                    loop {
                        counted.fetch_add(1, Ordering::Relaxed);
                        if visit(client, source, address).await.is_err() {
                            sleep(Duration::from_millis(10)).await; // it was sent away
                        }
                    }
                });
            }
            let end = async {
                while !is_over.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(50)).await;
                }
            };
            tasks.block_on(&runtime, end);
        });
        Self { over, visits, thread: Some(thread) }
    }
}

impl Drop for ClientLoad {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A connection that takes few bytes at a time.
async fn connect(source: Ipv4Addr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    socket.bind((source, 0).into())?;
    socket.connect(address).await
}

/// Whoever is honest sees nothing of it.
fn others_are_served(daemon: &Daemon, crowd: &ClientLoad) {
    let (long, health_within) = measure();
    let began = Instant::now();
    let (mut rounds, mut slowest) = (0, Duration::ZERO);
    while began.elapsed() < long {
        let asked = Instant::now();
        assert_eq!(daemon.health("/healthz").status, 200);
        slowest = slowest.max(asked.elapsed());
        assert!(
            asked.elapsed() < health_within,
            "health took {:?}, after {:?}",
            asked.elapsed(),
            began.elapsed()
        );
        let answer = daemon.ask("GET /metrics", &[]);
        assert_eq!(answer.status, 200, "after {:?}", began.elapsed());
        assert!(answer.body.len() > 2 * POOLS * NAME, "{} bytes", answer.body.len());
        let files = fs::read_dir(format!("/proc/{}/fd", daemon.frontend())).unwrap().count();
        assert!(files < FILES, "{files} open files: who had to go is still there");
        rounds += 1;
        thread::sleep(Duration::from_millis(200));
    }
    let peak = peak_memory(daemon);
    let visits = crowd.visits.load(Ordering::Relaxed);
    eprintln!("{rounds} rounds, health within {slowest:?}, {peak} KiB, {visits} visits");
    assert!(peak < MEMORY, "{peak} KiB");
    assert!(rounds > 3 && visits >= 60, "{rounds} {visits}");
}

/// Of both processes, in KiB.
fn peak_memory(daemon: &Daemon) -> u64 {
    let of = |pid: u32| -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    };
    of(daemon.pid()) + of(daemon.frontend())
}

fn served(node: &DaemonFixture) -> Daemon {
    node.serve(&["--node-name", &"n".repeat(NAME)])
}

#[test]
fn silent_clients_keep_nobody_from_being_answered() {
    let node = talkative();
    let daemon = served(&node);
    let crowd = ClientLoad::of(160, 128, &daemon, |_, source, address| {
        Box::pin(async move {
            let mut stream = connect(source, address).await?;
            stream.read_u8().await.map(drop)
        })
    });
    others_are_served(&daemon, &crowd);
}

#[test]
fn slow_readers_cost_bounded_memory_and_nobody_an_answer() {
    let node = talkative();
    let daemon = served(&node);
    let crowd = ClientLoad::of(60, 60, &daemon, |client, source, address| {
        Box::pin(async move {
            sleep(Duration::from_millis(client * 200)).await;
            let mut stream = connect(source, address).await?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await?;
            let mut few = [0; 512];
            while stream.read(&mut few).await? > 0 {
                sleep(Duration::from_millis(500)).await;
            }
            Ok(())
        })
    });
    others_are_served(&daemon, &crowd);
}

#[test]
fn a_source_that_connects_as_fast_as_it_can_keeps_nobody_from_being_answered() {
    let node = talkative();
    let daemon = served(&node);
    let crowd = ClientLoad::of(256, 1, &daemon, |client, source, address| {
        Box::pin(async move {
            let mut stream = connect(source, address).await?;
            match client % 4 {
                0 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHo").await?,
                1 => stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await?,
                2 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await?,
                _ => {}
            }
            if client % 4 == 0 {
                // Until it is sent away.
                while stream.read_u8().await.is_ok() {}
            }
            // Without it there would soon be no free port.
            stream.set_zero_linger()
        })
    });
    others_are_served(&daemon, &crowd);
}

/// A connection from 127.0.0.2 that takes few bytes at a time.
fn slow_connection(daemon: &Daemon) -> std::net::TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(connect(Ipv4Addr::new(127, 0, 0, 2), daemon.address())).unwrap();
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn asking(daemon: &Daemon, path: &str) -> std::net::TcpStream {
    let mut stream = slow_connection(daemon);
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    stream
}

/// The first bytes of an answer.
fn beginning(mut stream: &std::net::TcpStream) -> String {
    let mut bytes = [0; 256];
    let length = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[test]
fn an_address_that_does_not_read_gets_no_more_until_it_does() {
    let node = talkative();
    let daemon = served(&node);
    let unread: Vec<_> = (0..3).map(|_| asking(&daemon, "/metrics")).collect();
    for stream in &unread {
        assert!(beginning(stream).starts_with("HTTP/1.1 200 "));
    }
    let refused = asking(&daemon, "/metrics");
    let answer = beginning(&refused);
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 5\r\n"), "{answer}");
    assert!(beginning(&asking(&daemon, "/")).starts_with("HTTP/1.1 200 "), "the page is always there");
    assert_eq!(daemon.ask("GET /metrics", &[]).status, 200, "another address");
    drop(unread);
    wait_until("it is served again", || beginning(&asking(&daemon, "/metrics")).starts_with("HTTP/1.1 200 "));
}

#[test]
fn clients_that_take_too_long_are_sent_away_and_a_patient_one_is_not() {
    let node = talkative();
    let daemon = served(&node);
    let mut idle = asking(&daemon, "/healthz");
    assert!(beginning(&idle).starts_with("HTTP/1.1 200 "));
    let (mut silent, mut slow) = (slow_connection(&daemon), slow_connection(&daemon));
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHo").unwrap();
    let mut reader = asking(&daemon, "/metrics");
    let began = Instant::now();
    for (what, stream) in [("silent", &mut silent), ("slow", &mut slow)] {
        let ended = stream.read(&mut [0; 1]);
        assert!(matches!(ended, Ok(0) | Err(_)), "{what}: {ended:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
    }
    thread::sleep(Duration::from_secs(4)); // it is looked for once a second
    let mut rest = Vec::new();
    let ended = reader.read_to_end(&mut rest);
    assert!(ended.is_err() || rest.len() < 2 * POOLS * NAME, "{} bytes", rest.len());
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(beginning(&idle).starts_with("HTTP/1.1 200 "), "as Prometheus, which asks once a minute");
}
