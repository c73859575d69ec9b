//! A connection that can be interrupted: what is sent over it then is neither delivered nor refused, as if the network were cut.

use std::{
    net::SocketAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    runtime::Runtime,
};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
});

/// The time after which an interrupted connection asks whether it is so still.
const POLL: Duration = Duration::from_millis(50);

/// A port of the loopback address that leads to another, unless it is interrupted.
#[derive(Debug)]
pub struct InterruptibleLink {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl InterruptibleLink {
    /// Starts to forward connections.
    ///
    /// # Panics
    /// If no port is free.
    pub fn to(target: SocketAddr) -> Self {
        let is_cut = Arc::new(AtomicBool::new(false));
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = is_cut.clone();
        RUNTIME.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let cut = cut.clone();
                tokio::spawn(async move {
                    wait_while(&cut).await;
                    let Ok(server) = TcpStream::connect(target).await else { return };
                    let (client, server) = (client.into_split(), server.into_split());
                    let back = tokio::spawn(copy(server.0, client.1, cut.clone()));
                    copy(client.0, server.1, cut).await;
                    back.abort();
                });
            }
        });
        Self { port, is_cut }
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Interrupts all connections, or continues them.
    pub fn set_cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Whether connections are interrupted.
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_cut: Arc<AtomicBool>) {
    let mut buffer = vec![0; 16384];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        wait_while(&is_cut).await;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn wait_while(is_cut: &AtomicBool) {
    while is_cut.load(Ordering::Relaxed) {
        tokio::time::sleep(POLL).await;
    }
}
