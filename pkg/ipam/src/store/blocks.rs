//! The blocks that the node has of a cluster's pools: one file per block.
//!
//! An address of a block is claimed in two steps: the claim is created, then the file of the block is read. If it is gone, the
//! claim is removed and the address is not used. A block is withdrawn in the opposite order: its file is moved away, then the
//! claims are read. So either the claiming process finds that the file is gone, or the withdrawing one finds the claim, even if
//! one of them is stopped between its steps.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    net::IpAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::{IpBlock, LocalStore, Pool, StoreError, store::kill_point};

/// The directory of the blocks whose addresses can be claimed.
const OFFERED: &str = "blocks";
/// The directory of the blocks whose addresses cannot be claimed any more, but may be in use.
const WITHDRAWN: &str = "withdrawn";

impl LocalStore {
    /// Returns the blocks of the node from which addresses can be claimed, sorted.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn blocks(&self) -> Result<Vec<IpBlock>, StoreError> {
        list(&self.root.join(OFFERED))
    }

    /// Returns the blocks that were [withdrawn](Self::withdraw) and not [forgotten](Self::forget), sorted.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn withdrawn(&self) -> Result<Vec<IpBlock>, StoreError> {
        list(&self.root.join(WITHDRAWN))
    }

    /// Allows claims of a block's addresses. Succeeds if they are allowed already.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn offer(&self, block: IpBlock) -> Result<(), StoreError> {
        let offered = self.directory(OFFERED)?.join(block.to_string());
        kill_point::point();
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&offered);
        file.map(drop).map_err(StoreError::io("create", offered))?;
        self.forget(block)
    }

    /// Ends claims of a block's addresses, and returns those that are claimed: they stay so. If there are none, and the block is
    /// not offered again, none of its addresses will be used on this node.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn withdraw(&self, block: IpBlock) -> Result<Vec<IpAddr>, StoreError> {
        let offered = self.root.join(OFFERED).join(block.to_string());
        let withdrawn = self.directory(WITHDRAWN)?.join(block.to_string());
        kill_point::point();
        match fs::rename(&offered, withdrawn) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io("rename", offered)(error));
            }
            _ => {}
        }
        kill_point::point();
        self.claimed_in(block)
    }

    /// Forgets a withdrawn block. Succeeds if it is not known.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn forget(&self, block: IpBlock) -> Result<(), StoreError> {
        let withdrawn = self.root.join(WITHDRAWN).join(block.to_string());
        kill_point::point();
        match fs::remove_file(&withdrawn) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", withdrawn)(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the claimed addresses of a block.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn claimed_in(&self, block: IpBlock) -> Result<Vec<IpAddr>, StoreError> {
        // Not a listing of the directory: it may miss claims that are created meanwhile.
        let mut claimed = Vec::new();
        for address in block.addresses() {
            if self.claims.owner(address)?.is_some() {
                claimed.push(address);
            }
        }
        Ok(claimed)
    }

    /// Whether a claim that was just created may be used. If not, it is removed.
    pub(super) fn confirm(&self, pool: &Pool, address: IpAddr, owner: &str) -> Result<bool, StoreError> {
        let Some(blocks) = &pool.blocks else { return Ok(true) };
        kill_point::point();
        for block in blocks.iter().filter(|block| block.contains(address)) {
            let path = self.root.join(OFFERED).join(block.to_string());
            if fs::exists(&path).map_err(StoreError::io("read", path))? {
                return Ok(true);
            }
        }
        self.claims.remove::<StoreError>(address, owner, || Ok(true))?;
        Ok(false)
    }

    /// Creates a directory of the store, if it does not exist.
    fn directory(&self, name: &str) -> Result<PathBuf, StoreError> {
        let directory = self.root.join(name);
        kill_point::point();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(StoreError::io("create directory", &directory))?;
        Ok(directory)
    }
}

fn list(directory: &Path) -> Result<Vec<IpBlock>, StoreError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(StoreError::io("list", directory))?,
    };
    let mut blocks = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("list", directory))?;
        blocks.extend(entry.file_name().to_str().and_then(|name| name.parse::<IpBlock>().ok()));
    }
    blocks.sort_unstable();
    Ok(blocks)
}
