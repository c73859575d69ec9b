//! Repairs one PF or VF.

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

/// Timeout for a link to get its carrier.
const LINK_CARRIER_TIMEOUT: Duration = Duration::from_secs(10);

/// A PF or VF to repair, and the options.
#[derive(Debug)]
pub struct Recover<'a> {
    /// The name of its link, its PCI address, or the name of its RDMA device.
    pub function: &'a str,
    /// The method; without one, the least disruptive steps that may help.
    pub by: Option<RecoverMethod>,
    /// Whether a PF is repaired even if the node's own traffic may run over it.
    pub force_pf: bool,
    /// The node's directories.
    pub node: NodePaths,
    /// The node's hardware.
    pub system: SysfsBackend,
}

/// The result of a repair or of its preview.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoverReport {
    /// The name of the function: its link, or its PCI address.
    pub function: String,
    /// The problems that were found.
    pub wrong: Vec<String>,
    /// The steps that may help, or were taken.
    pub steps: Vec<Step>,
    /// The reasons why the steps must not be taken.
    pub refused: Vec<String>,
    /// Whether the steps were taken.
    pub done: bool,
    /// The problems that remain.
    pub left: Vec<String>,
}

/// A PF or VF could not be repaired.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// This process is not in the node's namespaces.
    #[error(transparent)]
    NotTheNode(#[from] netns::NotOnNode),
    /// The node's PFs and VFs could not be read.
    #[error(transparent)]
    Inventory(#[from] inventory::Error),
    /// No PF or VF has this name.
    #[error(
        "there is no function {0:?}: expected the link, the PCI address or the RDMA device of a PF or VF that \
         `silkrail vf list` shows"
    )]
    NoFunction(String),
    /// The lock that another run holds could not be acquired.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// A step failed.
    #[error(transparent)]
    Hardware(#[from] PciBackendError),
}

impl Recover<'_> {
    /// Returns the problems, the steps that would be taken, and the reasons against them.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub fn preview(&self) -> Result<RecoverReport, RecoverError> {
        netns::require_node_netns(&self.node.root)?;
        Ok(self.plan(&self.find(self.function)?))
    }

    /// Takes the steps, unless they are refused. `progress` is called before each step.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub fn run(&self, progress: &dyn Fn(&str, Step)) -> Result<RecoverReport, RecoverError> {
        netns::require_node_netns(&self.node.root)?;
        // `silkrail apply` may be changing the same function.
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
            wrong: function.problems(),
            refused: function.obstacles(&steps, self.force_pf),
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

    /// Waits until the function has no problems, or until the timeout; returns the problems that remain. The function is
    /// found by its PCI address, since a driver that was bound again may give the link another name at first.
    fn wait(&self, function: &BrokenFunction) -> Result<Vec<String>, RecoverError> {
        let until = Instant::now() + LINK_CARRIER_TIMEOUT;
        loop {
            let problems = self.find(&function.pci.to_string())?.problems();
            if problems.is_empty() || Instant::now() >= until {
                return Ok(problems);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::node::without_pfs;

    #[test]
    fn who_recovers_waits_for_who_applies() {
        let (_root, node, system) = without_pfs();
        let other = lock(&node, Duration::ZERO).unwrap();
        let recover = Recover { function: "eth0", by: None, force_pf: false, node, system };
        let run = || recover.run(&|_, _| {}).unwrap_err();
        assert!(matches!(run(), RecoverError::File(statefile::Error::Busy { .. })));
        drop(other);
        assert!(matches!(run(), RecoverError::NoFunction(_)));
    }
}
