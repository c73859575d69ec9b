//! Programs that call CNI plugins: container runtimes and libcni. Root is required, and the programs that `hack/test unit`
//! unpacks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "what a failing test was about")]

mod containerd;
mod libcni;
mod podman;
