//! Bringing one function back to work.

use std::{
    thread,
    time::{Duration, Instant},
};

use inventory::{Inventory, NodePaths};
use rtnl::Handle;
use serde::Serialize;

use crate::{
    PciBackendError, RecoverMethod, RecoverStep as Step, SysfsBackend, broken_function::BrokenFunction, lock,
};

/// How long a link may take to have its carrier.
const LINK_CARRIER_TIMEOUT: Duration = Duration::from_secs(10);

/// A function to recover, and how.
#[derive(Debug)]
pub struct Recover<'a> {
    /// Its link, PCI address or RDMA device.
    pub function: &'a str,
    /// What to do; without it what is gentlest of what may help.
    pub by: Option<RecoverMethod>,
    /// Whether a PF is recovered even if the node's own traffic may run over it.
    pub force_pf: bool,
    /// The node.
    pub node: NodePaths,
    /// Its hardware.
    pub system: SysfsBackend,
}

/// What was found, done and left.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoverReport {
    /// What people call the function.
    pub function: String,
    /// What is wrong with it.
    pub wrong: Vec<String>,
    /// What may help, or was done.
    pub steps: Vec<Step>,
    /// Who is in the way.
    pub refused: Vec<String>,
    /// Whether it was done.
    pub done: bool,
    /// What is wrong with it afterwards.
    pub left: Vec<String>,
}

/// A function could not be recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// What this process sees is not the node's.
    #[error(transparent)]
    NotTheNode(#[from] netns::NotOnNode),
    /// The node could not be looked at.
    #[error(transparent)]
    Inventory(#[from] inventory::Error),
    /// No PF or VF has this name.
    #[error(
        "there is no function {0:?}: expected the link, the PCI address or the RDMA device of a PF or VF that \
         `silkrail vf list` shows"
    )]
    NoFunction(String),
    /// The lock of another run.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// The hardware.
    #[error(transparent)]
    Hardware(#[from] PciBackendError),
}

impl Recover<'_> {
    /// What is wrong, what would be done, and who is in the way.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub fn preview(&self) -> Result<RecoverReport, RecoverError> {
        netns::require_node_netns(&self.node.root)?;
        Ok(self.plan(&self.find(self.function)?))
    }

    /// Does it, unless somebody is in the way. `progress` is told of each step before it is made.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub fn run(&self, progress: &dyn Fn(&str, Step)) -> Result<RecoverReport, RecoverError> {
        netns::require_node_netns(&self.node.root)?;
        // `silkrail apply` may be about to change the same function, or be at it.
        let _alone = lock(&self.node, self.system.limit)?;
        let function = self.find(self.function)?;
        let mut recovery = self.plan(&function);
        if recovery.refused.is_empty() && !recovery.steps.is_empty() {
            for step in &recovery.steps {
                progress(&recovery.function, *step);
                self.make(&function, *step)?;
            }
            recovery.done = true;
            recovery.left = self.wait(&function)?;
        }
        Ok(recovery)
    }

    fn find(&self, name: &str) -> Result<BrokenFunction, RecoverError> {
        let inventory = Inventory::read(&self.node)?;
        let links = Handle::open().map_err(PciBackendError::from)?;
        BrokenFunction::find(&inventory, name, &links)
            .ok_or_else(|| RecoverError::NoFunction(name.to_owned()))
    }

    fn plan(&self, function: &BrokenFunction) -> RecoverReport {
        let steps = function.plan(self.by);
        RecoverReport {
            function: function.name(),
            wrong: function.wrong(),
            refused: function.in_the_way(&steps, self.force_pf),
            steps,
            done: false,
            left: Vec::new(),
        }
    }

    fn make(&self, function: &BrokenFunction, step: Step) -> Result<(), PciBackendError> {
        let system = &self.system;
        match step {
            Step::Down | Step::Up => function.set_up(system, step == Step::Up),
            Step::Release => system.release(function.pci),
            Step::Reset => system.reset(function.pci),
            Step::Bind => system.probe_in_any_case(function.pci, function.should_have_rdma),
        }
    }

    /// What is wrong afterwards. A carrier takes its time. A driver that begins anew gives other names at first: a
    /// function is still known by its address.
    fn wait(&self, function: &BrokenFunction) -> Result<Vec<String>, RecoverError> {
        let until = Instant::now() + LINK_CARRIER_TIMEOUT;
        loop {
            let wrong = self.find(&function.pci.to_string())?.wrong();
            if wrong.is_empty() || Instant::now() >= until {
                return Ok(wrong);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use state::StateDir;
    use sysfs::Sysfs;

    use super::*;

    #[test]
    fn who_recovers_waits_for_who_applies() {
        let root = tempfile::tempdir().unwrap();
        for process in ["self", "1"] {
            let dir = root.path().join("proc").join(process).join("ns");
            fs::create_dir_all(&dir).unwrap();
            symlink("net:[1]", dir.join("net")).unwrap();
        }
        let node = NodePaths { root: root.path().to_owned(), state: StateDir::at(root.path().join("run")) };
        let other = lock(&node, Duration::ZERO).unwrap();
        let sysfs = Sysfs::at(root.path().join("sys"));
        let system = SysfsBackend { sysfs, writer: Vec::new(), limit: Duration::from_millis(100) };
        let recover = Recover { function: "eth0", by: None, force_pf: false, node, system };
        let run = || recover.run(&|_, _| {}).unwrap_err();
        assert!(matches!(run(), RecoverError::File(statefile::Error::Busy { .. })));
        drop(other);
        assert!(matches!(run(), RecoverError::NoFunction(_)));
    }
}
