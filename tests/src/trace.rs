//! What a plugin asks of the kernel, by strace's account.

use std::{fs, path::PathBuf};

use testkit::{Answer, Call, TestNode};

/// Runs calls and keeps what they sent to the kernel.
#[derive(Debug)]
pub struct StraceRun {
    file: PathBuf,
    /// One line for each message.
    pub sent: Vec<String>,
}

impl StraceRun {
    /// Nothing was called yet.
    pub fn new(node: &TestNode) -> Self {
        Self { file: node.state_dir().with_file_name("trace"), sent: Vec::new() }
    }

    /// Makes a call and notes what it sends.
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

    /// How often it asked for the VFs of a link: `IFLA_EXT_MASK` (29) with `RTEXT_FILTER_VF` (1).
    pub fn vf_queries(&self) -> usize {
        let asks = |line: &&String| {
            let raw = line.split(r"\x08\x00\x1d\x00\x").skip(1).any(|rest| {
                rest.get(..2)
                    .and_then(|byte| u8::from_str_radix(byte, 16).ok())
                    .is_some_and(|mask| mask & 1 == 1)
            });
            raw || line.contains("RTEXT_FILTER_VF")
        };
        self.sent.iter().filter(asks).count()
    }

    /// How often it asked for a link or a list of them: `RTM_GETLINK` (18).
    pub fn link_queries(&self) -> usize {
        let asks = |line: &&String| line.contains("RTM_GETLINK") || line.contains("nlmsg_type=0x12 ");
        self.sent.iter().filter(asks).count()
    }

    /// How often it told a PF something about a VF: `IFLA_VFINFO_LIST` (22) in an `RTM_NEWLINK` (16).
    pub fn vf_changes(&self) -> usize {
        let tells = |line: &&String| {
            let raw = line.contains("nlmsg_type=0x10 ")
                && (line.contains(r"\x16\x80") || line.contains(r"\x16\x00"));
            raw || line.contains("IFLA_VFINFO_LIST")
        };
        self.sent.iter().filter(tells).count()
    }
}
