//! The pools of a node, from the plugin's configuration and from a directory.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    InvalidValue, IpRange, Pool, PoolReadError, PoolWarnings, SkipReason, SkippedPool,
    document::{self, PoolDocument},
    pool_entry::PoolEntry,
    pool_file_name::is_pool_file,
};

/// Pools in the order in which they were read. Each name is contained once.
#[derive(Debug, Clone, Default)]
pub struct Pools {
    entries: Vec<PoolEntry>,
    reserved: Vec<IpRange>,
    ignored: Vec<IgnoredDocument>,
    remarks: PoolWarnings,
    /// Whether the pools come from an index, so that there may be others.
    partial: bool,
    /// Whether an I/O error occurred, which may be temporary: the result must not be indexed.
    pub(crate) has_io_error: bool,
}

/// A document that is not a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredDocument {
    /// The file, and the number of the document if it has several.
    pub origin: String,
    /// Why it is ignored.
    pub reason: String,
}

impl Pools {
    /// Parses `pools` of a configuration: a list of objects with `name` and the keys of a `SpiderIPPool`'s `spec`.
    /// `null` is an empty list.
    ///
    /// # Errors
    /// [`PoolReadError::Invalid`] with the origin `pools[index]`.
    pub fn from_inline(value: &Value) -> Result<Self, PoolReadError> {
        let invalid = |origin: String| move |problem| PoolReadError::Invalid { origin, problem };
        let mut pools = Self::default();
        let items = match value {
            Value::Null => return Ok(pools),
            Value::Array(items) => items,
            other => {
                let problem = InvalidValue::Type { expected: "a list of pools", found: other.to_string() };
                return Err(invalid("configuration".to_owned())(problem.at("pools")));
            }
        };
        for (index, item) in items.iter().enumerate() {
            let origin = format!("pools[{index}]");
            let objects = document::read_inline(item).map_err(invalid(origin.clone()))?;
            pools.add(objects, &origin, true);
        }
        pools.subtract_reserved();
        Ok(pools)
    }

    /// Reads the `*.yaml`, `*.yml` and `*.json` files of a directory in the order of their names. Files whose
    /// name starts with a dot are skipped.
    ///
    /// If a file cannot be used, only its own pools are missing. A directory that does not exist has no pools.
    /// [`Pools::remarks`] reports both.
    ///
    /// # Errors
    /// [`PoolReadError::Io`] if the directory cannot be listed; [`PoolReadError::Reservation`] if a file that cannot be used
    /// may reserve addresses.
    pub fn read_dir(path: &Path) -> Result<Self, PoolReadError> {
        let mut pools = Self::default();
        let Some(files) = files(path)? else {
            pools.remarks.no_directory(path);
            return Ok(pools);
        };
        for file in files {
            match pools_of_file(&file) {
                Ok(found) => pools.take(found),
                Err(UnusableFile { error, may_reserve: true }) => {
                    return Err(PoolReadError::Reservation(Box::new(error)));
                }
                Err(UnusableFile { error, .. }) => {
                    pools.has_io_error |= matches!(error, PoolReadError::Io { .. });
                    pools.remarks.unusable_file(&error);
                }
            }
        }
        pools.subtract_reserved();
        Ok(pools)
    }

    /// Parses the pools of one file. `path` is used in messages; if it ends in `.json`, `text` is JSON, else YAML.
    ///
    /// # Errors
    /// [`PoolReadError`] if the text cannot be parsed or contains an invalid value.
    pub fn from_text(text: &str, path: &Path) -> Result<Self, PoolReadError> {
        let mut pools = Self::default();
        pools.add_text(text, path)?;
        pools.subtract_reserved();
        Ok(pools)
    }

    /// Appends the pools of `other`. Addresses that are reserved in one are reserved in both.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.take(other);
        self.subtract_reserved();
        self
    }

    /// Whether the pools come from an index: others may exist, and fields that only error messages need are empty.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// Returns all pools in order.
    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.entries.iter().map(|entry| &entry.pool)
    }

    /// Returns the pool with that name.
    pub fn get(&self, name: &str) -> Option<&Pool> {
        self.iter().find(|pool| pool.name.as_str() == name)
    }

    /// Returns the number of pools.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no pools.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the addresses of all `SpiderReservedIP` objects.
    pub fn reserved(&self) -> &[IpRange] {
        &self.reserved
    }

    /// Returns the documents that are not pools.
    pub fn ignored(&self) -> &[IgnoredDocument] {
        &self.ignored
    }

    /// Returns the missing directories and the files that cannot be used.
    pub fn remarks(&self) -> &PoolWarnings {
        &self.remarks
    }

    /// Returns the pools that are not used because their name is defined twice, with both places.
    pub fn contested(&self) -> impl Iterator<Item = SkippedPool> {
        self.entries.iter().filter_map(|entry| {
            let reason = SkipReason::contested(entry)?;
            Some(SkippedPool { pool: entry.pool.name.clone(), reason })
        })
    }

    /// Returns the suffix of an error message that another pool could have avoided: the files that cannot be used, and the
    /// pools whose name is defined twice.
    pub fn unusable(&self) -> String {
        let contested =
            self.contested().map(|SkippedPool { pool, reason }| format!("; IPPool {pool}: {reason}"));
        self.remarks.to_string() + &contested.collect::<String>()
    }

    pub(crate) fn entries(&self) -> &[PoolEntry] {
        &self.entries
    }

    /// Returns the pools of an index, from which the reserved ranges are already subtracted.
    pub(crate) fn of_index(pools: Vec<Pool>, reserved: Vec<IpRange>) -> Self {
        let entry = |pool| PoolEntry { pool, inline: false, origin: String::new(), rival: None };
        Self { entries: pools.into_iter().map(entry).collect(), reserved, partial: true, ..Self::default() }
    }

    fn add_text(&mut self, text: &str, path: &Path) -> Result<(), PoolReadError> {
        let documents = if path.extension().is_some_and(|extension| extension == "json") {
            let documents: Result<Vec<Value>, _> =
                serde_json::Deserializer::from_str(text).into_iter().collect();
            documents.map_err(|problem| PoolReadError::Json { path: path.to_owned(), problem })?
        } else {
            yaml::documents(text).map_err(|problem| PoolReadError::Yaml { path: path.to_owned(), problem })?
        };
        for (index, document) in documents.iter().enumerate() {
            let origin = match documents.len() {
                1 => path.display().to_string(),
                _ => format!("{}, document {}", path.display(), index + 1),
            };
            let objects = document::read(document)
                .map_err(|problem| PoolReadError::Invalid { origin: origin.clone(), problem })?;
            self.add(objects, &origin, false);
        }
        Ok(())
    }

    fn add(&mut self, objects: Vec<PoolDocument>, origin: &str, inline: bool) {
        for object in objects {
            let origin = origin.to_owned();
            match object {
                PoolDocument::Pool(pool) => {
                    self.add_entry(PoolEntry { pool: *pool, inline, origin, rival: None })
                }
                PoolDocument::Reserved(ranges) => self.reserved.extend(ranges),
                PoolDocument::Ignored(reason) => self.ignored.push(IgnoredDocument { origin, reason }),
            }
        }
    }

    fn take(&mut self, other: Self) {
        for entry in other.entries {
            self.add_entry(entry);
        }
        self.reserved.extend(other.reserved);
        self.ignored.extend(other.ignored);
        self.remarks.extend(other.remarks);
        self.partial |= other.partial;
        self.has_io_error |= other.has_io_error;
    }

    /// Adds a pool. If its name exists already, neither of the two is used.
    fn add_entry(&mut self, entry: PoolEntry) {
        match self.entries.iter_mut().find(|first| first.pool.name == entry.pool.name) {
            Some(first) => first.rival = Some(entry.origin),
            None => self.entries.push(entry),
        }
    }

    fn subtract_reserved(&mut self) {
        if !self.reserved.is_empty() {
            for entry in &mut self.entries {
                entry.pool.ranges = entry.pool.ranges.without(&self.reserved);
            }
        }
    }
}

/// A file that cannot be used.
struct UnusableFile {
    error: PoolReadError,
    /// Whether the content mentions reservations or cannot be read at all.
    may_reserve: bool,
}

fn pools_of_file(path: &Path) -> Result<Pools, UnusableFile> {
    let io = |source| PoolReadError::Io { path: path.to_owned(), source };
    let bytes = fs::read(path).map_err(|source| {
        // A dangling link and a directory have no content. A file that vanished since the listing is being replaced.
        let empty = match source.kind() {
            io::ErrorKind::NotFound => path.is_symlink(),
            kind => kind == io::ErrorKind::IsADirectory,
        };
        UnusableFile { error: io(source), may_reserve: !empty }
    })?;
    if bytes.trim_ascii().is_empty() {
        return Err(UnusableFile { error: PoolReadError::Empty(path.to_owned()), may_reserve: true });
    }
    let mut pools = Pools::default();
    let read = match str::from_utf8(&bytes) {
        Ok(text) => pools.add_text(text, path),
        Err(error) => Err(io(io::Error::new(io::ErrorKind::InvalidData, error))),
    };
    match read {
        Ok(()) => Ok(pools),
        Err(error) => Err(UnusableFile { error, may_reserve: may_contain_reservations(&bytes) }),
    }
}

/// Whether a file that cannot be parsed may be a reservation of addresses.
fn may_contain_reservations(bytes: &[u8]) -> bool {
    let contains = |word: &[u8]| bytes.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    // One half of the kind is enough, because the other half may be mistyped.
    contains(b"SpiderR") || contains(b"ReservedIP")
}

/// Returns the pool files of a directory, sorted; `None` if it does not exist.
fn files(directory: &Path) -> Result<Option<Vec<PathBuf>>, PoolReadError> {
    let failed = |source| PoolReadError::Io { path: directory.to_owned(), source };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if is_pool_file(&path) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(Some(files))
}

#[cfg(test)]
mod tests;
