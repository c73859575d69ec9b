//! Clients that are silent, slow or too fast: other clients are served, and memory stays bounded.
//!
//! The load comes from addresses of its own, 127.0.0.2 and so on; well-behaved clients use 127.0.0.1. It lasts 15 s, or
//! as many seconds as SILKRAIL_CROWD_SECONDS says; then health must respond within a second.

use std::{
    env, fs, io,
    io::{ErrorKind, Read, Write},
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

/// The maximum resident memory of silkraild's processes, in KiB.
const MEMORY: u64 = 96 * 1024;

/// The maximum number of open files: connections and others.
const FILES: usize = 250;

/// The number of pools, each with two samples, and the length of the node name, which is in every sample.
const POOLS: usize = 20;
const NAME: usize = 100_000;

/// A node with 4 MB of metrics.
fn large_node() -> DaemonFixture {
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

/// How long the load lasts, and the maximum response time of health: at most the timeout of a probe.
fn limits() -> (Duration, Duration) {
    match env::var("SILKRAIL_CROWD_SECONDS") {
        Ok(seconds) => (Duration::from_secs(seconds.parse().unwrap()), Duration::from_secs(1)),
        Err(_) => (Duration::from_secs(15), Duration::from_secs(5)),
    }
}

/// Clients that go on until this value is dropped.
struct ClientLoad {
    stop: Arc<AtomicBool>,
    /// The number of visits of all clients.
    visits: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// What one client does, once.
type ClientAction = fn(u64, Ipv4Addr, SocketAddr) -> Pin<Box<dyn Future<Output = io::Result<()>>>>;

impl ClientLoad {
    /// Starts clients, distributed over the source addresses, each of which repeats its visit.
    fn of(clients: u64, sources: u64, daemon: &Daemon, visit: ClientAction) -> Self {
        let (stop, visits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_stopped, counted, address) = (stop.clone(), visits.clone(), daemon.address());
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
                            sleep(Duration::from_millis(10)).await; // it was rejected
                        }
                    }
                });
            }
            let end = async {
                while !is_stopped.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(50)).await;
                }
            };
            tasks.block_on(&runtime, end);
        });
        Self { stop, visits, thread: Some(thread) }
    }
}

impl Drop for ClientLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A connection with a small receive buffer.
async fn connect(source: Ipv4Addr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    socket.bind((source, 0).into())?;
    socket.connect(address).await
}

/// Checks that other clients are served while the load lasts.
fn assert_others_are_served(daemon: &Daemon, load: &ClientLoad) {
    let (long, health_within) = limits();
    let began = Instant::now();
    let visits = || load.visits.load(Ordering::Relaxed);
    let (mut rounds, mut late, mut slowest) = (0, 0, Duration::ZERO);
    while began.elapsed() < long || rounds < 4 || visits() < 60 {
        let sent = Instant::now();
        assert_eq!(daemon.health("/healthz").status, 200);
        let took = sent.elapsed();
        slowest = slowest.max(took);
        late += u32::from(took >= health_within);
        let answer = daemon.request("GET /metrics", &[]);
        assert_eq!(answer.status, 200, "after {:?}", began.elapsed());
        assert!(answer.body.len() > 2 * POOLS * NAME, "{} bytes", answer.body.len());
        let files = fs::read_dir(format!("/proc/{}/fd", daemon.frontend())).unwrap().count();
        assert!(files < FILES, "{files} open files: connections were not closed");
        rounds += 1;
        thread::sleep(Duration::from_millis(200));
    }
    let peak = peak_memory(daemon);
    eprintln!("{rounds} rounds, health within {slowest:?}, {peak} KiB, {} visits", visits());
    assert!(peak < MEMORY, "{peak} KiB");
    // A pause of the machine delays one of them, and clients that block others delay most.
    assert!(late * 4 <= rounds, "health took {health_within:?} or more in {late} of {rounds} rounds");
}

/// The peak resident memory (VmHWM) of both processes, in KiB.
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
fn silent_clients_do_not_block_other_clients() {
    let node = large_node();
    let daemon = served(&node);
    let load = ClientLoad::of(160, 128, &daemon, |_, source, address| {
        Box::pin(async move {
            let mut stream = connect(source, address).await?;
            stream.read_u8().await.map(drop)
        })
    });
    assert_others_are_served(&daemon, &load);
}

#[test]
fn slow_readers_use_bounded_memory_and_do_not_block_other_clients() {
    let node = large_node();
    let daemon = served(&node);
    let load = ClientLoad::of(60, 60, &daemon, |client, source, address| {
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
    assert_others_are_served(&daemon, &load);
}

#[test]
fn a_source_that_connects_continuously_does_not_block_other_clients() {
    let node = large_node();
    let daemon = served(&node);
    let load = ClientLoad::of(256, 1, &daemon, |client, source, address| {
        Box::pin(async move {
            let mut stream = connect(source, address).await?;
            match client % 4 {
                0 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHo").await?,
                1 => stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await?,
                2 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await?,
                _ => {}
            }
            if client % 4 == 0 {
                // Until it is disconnected.
                while stream.read_u8().await.is_ok() {}
            }
            // Without it, ephemeral ports would run out.
            stream.set_zero_linger()
        })
    });
    assert_others_are_served(&daemon, &load);
}

/// A connection from 127.0.0.2 with a small receive buffer.
fn slow_connection(daemon: &Daemon) -> std::net::TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(connect(Ipv4Addr::new(127, 0, 0, 2), daemon.address())).unwrap();
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn request(daemon: &Daemon, path: &str) -> std::net::TcpStream {
    let mut stream = slow_connection(daemon);
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    stream
}

/// Whether the daemon has its end of a connection. The client does not see the end before it has read everything.
fn is_connected(daemon: &Daemon, client: &std::net::TcpStream) -> bool {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let ends = [port(daemon.address()), port(client.local_addr().unwrap())];
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).any(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        // A socket that no process has, has no inode.
        columns[1].ends_with(&ends[0]) && columns[2].ends_with(&ends[1]) && columns[9] != "0"
    })
}

/// The first bytes of a response.
fn read_start(mut stream: &std::net::TcpStream) -> String {
    let mut bytes = [0; 256];
    let length = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[test]
fn a_source_with_unread_responses_gets_503_until_it_reads() {
    let node = large_node();
    let daemon = served(&node);
    // A client that reads nothing for five seconds is disconnected: after a pause of the machine the fourth is served.
    let attempt = || {
        let unread: Vec<_> = (0..3).map(|_| request(&daemon, "/metrics")).collect();
        let are_served = unread.iter().all(|stream| read_start(stream).starts_with("HTTP/1.1 200 "));
        let answer = read_start(&request(&daemon, "/metrics"));
        (are_served && answer.starts_with("HTTP/1.1 503 ")).then_some((unread, answer))
    };
    let (unread, answer) = (0..10).find_map(|_| attempt()).unwrap();
    assert!(answer.contains("retry-after: 5\r\n"), "{answer}");
    assert!(read_start(&request(&daemon, "/")).starts_with("HTTP/1.1 200 "), "the page is always served");
    assert_eq!(daemon.request("GET /metrics", &[]).status, 200, "another address");
    drop(unread);
    wait_until("it is served again", || {
        read_start(&request(&daemon, "/metrics")).starts_with("HTTP/1.1 200 ")
    });
}

#[test]
fn slow_clients_are_disconnected_and_an_idle_one_is_not() {
    let node = large_node();
    let daemon = served(&node);
    let mut idle = request(&daemon, "/healthz");
    assert!(read_start(&idle).starts_with("HTTP/1.1 200 "));
    let (mut silent, mut slow) = (slow_connection(&daemon), slow_connection(&daemon));
    slow.write_all(b"GET /metrics HTTP/1.1\r\nHo").unwrap();
    let mut reader = request(&daemon, "/metrics");
    for (what, stream) in [("silent", &mut silent), ("slow", &mut slow)] {
        let ended = stream.read(&mut [0; 1]);
        let is_disconnected =
            ended.as_ref().map_or_else(|e| e.kind() != ErrorKind::WouldBlock, |read| *read == 0);
        assert!(is_disconnected, "{what}: {ended:?}");
    }
    wait_until("the one that does not read is disconnected", || !is_connected(&daemon, &reader));
    let mut rest = Vec::new();
    let ended = reader.read_to_end(&mut rest);
    assert!(ended.is_err() || rest.len() < 2 * POOLS * NAME, "{} bytes", rest.len());
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(read_start(&idle).starts_with("HTTP/1.1 200 "), "as Prometheus, which scrapes once a minute");
}
