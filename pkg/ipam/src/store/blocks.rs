//! The blocks that the node has of a cluster's pools: one file per block.
//!
//! An address of a block is claimed in two steps: the claim is created, then the file of the block is read. If it is gone, the
//! claim is removed and the address is not used. A block is withdrawn in the opposite order: its file is removed, then the
//! claims are read. So either the claiming process finds that the file is gone, or the withdrawing one finds the claim, even if
//! one of them is stopped between its steps.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    net::IpAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
};

use crate::{IpBlock, LocalStore, Pool, StoreError, store::kill_point};

impl LocalStore {
    /// Returns the blocks of the node from which addresses can be claimed, sorted.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn blocks(&self) -> Result<Vec<IpBlock>, StoreError> {
        let directory = self.blocks_path();
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(StoreError::io("list", &directory))?,
        };
        let mut blocks = Vec::new();
        for entry in entries {
            let entry = entry.map_err(StoreError::io("list", &directory))?;
            blocks.extend(entry.file_name().to_str().and_then(|name| name.parse::<IpBlock>().ok()));
        }
        blocks.sort_unstable();
        Ok(blocks)
    }

    /// Allows claims of a block's addresses. Succeeds if they are allowed already.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn offer(&self, block: IpBlock) -> Result<(), StoreError> {
        let directory = self.blocks_path();
        kill_point::point();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(StoreError::io("create directory", &directory))?;
        let path = directory.join(block.to_string());
        kill_point::point();
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        file.map(drop).map_err(StoreError::io("create", path))
    }

    /// Ends claims of a block's addresses, and returns those that are claimed: they stay so. If there are none, and the block is
    /// not offered again, none of its addresses will be used on this node.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn withdraw(&self, block: IpBlock) -> Result<Vec<IpAddr>, StoreError> {
        let path = self.block_path(block);
        kill_point::point();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io("remove", path)(error));
            }
            _ => {}
        }
        kill_point::point();
        self.claimed_in(block)
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
            let path = self.block_path(*block);
            if fs::exists(&path).map_err(StoreError::io("read", path))? {
                return Ok(true);
            }
        }
        self.claims.remove::<StoreError>(address, owner, || Ok(true))?;
        Ok(false)
    }

    fn blocks_path(&self) -> PathBuf {
        self.root.join("blocks")
    }

    fn block_path(&self, block: IpBlock) -> PathBuf {
        self.blocks_path().join(block.to_string())
    }
}
