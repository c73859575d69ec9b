//! Indexes of VFs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The index of a VF on its PF, from 0: the N in `ip link set PF vf N` and in sysfs' `virtfnN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VfIndex(pub u32);

impl fmt::Display for VfIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
