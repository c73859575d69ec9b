//! The options of all tests that say how the data is transferred.

use check::{GpuIndex, ServiceLevel, TrafficClass, TrafficOptions};

/// How the data is transferred.
#[derive(Debug, clap::Args)]
pub(super) struct TrafficArgs {
    /// The traffic class of RoCE packets, which is four times the DSCP: 104 for DSCP 26; default: that of the driver
    #[arg(long, value_name = "0..255")]
    traffic_class: Option<TrafficClass>,
    /// The service level of InfiniBand, or the priority of RoCE packets with a VLAN tag
    #[arg(long, value_name = "0..15")]
    service_level: Option<ServiceLevel>,
    /// Transfer data in the memory of this GPU at both ends; needs a perftest with CUDA or ROCm there
    #[arg(long, value_name = "N")]
    gpu: Option<GpuIndex>,
}

impl TrafficArgs {
    /// Returns the options of a test.
    pub(super) fn options(&self, bidirectional: bool) -> TrafficOptions {
        let (traffic_class, service_level, gpu) = (self.traffic_class, self.service_level, self.gpu);
        TrafficOptions { traffic_class, service_level, bidirectional, gpu }
    }
}
