//! Finds a network namespace that its path does not lead to: the path may be that of a process, of which others still run, or
//! it is mounted where this process does not see it.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use crate::{LiveNetns, NetNs, NetNsId, NotOnNode, liveness::HeldNetNs};

/// The namespaces that were found to be gone. They do not return, so all processes need not be read again for each change of
/// a pod.
static GONE: Mutex<Vec<NetNsId>> = Mutex::new(Vec::new());

/// How often all processes are read, if those that held the namespace ended meanwhile.
const MAX_SCANS: usize = 3;

impl NetNs {
    /// Opens a namespace wherever a thread, a mount or an open file holds it, on the node with the root directory `root`.
    /// `None` if it is gone, or if its ID has no cookie: a later namespace may have its inode number.
    ///
    /// # Errors
    /// If it may exist and cannot be opened, or not all processes can be read.
    pub fn find_held(root: &Path, id: NetNsId) -> Result<Option<Self>, NotOnNode> {
        if id.cookie.is_none() || Self::is_known_gone(id) {
            return Ok(None);
        }
        for _ in 0..MAX_SCANS {
            match LiveNetns::scan(root)?.open_held(id)? {
                HeldNetNs::Open(netns) => return Ok(Some(netns)),
                HeldNetNs::Gone => {
                    GONE.lock().unwrap_or_else(PoisonError::into_inner).push(id);
                    return Ok(None);
                }
                HeldNetNs::Ended => {}
            }
        }
        Err(NotOnNode::Changing { id })
    }

    /// Whether [`NetNs::find_held`] found that a namespace is gone.
    pub fn is_known_gone(id: NetNsId) -> bool {
        let gone = GONE.lock().unwrap_or_else(PoisonError::into_inner);
        id.cookie.is_some() && gone.iter().any(|gone| gone.is(id))
    }
}
