//! What a message asks for.

use crate::uapi::*;

/// A command of the nldev client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NldevCommand {
    /// One device, or all (dump). Also the type of the answer to [`NldevCommand::PortGet`].
    Get,
    /// Rename a device *or* move it to another namespace; with both attributes only the name is looked at.
    Set,
    /// Make a software device (rxe, siw).
    NewLink,
    /// Remove a software device.
    DelLink,
    /// One port, or all ports of a device (dump with `DEV_INDEX`).
    PortGet,
    /// The RDMA core's settings. Not a dump.
    SysGet,
    /// Change them.
    SysSet,
    /// How many resources of each kind a device has in use.
    ResGet,
    /// Queue pairs.
    ResQpGet,
    /// Connection manager IDs.
    ResCmIdGet,
    /// Completion queues.
    ResCqGet,
    /// Memory regions.
    ResMrGet,
    /// Protection domains.
    ResPdGet,
    /// The character device of a client (`uverbs`, `umad`) for a device.
    GetChardev,
    /// Bind counters.
    StatSet,
    /// Hardware counters of a port, or counters bound to resources.
    StatGet,
    /// Unbind counters.
    StatDel,
    /// User contexts.
    ResCtxGet,
    /// Shared receive queues.
    ResSrqGet,
    /// Which optional counters there are.
    StatGetStatus,
    /// Make a sub-device.
    NewDev,
    /// Remove a sub-device.
    DelDev,
    /// A notification: a device came, went, or changed its link.
    Monitor,
    /// A command this crate does not know.
    Other(u16),
}

impl From<u16> for NldevCommand {
    fn from(number: u16) -> Self {
        match number {
            RDMA_NLDEV_CMD_GET => Self::Get,
            RDMA_NLDEV_CMD_SET => Self::Set,
            RDMA_NLDEV_CMD_NEWLINK => Self::NewLink,
            RDMA_NLDEV_CMD_DELLINK => Self::DelLink,
            RDMA_NLDEV_CMD_PORT_GET => Self::PortGet,
            RDMA_NLDEV_CMD_SYS_GET => Self::SysGet,
            RDMA_NLDEV_CMD_SYS_SET => Self::SysSet,
            RDMA_NLDEV_CMD_RES_GET => Self::ResGet,
            RDMA_NLDEV_CMD_RES_QP_GET => Self::ResQpGet,
            RDMA_NLDEV_CMD_RES_CM_ID_GET => Self::ResCmIdGet,
            RDMA_NLDEV_CMD_RES_CQ_GET => Self::ResCqGet,
            RDMA_NLDEV_CMD_RES_MR_GET => Self::ResMrGet,
            RDMA_NLDEV_CMD_RES_PD_GET => Self::ResPdGet,
            RDMA_NLDEV_CMD_GET_CHARDEV => Self::GetChardev,
            RDMA_NLDEV_CMD_STAT_SET => Self::StatSet,
            RDMA_NLDEV_CMD_STAT_GET => Self::StatGet,
            RDMA_NLDEV_CMD_STAT_DEL => Self::StatDel,
            RDMA_NLDEV_CMD_RES_CTX_GET => Self::ResCtxGet,
            RDMA_NLDEV_CMD_RES_SRQ_GET => Self::ResSrqGet,
            RDMA_NLDEV_CMD_STAT_GET_STATUS => Self::StatGetStatus,
            RDMA_NLDEV_CMD_NEWDEV => Self::NewDev,
            RDMA_NLDEV_CMD_DELDEV => Self::DelDev,
            RDMA_NLDEV_CMD_MONITOR => Self::Monitor,
            other => Self::Other(other),
        }
    }
}

impl From<NldevCommand> for u16 {
    fn from(command: NldevCommand) -> Self {
        match command {
            NldevCommand::Get => RDMA_NLDEV_CMD_GET,
            NldevCommand::Set => RDMA_NLDEV_CMD_SET,
            NldevCommand::NewLink => RDMA_NLDEV_CMD_NEWLINK,
            NldevCommand::DelLink => RDMA_NLDEV_CMD_DELLINK,
            NldevCommand::PortGet => RDMA_NLDEV_CMD_PORT_GET,
            NldevCommand::SysGet => RDMA_NLDEV_CMD_SYS_GET,
            NldevCommand::SysSet => RDMA_NLDEV_CMD_SYS_SET,
            NldevCommand::ResGet => RDMA_NLDEV_CMD_RES_GET,
            NldevCommand::ResQpGet => RDMA_NLDEV_CMD_RES_QP_GET,
            NldevCommand::ResCmIdGet => RDMA_NLDEV_CMD_RES_CM_ID_GET,
            NldevCommand::ResCqGet => RDMA_NLDEV_CMD_RES_CQ_GET,
            NldevCommand::ResMrGet => RDMA_NLDEV_CMD_RES_MR_GET,
            NldevCommand::ResPdGet => RDMA_NLDEV_CMD_RES_PD_GET,
            NldevCommand::GetChardev => RDMA_NLDEV_CMD_GET_CHARDEV,
            NldevCommand::StatSet => RDMA_NLDEV_CMD_STAT_SET,
            NldevCommand::StatGet => RDMA_NLDEV_CMD_STAT_GET,
            NldevCommand::StatDel => RDMA_NLDEV_CMD_STAT_DEL,
            NldevCommand::ResCtxGet => RDMA_NLDEV_CMD_RES_CTX_GET,
            NldevCommand::ResSrqGet => RDMA_NLDEV_CMD_RES_SRQ_GET,
            NldevCommand::StatGetStatus => RDMA_NLDEV_CMD_STAT_GET_STATUS,
            NldevCommand::NewDev => RDMA_NLDEV_CMD_NEWDEV,
            NldevCommand::DelDev => RDMA_NLDEV_CMD_DELDEV,
            NldevCommand::Monitor => RDMA_NLDEV_CMD_MONITOR,
            NldevCommand::Other(other) => other,
        }
    }
}
