//! The state of a node that a plan needs.

use std::{collections::BTreeMap, path::Path};

use identifiers::PciAddress;
use inventory::{Inventory, NodePaths};

use crate::{DcbReading, NodeFile, PfRecord};

/// The state of a node, read at one time.
#[derive(Debug)]
pub struct NodeReading {
    /// The PFs and VFs.
    pub inventory: Inventory,
    /// What was changed since the boot, by the PF.
    pub records: BTreeMap<PciAddress, PfRecord>,
    /// The DCB settings of PFs, if the node file or a record concerns them.
    pub dcb: BTreeMap<PciAddress, DcbReading>,
}

/// The state of a node could not be read.
#[derive(Debug, thiserror::Error)]
pub enum NodeReadingError {
    /// The PFs and VFs could not be read.
    #[error(transparent)]
    Inventory(#[from] inventory::Error),
    /// A record could not be read.
    #[error(transparent)]
    Record(#[from] statefile::Error),
}

impl NodeReading {
    /// Reads the state of a node. `records` is the directory of the [`PfRecord`]s.
    ///
    /// # Errors
    /// [`NodeReadingError`].
    pub fn read(node: &NodePaths, records: &Path, file: &NodeFile) -> Result<Self, NodeReadingError> {
        let inventory = Inventory::read(node)?;
        let mut reading = Self { inventory, records: BTreeMap::new(), dcb: BTreeMap::new() };
        for pf in &reading.inventory.pfs {
            let record = PfRecord::read(records, pf.pci)?;
            let is_changed = record.as_ref().is_some_and(|record| !record.dcb.is_empty());
            let is_wanted =
                file.pfs.iter().any(|settings| settings.dcb.is_some() && settings.matches.holds(pf));
            if is_changed || is_wanted {
                reading.dcb.insert(pf.pci, DcbReading::read(pf));
            }
            reading.records.extend(record.map(|record| (pf.pci, record)));
        }
        Ok(reading)
    }
}
