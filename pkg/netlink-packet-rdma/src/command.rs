//! The commands of messages.

use crate::uapi::*;

/// A command of the nldev client, an `RDMA_NLDEV_CMD_` number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NldevCommand {
    /// Reads one device, or all (dump). Also the type of the reply to [`NldevCommand::PortGet`].
    Get,
    /// Renames a device *or* moves it to another namespace; with both attributes only the name is used.
    Set,
    /// Creates a software device (rxe, siw).
    NewLink,
    /// Deletes a software device.
    DelLink,
    /// Reads one port, or all ports of a device (dump with `DEV_INDEX`).
    PortGet,
    /// Reads the RDMA core's settings. Not a dump.
    SysGet,
    /// Changes the RDMA core's settings.
    SysSet,
    /// Reads the number of resources of each kind that a device has in use.
    ResGet,
    /// Lists queue pairs.
    ResQpGet,
    /// Lists connection manager IDs.
    ResCmIdGet,
    /// Lists completion queues.
    ResCqGet,
    /// Lists memory regions.
    ResMrGet,
    /// Lists protection domains.
    ResPdGet,
    /// Reads the character device of a client (`uverbs`, `umad`) for a device.
    GetChardev,
    /// Binds counters.
    StatSet,
    /// Reads the hardware counters of a port, or counters bound to resources.
    StatGet,
    /// Unbinds counters.
    StatDel,
    /// Lists user contexts.
    ResCtxGet,
    /// Lists shared receive queues.
    ResSrqGet,
    /// Lists the optional counters.
    StatGetStatus,
    /// Creates a sub-device.
    NewDev,
    /// Deletes a sub-device.
    DelDev,
    /// A notification: a device was added or removed, or its link was attached or detached.
    Monitor,
    /// A command unknown to this crate.
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
