//! Helpers of the tests that need more than one crate. The tests are in `tests/`:
//!
//! | directory | what | needs |
//! |---|---|---|
//! | `protocol` | environment and standard input in, standard output and exit code out | the built `silkrail-cni` |
//! | `netns` | the built plugins in network namespaces of the running kernel | root |
//! | `clients` | containerd, podman and libcni call the built plugins in network namespaces | root, the programs that `hack/test` unpacks |
//! | `command` | `silkrail` on nodes that are directories: the doctor, modes, error messages, completions, manual pages | the built `silkrail` |
//! | `pair` | the built `silkrail` between two nodes | two of the lab's machines |
//! | `daemon` | `silkraild` as a process, on a node without RDMA | the built `silkraild`, strace, promtool |
//! | `repository` | files that users copy are accepted by their programs; pages, sources and dependencies | the built executables |
//! | `monitoring` | the metrics reference, dashboards, rules and manifests agree, and every panel has data | promtool |
//!
//! Run them with `hack/test`.
//!
//! This crate contains what several of them share: a node with one [`rail`], the lab's [`machine`] with its [`chain`]
//! and the [`netns_holders`] that keep it in an RDMA mode, the
//! command `silkrail` ([`cli`]), a simulated [`fabric`] and a pod's [`cluster`] network; [`reboot`] changes state to that of a former boot, [`trace`]
//! records the requests to the kernel, and [`reference`](mod@reference) is the metrics reference as data.
//!
//! For the callers of plugins: [`containerd`] with its client [`cri`] and [`podman`], which run in [`runtime_namespaces`];
//! [`spiderpool_agent`] is a fake of Spiderpool's agent; [`tools`] are the programs that `hack/test` unpacks. [`kubernetes`] is the node of `hack/kube`, [`control_plane`] its API
//! server without the node, [`api_client`] a client of both, [`pool_node`] a node that uses pools of the cluster, and [`partition`] its connection.
//!
//! For metrics: the [`daemon`] and its [`scrape`], a software device with queue pairs ([`rxe`]), pods as the kubelet
//! represents them on a node ([`kube_pod`]) and as an API server lists them ([`api_server`]), a node whose status can be patched ([`node_api`]), and [`prometheus`] with the
//! queries of the [`dashboard`]s and other files of [`conf`].
//!
//! The tests `faults`, `fuzz` and `soak` are separate packages. `tests/invariants.md`, `tests/defects.md` and
//! `tests/metrics.md` list the requirements.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

pub mod api_client;
pub mod api_server;
pub mod chain;
pub mod cli;
pub mod cluster;
pub mod conf;
pub mod containerd;
pub mod control_plane;
pub mod cri;
pub mod daemon;
pub mod dashboard;
pub mod evidence;
pub mod fabric;
pub mod foreign_journal;
pub mod hostile;
pub mod http;
pub mod infiniband;
pub mod kube_pod;
pub mod kubelet;
pub mod kubernetes;
pub mod machine;
pub mod master_chain;
pub mod multus;
pub mod netns_holders;
pub mod node_api;
pub mod pair;
pub mod parity;
pub mod partition;
pub mod pki;
pub mod podman;
pub mod pool_node;
pub mod process_trace;
pub mod prometheus;
pub mod rail;
pub mod rail_traffic;
pub mod reboot;
pub mod reference;
pub mod reused_inode;
pub mod runtime_namespaces;
pub mod rxe;
pub mod scrape;
pub mod spiderpool_agent;
pub mod token_api;
pub mod tools;
pub mod trace;
