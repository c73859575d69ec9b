//! The command line of perftest's programs.

use std::net::{IpAddr, Ipv4Addr};

use super::GpuMemory;
use crate::{DeviceName, PortNumber, TestKind, TestSpec};

/// The option for a JSON report. Versions before 4.5 do not have it.
pub(crate) const REPORT: &str = "out_json";

/// The option for the server's TCP address. Versions before 23.07 do not have it and listen on all addresses.
pub(crate) const BIND: &str = "bind_source_ip";

/// One end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndRole {
    /// Listens on this address, or on all addresses of the node.
    Server(Option<Ipv4Addr>),
    /// Connects to the server at this address.
    Client(IpAddr),
}

/// The arguments of a program. Each is a number, an address or a checked name, so that no input of a user or a peer can
/// become an option.
#[derive(Debug, Clone)]
pub struct PerftestArgs<'a> {
    /// The test to run.
    pub test: &'a TestSpec,
    /// The RDMA device (`--ib-dev`).
    pub device: &'a DeviceName,
    /// The port of the device (`--ib-port`).
    pub port: PortNumber,
    /// The index of the GID (`--gid-index`); `None` for InfiniBand.
    pub gid_index: Option<u16>,
    /// The TCP port over which the two ends exchange their addresses (`--port`).
    pub tcp_port: u16,
    /// The GPU in whose memory the data is; the memory of the host otherwise.
    pub gpu: Option<GpuMemory>,
    /// Which end of the test this is.
    pub role: EndRole,
    /// Whether the client writes a JSON report in addition to the table.
    pub report: bool,
    /// Whether the client of a latency test prints the time of each message.
    pub samples: bool,
}

impl PerftestArgs<'_> {
    /// Returns the arguments in the form of a command line.
    pub fn list(&self) -> Vec<String> {
        let test = self.test;
        let mut list = vec![
            format!("--ib-dev={}", self.device),
            format!("--ib-port={}", self.port),
            format!("--port={}", self.tcp_port),
            format!("--size={}", test.size),
            match test.messages {
                Some(messages) => format!("--iters={messages}"),
                None => format!("--duration={}", test.duration),
            },
            // Continue despite warnings about the CPU frequency.
            "--CPU-freq".into(),
        ];
        list.extend(self.gid_index.map(|index| format!("--gid-index={index}")));
        let options = test.options;
        list.extend(options.traffic_class.map(|class| format!("--tclass={class}")));
        list.extend(options.service_level.map(|level| format!("--sl={level}")));
        list.extend(self.gpu.map(|gpu| gpu.argument()));
        if test.kind == TestKind::Bandwidth {
            list.extend(options.bidirectional.then(|| "--bidirectional".to_owned()));
            list.push(format!("--qp={}", test.queue_pairs));
            list.push("--report_gbits".into());
        }
        match self.role {
            EndRole::Server(at) => list.extend(at.map(|at| format!("--{BIND}={at}"))),
            EndRole::Client(address) => {
                if self.report {
                    // The report precedes the table in the same pipe, so that no temporary file is needed.
                    list.push(format!("--{REPORT}"));
                    list.push("--out_json_file=/dev/stdout".into());
                }
                list.extend(self.samples.then(|| "-U".to_owned()));
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

    fn test(kind: TestKind) -> TestSpec {
        TestSpec::new(
            kind,
            RdmaOperation::Write,
            8u64.try_into().unwrap(),
            2u64.try_into().unwrap(),
            7u64.try_into().unwrap(),
        )
    }

    #[test]
    fn options_are_arguments_of_both_ends() {
        let mut test = test(TestKind::Bandwidth);
        test.options.traffic_class = "106".parse().ok();
        test.options.service_level = "3".parse().ok();
        test.options.bidirectional = true;
        let device = "mlx5_0".parse().unwrap();
        for role in [EndRole::Server(None), EndRole::Client("10.0.0.1".parse().unwrap())] {
            let arguments = PerftestArgs {
                test: &test,
                device: &device,
                port: 1u64.try_into().unwrap(),
                gid_index: None,
                tcp_port: 18515,
                gpu: GpuMemory::in_help("  --use_rocm=<rocm device id>", "2".parse().unwrap()),
                role,
                report: false,
                samples: false,
            };
            let list = arguments.list();
            for expected in ["--tclass=106", "--sl=3", "--bidirectional", "--use_rocm=2"] {
                assert!(list.iter().any(|word| word == expected), "{expected}: {list:?}");
            }
        }
    }

    #[test]
    fn a_number_of_messages_replaces_the_duration_and_latency_has_no_option_of_bandwidth() {
        let mut test = test(TestKind::Latency);
        test.messages = "1000".parse().ok();
        test.options.traffic_class = "0".parse().ok();
        let device = "mlx5_0".parse().unwrap();
        let port = 1u64.try_into().unwrap();
        let role = EndRole::Server(None);
        let arguments = PerftestArgs {
            test: &test,
            device: &device,
            port,
            gid_index: None,
            tcp_port: 1,
            gpu: None,
            role,
            report: false,
            samples: false,
        };
        let list = arguments.list();
        assert!(list.contains(&"--iters=1000".into()) && list.contains(&"--tclass=0".into()), "{list:?}");
        assert!(
            !list.iter().any(|word| word.starts_with("--duration") || word.starts_with("--qp")),
            "{list:?}"
        );
    }

    #[test]
    fn a_test_always_has_a_duration() {
        for kind in [TestKind::Bandwidth, TestKind::Latency] {
            let test = test(kind);
            let device = "mlx5_0".parse().unwrap();
            let port = 1u64.try_into().unwrap();
            let server = PerftestArgs {
                test: &test,
                device: &device,
                port,
                gid_index: Some(3),
                tcp_port: 18515,
                gpu: None,
                role: EndRole::Server(Some(Ipv4Addr::new(10, 0, 0, 2))),
                report: true,
                samples: false,
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
