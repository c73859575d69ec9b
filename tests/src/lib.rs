//! Tests that need more than one crate. They are in `tests/`:
//!
//! | directory | what | needs |
//! |---|---|---|
//! | `protocol` | environment and standard input in, standard output and exit code out | the built `silkrail-cni` |
//! | `netns` | the built plugins in namespaces of the running kernel | root |
//! | `doctor` | faults on a tree of files, named by `silkrail doctor --root` | the built `silkrail` |
//! | `pair` | the built `silkrail` between two nodes | two of the lab's machines |
//! | `daemon` | `silkraild` as a process, on a node without RDMA | the built `silkraild`, strace, promtool |
//! | `conf` | every file that users copy is read by what will read it | the built `silkrail-cni` |
//! | `deploy` | the image's recipe and the manifests that install the plugins fit each other | the built executables |
//! | `shell` | completions and manual pages, read by bash and groff | the built `silkrail` |
//! | `monitoring` | the metrics reference, dashboards, rules and manifests say the same, and every panel shows something | promtool |
//!
//! Run them with `hack/test`.
//!
//! What several of them begin with is here: a node with one [`rail`], the lab's [`machine`] with its [`chain`], and the
//! operator's command ([`cli`]) and a pod's network from the [`cluster`]; [`reboot`] makes state look old, [`trace`] notes what is asked of the kernel, and
//! [`reference`](mod@reference) is the metrics reference as data.
//!
//! For metrics: the [`daemon`] and its [`scrape`], a software device with queue pairs ([`rxe`]), pods as the kubelet
//! leaves them on a node ([`kube_pod`]) and as an API server lists them ([`api_server`]), and [`prometheus`] with what
//! it is asked: the [`dashboard`]s and other files of [`conf`].
//!
//! Beside them, packages of their own: `faults`, `fuzz` and `soak`. `tests/invariants.md`, `tests/defects.md` and
//! `tests/metrics.md` say which test holds what.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it is part of tests: a panic is how they fail"
)]

pub mod api_server;
pub mod chain;
pub mod cli;
pub mod cluster;
pub mod conf;
pub mod containerd;
pub mod cri;
pub mod daemon;
pub mod dashboard;
pub mod evidence;
pub mod hostile;
pub mod http;
pub mod kube_pod;
pub mod machine;
pub mod pair;
pub mod pki;
pub mod prometheus;
pub mod rail;
pub mod reboot;
pub mod reference;
pub mod reused_inode;
pub mod rxe;
pub mod scrape;
pub mod token_api;
pub mod trace;
