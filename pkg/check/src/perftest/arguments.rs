//! The command line of a program of perftest.

use std::net::{IpAddr, Ipv4Addr};

use crate::{DeviceName, PortNumber, TestKind, TestSpec};

/// The option for a report: versions before 4.5 do not have it.
pub(crate) const REPORT: &str = "out_json";

/// The option for an address of the server's TCP port: versions before 23.07 do not have it, and listen on all.
pub(crate) const BIND: &str = "bind_source_ip";

/// One end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndRole {
    /// Waits for the other, at this address or at all of the node's.
    Server(Option<Ipv4Addr>),
    /// Connects to the server at this address.
    Client(IpAddr),
}

/// What a program is started with. Everything is a number or a checked name: nothing a user or a peer says can be
/// anything but a value.
#[derive(Debug, Clone)]
pub struct PerftestArgs<'a> {
    /// The test.
    pub test: &'a TestSpec,
    /// The RDMA device.
    pub device: &'a DeviceName,
    /// Its port.
    pub port: PortNumber,
    /// The GID; InfiniBand needs none.
    pub gid_index: Option<u16>,
    /// The TCP port by which the two ends find each other.
    pub tcp_port: u16,
    /// Which end.
    pub role: EndRole,
    /// Whether a client is to write the report too.
    pub report: bool,
}

impl PerftestArgs<'_> {
    /// As the program takes them.
    pub fn list(&self) -> Vec<String> {
        let test = self.test;
        let mut list = vec![
            format!("--ib-dev={}", self.device),
            format!("--ib-port={}", self.port),
            format!("--port={}", self.tcp_port),
            format!("--size={}", test.size),
            format!("--duration={}", test.duration),
            // A word about the clock of the CPU is no reason to fail.
            "--CPU-freq".into(),
        ];
        list.extend(self.gid_index.map(|index| format!("--gid-index={index}")));
        if test.kind == TestKind::Bandwidth {
            list.push(format!("--qp={}", test.queue_pairs));
            list.push("--report_gbits".into());
        }
        match self.role {
            EndRole::Server(at) => list.extend(at.map(|at| format!("--{BIND}={at}"))),
            EndRole::Client(address) => {
                if self.report {
                    // In front of the table, in the same pipe: no file that could be in somebody's way.
                    list.push(format!("--{REPORT}"));
                    list.push("--out_json_file=/dev/stdout".into());
                }
                list.push(address.to_string());
            }
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RdmaOperation;

    #[test]
    fn a_test_is_always_by_duration() {
        for kind in [TestKind::Bandwidth, TestKind::Latency] {
            let test = TestSpec {
                kind,
                operation: RdmaOperation::Write,
                size: 8u64.try_into().unwrap(),
                queue_pairs: 2u64.try_into().unwrap(),
                duration: 7u64.try_into().unwrap(),
            };
            let device = "mlx5_0".parse().unwrap();
            let port = 1u64.try_into().unwrap();
            let server = PerftestArgs {
                test: &test,
                device: &device,
                port,
                gid_index: Some(3),
                tcp_port: 18515,
                role: EndRole::Server(Some(Ipv4Addr::new(10, 0, 0, 2))),
                report: true,
            };
            let client =
                PerftestArgs { role: EndRole::Client("10.0.0.1".parse().unwrap()), ..server.clone() }.list();
            let server = server.list();
            for list in [&server, &client] {
                assert!(list.contains(&"--duration=7".into()), "{list:?}");
                assert!(
                    !list.iter().any(|word| word.starts_with("-n") || word.starts_with("--iters")),
                    "{list:?}"
                );
                assert_eq!(list.contains(&"--qp=2".into()), kind == TestKind::Bandwidth);
            }
            assert_eq!(client.last().unwrap(), "10.0.0.1");
            assert_eq!(server.last().unwrap(), "--bind_source_ip=10.0.0.2");
            assert!(server.iter().all(|word| word.starts_with("--")), "{server:?}");
        }
    }
}
