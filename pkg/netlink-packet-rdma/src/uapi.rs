//! The kernel's numbers, under the kernel's names: `rdma/rdma_netlink.h`, `rdma/ib_user_ioctl_verbs.h` and
//! `linux/netlink.h`.

/// Defines the constants and, for the test below, the list of all of them, so that every one is compared.
macro_rules! uapi {
    ($($name:ident = $value:expr;)*) => {
        $(pub(crate) const $name: u16 = $value;)*
        #[cfg(test)]
        const ALL: &[(&str, u16)] = &[$((stringify!($name), $name)),*];
    };
}

uapi! {
    NETLINK_RDMA = 20;
    RDMA_NL_NLDEV = 5;

    RDMA_NLDEV_CMD_GET = 1;
    RDMA_NLDEV_CMD_SET = 2;
    RDMA_NLDEV_CMD_NEWLINK = 3;
    RDMA_NLDEV_CMD_DELLINK = 4;
    RDMA_NLDEV_CMD_PORT_GET = 5;
    RDMA_NLDEV_CMD_SYS_GET = 6;
    RDMA_NLDEV_CMD_SYS_SET = 7;
    RDMA_NLDEV_CMD_RES_GET = 9;
    RDMA_NLDEV_CMD_RES_QP_GET = 10;
    RDMA_NLDEV_CMD_RES_CM_ID_GET = 11;
    RDMA_NLDEV_CMD_RES_CQ_GET = 12;
    RDMA_NLDEV_CMD_RES_MR_GET = 13;
    RDMA_NLDEV_CMD_RES_PD_GET = 14;
    RDMA_NLDEV_CMD_GET_CHARDEV = 15;
    RDMA_NLDEV_CMD_STAT_SET = 16;
    RDMA_NLDEV_CMD_STAT_GET = 17;
    RDMA_NLDEV_CMD_STAT_DEL = 18;
    RDMA_NLDEV_CMD_RES_CTX_GET = 22;
    RDMA_NLDEV_CMD_RES_SRQ_GET = 23;
    RDMA_NLDEV_CMD_STAT_GET_STATUS = 24;
    RDMA_NLDEV_CMD_NEWDEV = 26;
    RDMA_NLDEV_CMD_DELDEV = 27;
    RDMA_NLDEV_CMD_MONITOR = 28;

    RDMA_NLDEV_ATTR_DEV_INDEX = 1;
    RDMA_NLDEV_ATTR_DEV_NAME = 2;
    RDMA_NLDEV_ATTR_PORT_INDEX = 3;
    RDMA_NLDEV_ATTR_CAP_FLAGS = 4;
    RDMA_NLDEV_ATTR_FW_VERSION = 5;
    RDMA_NLDEV_ATTR_NODE_GUID = 6;
    RDMA_NLDEV_ATTR_SYS_IMAGE_GUID = 7;
    RDMA_NLDEV_ATTR_SUBNET_PREFIX = 8;
    RDMA_NLDEV_ATTR_LID = 9;
    RDMA_NLDEV_ATTR_SM_LID = 10;
    RDMA_NLDEV_ATTR_LMC = 11;
    RDMA_NLDEV_ATTR_PORT_STATE = 12;
    RDMA_NLDEV_ATTR_PORT_PHYS_STATE = 13;
    RDMA_NLDEV_ATTR_DEV_NODE_TYPE = 14;
    RDMA_NLDEV_ATTR_RES_SUMMARY = 15;
    RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY = 16;
    RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME = 17;
    RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR = 18;
    RDMA_NLDEV_ATTR_RES_QP = 19;
    RDMA_NLDEV_ATTR_RES_QP_ENTRY = 20;
    RDMA_NLDEV_ATTR_RES_LQPN = 21;
    RDMA_NLDEV_ATTR_RES_RQPN = 22;
    RDMA_NLDEV_ATTR_RES_RQ_PSN = 23;
    RDMA_NLDEV_ATTR_RES_SQ_PSN = 24;
    RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE = 25;
    RDMA_NLDEV_ATTR_RES_TYPE = 26;
    RDMA_NLDEV_ATTR_RES_STATE = 27;
    RDMA_NLDEV_ATTR_RES_PID = 28;
    RDMA_NLDEV_ATTR_RES_KERN_NAME = 29;
    RDMA_NLDEV_ATTR_RES_CM_ID = 30;
    RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY = 31;
    RDMA_NLDEV_ATTR_RES_PS = 32;
    RDMA_NLDEV_ATTR_RES_SRC_ADDR = 33;
    RDMA_NLDEV_ATTR_RES_DST_ADDR = 34;
    RDMA_NLDEV_ATTR_RES_CQ = 35;
    RDMA_NLDEV_ATTR_RES_CQ_ENTRY = 36;
    RDMA_NLDEV_ATTR_RES_CQE = 37;
    RDMA_NLDEV_ATTR_RES_USECNT = 38;
    RDMA_NLDEV_ATTR_RES_POLL_CTX = 39;
    RDMA_NLDEV_ATTR_RES_MR = 40;
    RDMA_NLDEV_ATTR_RES_MR_ENTRY = 41;
    RDMA_NLDEV_ATTR_RES_MRLEN = 45;
    RDMA_NLDEV_ATTR_RES_PD = 46;
    RDMA_NLDEV_ATTR_RES_PD_ENTRY = 47;
    RDMA_NLDEV_ATTR_NDEV_INDEX = 50;
    RDMA_NLDEV_ATTR_NDEV_NAME = 51;
    RDMA_NLDEV_ATTR_RES_PDN = 60;
    RDMA_NLDEV_ATTR_RES_CQN = 61;
    RDMA_NLDEV_ATTR_RES_MRN = 62;
    RDMA_NLDEV_ATTR_RES_CM_IDN = 63;
    RDMA_NLDEV_ATTR_RES_CTXN = 64;
    RDMA_NLDEV_ATTR_LINK_TYPE = 65;
    RDMA_NLDEV_SYS_ATTR_NETNS_MODE = 66;
    RDMA_NLDEV_ATTR_DEV_PROTOCOL = 67;
    RDMA_NLDEV_NET_NS_FD = 68;
    RDMA_NLDEV_ATTR_CHARDEV_TYPE = 69;
    RDMA_NLDEV_ATTR_CHARDEV_NAME = 70;
    RDMA_NLDEV_ATTR_CHARDEV_ABI = 71;
    RDMA_NLDEV_ATTR_CHARDEV = 72;
    RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID = 73;
    RDMA_NLDEV_ATTR_STAT_MODE = 74;
    RDMA_NLDEV_ATTR_STAT_RES = 75;
    RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK = 76;
    RDMA_NLDEV_ATTR_STAT_COUNTER = 77;
    RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY = 78;
    RDMA_NLDEV_ATTR_STAT_COUNTER_ID = 79;
    RDMA_NLDEV_ATTR_STAT_HWCOUNTERS = 80;
    RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY = 81;
    RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME = 82;
    RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE = 83;
    RDMA_NLDEV_ATTR_DEV_DIM = 84;
    RDMA_NLDEV_ATTR_RES_CTX = 86;
    RDMA_NLDEV_ATTR_RES_CTX_ENTRY = 87;
    RDMA_NLDEV_ATTR_RES_SRQ = 88;
    RDMA_NLDEV_ATTR_RES_SRQ_ENTRY = 89;
    RDMA_NLDEV_ATTR_RES_SRQN = 90;
    RDMA_NLDEV_ATTR_MIN_RANGE = 91;
    RDMA_NLDEV_ATTR_MAX_RANGE = 92;
    RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK = 93;
    RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX = 94;
    RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC = 95;
    RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE = 96;
    RDMA_NLDEV_ATTR_DRIVER_DETAILS = 97;
    RDMA_NLDEV_ATTR_RES_SUBTYPE = 98;
    RDMA_NLDEV_ATTR_DEV_TYPE = 99;
    RDMA_NLDEV_ATTR_PARENT_NAME = 100;
    RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE = 101;
    RDMA_NLDEV_ATTR_EVENT_TYPE = 102;
    RDMA_NLDEV_SYS_ATTR_MONITOR_MODE = 103;
    RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED = 104;

    RDMA_NODE_IB_CA = 1;
    RDMA_NODE_IB_SWITCH = 2;
    RDMA_NODE_IB_ROUTER = 3;
    RDMA_NODE_RNIC = 4;
    RDMA_NODE_USNIC = 5;
    RDMA_NODE_USNIC_UDP = 6;
    RDMA_NODE_UNSPECIFIED = 7;

    RDMA_DRIVER_MLX5 = 1;
    RDMA_DRIVER_MLX4 = 2;
    RDMA_DRIVER_CXGB3 = 3;
    RDMA_DRIVER_CXGB4 = 4;
    RDMA_DRIVER_MTHCA = 5;
    RDMA_DRIVER_BNXT_RE = 6;
    RDMA_DRIVER_OCRDMA = 7;
    RDMA_DRIVER_NES = 8;
    RDMA_DRIVER_IRDMA = 9;
    RDMA_DRIVER_VMW_PVRDMA = 10;
    RDMA_DRIVER_QEDR = 11;
    RDMA_DRIVER_HNS = 12;
    RDMA_DRIVER_USNIC = 13;
    RDMA_DRIVER_RXE = 14;
    RDMA_DRIVER_HFI1 = 15;
    RDMA_DRIVER_QIB = 16;
    RDMA_DRIVER_EFA = 17;
    RDMA_DRIVER_SIW = 18;
    RDMA_DRIVER_ERDMA = 19;
    RDMA_DRIVER_MANA = 20;
}

#[cfg(test)]
mod tests {
    use std::{fmt::Write, fs, process::Command};

    use super::ALL;

    /// The constants that the headers of Linux 6.12 (Debian 13) lack.
    const NEWEST: &[&str] = &["RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED"];

    /// Further constants that the headers of Linux 6.1 (Debian 12) lack.
    const NEWER: &[&str] = &[
        "RDMA_DRIVER_MANA",
        "RDMA_NLDEV_ATTR_DEV_TYPE",
        "RDMA_NLDEV_ATTR_DRIVER_DETAILS",
        "RDMA_NLDEV_ATTR_EVENT_TYPE",
        "RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE",
        "RDMA_NLDEV_ATTR_PARENT_NAME",
        "RDMA_NLDEV_ATTR_RES_SUBTYPE",
        "RDMA_NLDEV_CMD_DELDEV",
        "RDMA_NLDEV_CMD_MONITOR",
        "RDMA_NLDEV_CMD_NEWDEV",
        "RDMA_NLDEV_SYS_ATTR_MONITOR_MODE",
        "RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE",
    ];

    /// Compiles a C program against the installed headers (Debian: linux-libc-dev) and compares.
    /// The test is not skipped without the headers. Those of Linux 6.1 have nearly all constants.
    #[test]
    fn every_number_is_the_kernel_headers() {
        let except = |left_out: &[&[&str]]| -> Vec<_> {
            ALL.iter().copied().filter(|(name, _)| !left_out.concat().contains(name)).collect()
        };
        let lists = [except(&[]), except(&[NEWEST]), except(&[NEWEST, NEWER])];
        let compiled = lists.iter().find_map(|ours| Some((ours, numbers_of(ours).ok()?)));
        let (ours, theirs) = compiled.unwrap_or_else(|| panic!("{:?}", numbers_of(&lists[2])));
        let ours = ours.iter().map(|(name, value)| format!("{name} {value}\n")).collect::<String>();
        assert_eq!(ours, theirs);
    }

    /// Returns the numbers in the headers, or the compiler's error.
    fn numbers_of(names: &[(&str, u16)]) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("uapi.c"), dir.path().join("uapi"));
        fs::write(&source, c_program(names)).unwrap();
        let cc = Command::new("cc").arg("-o").args([&program, &source]).output().expect("cc is needed");
        if !cc.status.success() {
            return Err(String::from_utf8_lossy(&cc.stderr).into_owned());
        }
        Ok(String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap())
    }

    fn c_program(names: &[(&str, u16)]) -> String {
        let mut code = String::from(
            "#include <stdio.h>\n#include <linux/netlink.h>\n#include <rdma/rdma_netlink.h>\n\
             #include <rdma/ib_user_ioctl_verbs.h>\nint main(void) {\n",
        );
        for (name, _) in names {
            writeln!(code, "printf(\"%s %d\\n\", \"{name}\", (int)({name}));").unwrap();
        }
        code + "return 0; }\n"
    }
}
