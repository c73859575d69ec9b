//! Waits for changes of devices, links and the pod map.

use std::{
    fs, io,
    path::PathBuf,
    thread,
    time::{Duration, Instant, SystemTime},
};

use kubelet_plugin::DirectoryWatch;
use netlink::Notifications;
use podmap::PodMap;
use tokio::{select, sync::mpsc};

/// `NETLINK_KOBJECT_UEVENT` of `linux/netlink.h`, and the group of the kernel's own events.
const UEVENTS: (isize, u32) = (15, 1);

/// How long a thread waits before it looks whether it is still needed.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The changes of devices (uevents), of links, and of the pod map.
pub(super) struct NodeChanges {
    events: mpsc::Receiver<()>,
    pod_map: DirectoryChanges,
}

impl NodeChanges {
    /// Subscribes to the changes. In a container with a user namespace of its own, there are none of devices.
    pub(super) fn subscribe(pod_map: &PodMap) -> io::Result<Self> {
        // Several changes between two reads are one.
        let (sender, events) = mpsc::channel(1);
        for notifications in [Notifications::open(UEVENTS.0, UEVENTS.1)?, rtnl::events(false)?] {
            let sender = sender.clone();
            let forward = move || forward(&notifications, &sender);
            thread::Builder::new().name("node-changes".into()).spawn(forward)?;
        }
        Ok(Self { events, pod_map: DirectoryChanges::new(pod_map.dir().to_owned()) })
    }

    /// Waits for a change.
    pub(super) async fn next(&mut self) {
        let event = async {
            if self.events.recv().await.is_none() {
                // The threads have ended: only the interval is left.
                std::future::pending::<()>().await;
            }
        };
        select! {
            () = event => {}
            () = self.pod_map.next() => {}
        }
    }
}

/// The changes of a directory, which may not exist yet.
struct DirectoryChanges {
    path: PathBuf,
    watch: Option<DirectoryWatch>,
    modified: Option<SystemTime>,
}

impl DirectoryChanges {
    fn new(path: PathBuf) -> Self {
        Self { path, watch: None, modified: None }
    }

    async fn next(&mut self) {
        // The watch needs a runtime, which is not there yet when this is created.
        let watch = self.watch.get_or_insert_with(|| DirectoryWatch::new(self.path.clone()));
        loop {
            let modified = fs::metadata(&self.path).and_then(|data| data.modified()).ok();
            if std::mem::replace(&mut self.modified, modified) != modified {
                return;
            }
            watch.changed().await;
        }
    }
}

fn forward(events: &Notifications, sender: &mpsc::Sender<()>) {
    while !sender.is_closed() {
        match events.wait(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL) {
            Ok(true) => drop(sender.try_send(())),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%error, "changes of devices are no longer seen at once");
                return;
            }
        }
    }
}
