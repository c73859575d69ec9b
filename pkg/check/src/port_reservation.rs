//! The RDMA ports and the TCP ports that tests of this process use: at most one test at a time has an RDMA port.
//!
//! Two tests on one port would measure each other. Tests on different ports of a node can run at the same time, which finds
//! a rail that is slow only when all rails are loaded.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{DeviceName, Error, Interrupt, PortNumber, perftest::free_port, port_selection::SelectedPort};

/// How long a request waits for the previous test on its port to clean up. After a client fails, its server's process lives
/// on for a moment, and in a mesh the next client connects immediately.
pub(crate) const CLEANUP_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval at which a wait tries again.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The number of consecutive TCP ports that are tried.
pub const TCP_PORTS: u16 = 16;

/// The ports in use.
#[derive(Debug, Default)]
pub struct PortReservations {
    used: Mutex<UsedPorts>,
}

#[derive(Debug, Default)]
struct UsedPorts {
    rdma: BTreeSet<(DeviceName, PortNumber)>,
    tcp: BTreeSet<u16>,
}

/// The exclusive use of an RDMA port, until it is dropped.
#[derive(Debug)]
pub(crate) struct ReservedPort<'a> {
    all: &'a PortReservations,
    port: (DeviceName, PortNumber),
}

/// The exclusive use of a TCP port within this process, until it is dropped.
#[derive(Debug)]
pub(crate) struct ReservedTcpPort<'a> {
    all: &'a PortReservations,
    number: u16,
}

impl PortReservations {
    /// Reserves an RDMA port.
    ///
    /// # Errors
    /// [`Error::PortInUse`] if another test still has it after [`CLEANUP_TIMEOUT`]; [`Error::Interrupted`].
    pub(crate) fn reserve(
        &self,
        selected: &SelectedPort,
        interrupt: &Interrupt,
    ) -> Result<ReservedPort<'_>, Error> {
        let port = (selected.device.clone(), selected.port);
        let deadline = Instant::now() + CLEANUP_TIMEOUT;
        loop {
            if self.lock().rdma.insert(port.clone()) {
                return Ok(ReservedPort { all: self, port });
            }
            if Instant::now() >= deadline {
                return Err(Error::PortInUse { device: port.0.to_string(), port: port.1.get() });
            }
            interrupt.check()?;
            thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Reserves the first TCP port from `next` up to the last of the [`TCP_PORTS`] from `first` on that no other test and no
    /// other process uses. Without the reservation, two tests that start at the same time would find the same port, and the
    /// client of one would measure with the server of the other.
    pub(crate) fn reserve_tcp(&self, first: u16, next: u16) -> Option<ReservedTcpPort<'_>> {
        let mut used = self.lock();
        let last = first.saturating_add(TCP_PORTS);
        let number =
            (next..last).filter(|port| !used.tcp.contains(port)).find_map(|port| free_port(port, 1))?;
        used.tcp.insert(number);
        Some(ReservedTcpPort { all: self, number })
    }

    fn lock(&self) -> MutexGuard<'_, UsedPorts> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReservedPort<'_> {
    /// Whether it is the reservation of this port.
    pub(crate) fn is_of(&self, selected: &SelectedPort) -> bool {
        self.port.0 == selected.device && self.port.1 == selected.port
    }
}

impl ReservedTcpPort<'_> {
    /// Returns the port number.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

impl Drop for ReservedPort<'_> {
    fn drop(&mut self) {
        self.all.lock().rdma.remove(&self.port);
    }
}

impl Drop for ReservedTcpPort<'_> {
    fn drop(&mut self) {
        self.all.lock().tcp.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use rdma::{LinkLayer, PortState};

    use super::*;
    use crate::candidate_port::CandidatePort;

    fn port(device: &str) -> SelectedPort {
        let facts = CandidatePort {
            device: device.into(),
            number: 1,
            state: PortState::Active,
            layer: LinkLayer::InfiniBand,
            link: None,
            speed_mbps: None,
            mtu: None,
            gids: Vec::new(),
        };
        SelectedPort { device: device.parse().unwrap(), port: 1u64.try_into().unwrap(), gid: None, facts }
    }

    #[test]
    fn a_port_has_one_test_at_a_time_and_other_ports_are_independent() {
        let (all, interrupt) = (PortReservations::default(), Interrupt::never());
        let first = all.reserve(&port("mlx5_0"), &interrupt).unwrap();
        let other = all.reserve(&port("mlx5_1"), &interrupt).unwrap();
        assert!(first.is_of(&port("mlx5_0")) && !first.is_of(&port("mlx5_1")));
        let error = all.reserve(&port("mlx5_0"), &interrupt).unwrap_err().to_string();
        assert!(error.contains("mlx5_0/1"), "{error}");
        drop(first);
        drop(all.reserve(&port("mlx5_0"), &interrupt).unwrap());
        interrupt.request();
        let stopped = all.reserve(&port("mlx5_1"), &interrupt);
        assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
        drop(other);
    }

    #[test]
    fn a_test_waits_until_the_previous_one_has_ended() {
        let all = PortReservations::default();
        let first = all.reserve(&port("mlx5_0"), &Interrupt::never()).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| all.reserve(&port("mlx5_0"), &Interrupt::never()).map(drop));
            thread::sleep(Duration::from_millis(200));
            drop(first);
            second.join().unwrap().unwrap();
        });
    }

    #[test]
    fn tests_that_start_together_get_different_tcp_ports() {
        let all = PortReservations::default();
        // Below the ports of connections, which other tests open.
        let free = free_port(28_000, 2000).unwrap();
        let reserved: Vec<_> = (0..4).filter_map(|_| all.reserve_tcp(free, free)).collect();
        let numbers: BTreeSet<u16> = reserved.iter().map(ReservedTcpPort::number).collect();
        assert_eq!((reserved.len(), numbers.len()), (4, 4), "{numbers:?}");
        drop(reserved);
        assert_eq!(all.reserve_tcp(free, free).unwrap().number(), free);
        // A later attempt begins behind the port that was taken, and has the same end.
        let next = all.reserve_tcp(free, free + 1).unwrap().number();
        assert!((free + 1..free + TCP_PORTS).contains(&next), "{next}");
        assert!(all.reserve_tcp(free, free + TCP_PORTS).is_none());
    }
}
