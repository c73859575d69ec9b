//! Test nodes and pods: namespaces of the running kernel in which the built plugins are called. Their effects are
//! inspected with independent tools (`ip`, `rdma`). Development only.
//!
//! Root is required. Without it every test that creates a [`TestNode`] **fails**; none is skipped.
//!
//! ```no_run
//! use testkit::Observe;
//!
//! let node = testkit::TestNode::new();                   // a network and a mount namespace for this thread
//! let (pod, far) = (node.pod("a"), node.pod("far"));
//! node.cable("rail0", &far, "far0");                     // a link of the node, and its other end
//! let before = node.snapshot();
//! let macvlan = node
//!     .plugin("macvlan")
//!     .conf(&serde_json::json!({"cniVersion": "1.1.0", "name": "rail", "type": "macvlan", "master": "rail0"}))
//!     .pod(&pod);
//! macvlan.add().ok();
//! macvlan.del().done();
//! node.snapshot().assert_is(&before);
//! ```

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it is only used in tests, which fail by panicking"
)]

mod binaries;
mod dump;
mod fake_ipam;
mod message;
mod netns_view;
mod node;
mod plugin_call;
mod plugin_output;
mod pod;
mod share;
mod snapshot;
mod wait;

pub use binaries::Binaries;
pub use fake_ipam::{FakeIpam, RecordedCall};
pub use netns_view::{Observe, inside};
pub use node::{TestNode, state_dir};
pub use plugin_call::Call;
pub use plugin_output::{Answer, Refusal};
pub use pod::TestPod;
pub use share::{InvalidShare, Share};
pub use snapshot::Snapshot;
pub use wait::wait_until;
