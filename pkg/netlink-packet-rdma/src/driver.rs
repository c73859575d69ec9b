//! The kernel's numbers of RDMA drivers.

use crate::uapi::*;

/// Returns the name of the driver with the number in `UVERBS_DRIVER_ID`, such as `mlx5`; `None` for an unknown number,
/// and for 0, which out-of-tree drivers use.
#[doc(alias = "rdma_driver_id")]
pub fn driver_name(id: u32) -> Option<&'static str> {
    Some(match u16::try_from(id).ok()? {
        RDMA_DRIVER_MLX5 => "mlx5",
        RDMA_DRIVER_MLX4 => "mlx4",
        RDMA_DRIVER_CXGB3 => "cxgb3",
        RDMA_DRIVER_CXGB4 => "cxgb4",
        RDMA_DRIVER_MTHCA => "mthca",
        RDMA_DRIVER_BNXT_RE => "bnxt_re",
        RDMA_DRIVER_OCRDMA => "ocrdma",
        RDMA_DRIVER_NES => "nes",
        RDMA_DRIVER_IRDMA => "irdma",
        RDMA_DRIVER_VMW_PVRDMA => "vmw_pvrdma",
        RDMA_DRIVER_QEDR => "qedr",
        RDMA_DRIVER_HNS => "hns",
        RDMA_DRIVER_USNIC => "usnic",
        RDMA_DRIVER_RXE => "rxe",
        RDMA_DRIVER_HFI1 => "hfi1",
        RDMA_DRIVER_QIB => "qib",
        RDMA_DRIVER_EFA => "efa",
        RDMA_DRIVER_SIW => "siw",
        RDMA_DRIVER_ERDMA => "erdma",
        RDMA_DRIVER_MANA => "mana",
        _ => return None,
    })
}
