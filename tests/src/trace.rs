//! The netlink requests of a plugin, as recorded by strace.

use std::{fs, path::PathBuf};

use testkit::{Answer, Call, TestNode};

/// Runs calls under strace, and records the netlink messages that they send.
#[derive(Debug)]
pub struct StraceRun {
    file: PathBuf,
    /// One line of strace's output for each message.
    pub sent: Vec<String>,
}

impl StraceRun {
    /// Returns a recorder without messages.
    pub fn new(node: &TestNode) -> Self {
        Self { file: node.state_dir().with_file_name("trace"), sent: Vec::new() }
    }

    /// Makes a call and records the messages that it sends.
    ///
    /// # Panics
    /// If strace shows no message.
    pub fn run(&mut self, call: &Call, make: impl FnOnce(&Call) -> Answer) -> Answer {
        let file = self.file.to_str().unwrap();
        let answer =
            make(&call.clone().under(&["strace", "-fvxx", "-s8192", "-etrace=sendto,sendmsg", "-o", file]));
        let text = fs::read_to_string(&self.file).unwrap();
        let sent: Vec<_> =
            text.lines().filter(|line| line.contains("nlmsg_type")).map(str::to_owned).collect();
        assert!(!sent.is_empty(), "strace shows no message: {answer:?}: {text}");
        self.sent.extend(sent);
        answer
    }

    /// Returns the number of queries for the VFs of a link: `IFLA_EXT_MASK` (29) with `RTEXT_FILTER_VF` (1).
    pub fn vf_queries(&self) -> usize {
        let is_query = |line: &&String| {
            let raw = line.split(r"\x08\x00\x1d\x00\x").skip(1).any(|rest| {
                rest.get(..2)
                    .and_then(|byte| u8::from_str_radix(byte, 16).ok())
                    .is_some_and(|mask| mask & 1 == 1)
            });
            raw || line.contains("RTEXT_FILTER_VF")
        };
        self.sent.iter().filter(is_query).count()
    }

    /// Returns the number of queries for a link or a list of links: `RTM_GETLINK` (18).
    pub fn link_queries(&self) -> usize {
        let is_query = |line: &&String| line.contains("RTM_GETLINK") || line.contains("nlmsg_type=0x12 ");
        self.sent.iter().filter(is_query).count()
    }

    /// Returns the number of requests to a PF that change a VF: `IFLA_VFINFO_LIST` (22) in an `RTM_NEWLINK` (16).
    pub fn vf_changes(&self) -> usize {
        let is_change = |line: &&String| {
            let raw = line.contains("nlmsg_type=0x10 ")
                && (line.contains(r"\x16\x80") || line.contains(r"\x16\x00"));
            raw || line.contains("IFLA_VFINFO_LIST")
        };
        self.sent.iter().filter(is_change).count()
    }
}
