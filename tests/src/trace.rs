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
            line.contains("RTEXT_FILTER_VF")
                || line.contains("nlmsg_type=0x12 ")
                    && attributes(line).iter().any(|(kind, value)| *kind == 29 && value[0] & 1 == 1)
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
            line.contains("IFLA_VFINFO_LIST")
                || line.contains("nlmsg_type=0x10 ") && attributes(line).iter().any(|(kind, _)| *kind == 22)
        };
        self.sent.iter().filter(is_change).count()
    }
}

/// Returns the type and value of each attribute of a request about a link that strace shows as bytes, as it does if the kernel cannot
/// tell it the socket's protocol. Empty if strace has decoded it.
fn attributes(line: &str) -> Vec<(u16, Vec<u8>)> {
    let Some((_, text)) = line.split_once("}, \"\\x") else { return Vec::new() };
    let text = text.split('"').next().unwrap();
    let bytes: Vec<_> = text
        .split(r"\x")
        .map(|byte| u8::from_str_radix(byte, 16).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    // The attributes follow a struct ifinfomsg of 16 bytes. Each begins at a multiple of 4.
    let mut rest = bytes.get(16..).unwrap_or_default();
    let mut attributes = Vec::new();
    while let [a, b, c, d, ..] = *rest {
        let [length, kind] = [[a, b], [c, d]].map(u16::from_ne_bytes);
        let length = usize::from(length);
        attributes.push((kind & !NESTED, rest[4..length].to_vec()));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    attributes
}

/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;
