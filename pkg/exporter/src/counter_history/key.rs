//! Keys of the history: ports, and accounts of pods.

use std::sync::Arc;

use crate::{Attribution, PodInfo};

/// The pod that all traffic of a port belongs to at a time, and the attribution; `None` if there is no such pod.
pub(crate) type PortUser = Option<(Arc<PodInfo>, Attribution)>;

/// A port: the device's index (rdma-netlink), and the port number; 0 stands for the device as a whole.
pub(crate) type PortKey = (u32, u32);

/// The key of an account of a pod: device name, port, attribution.
pub(crate) type AccountKey = (String, u32, Attribution);
