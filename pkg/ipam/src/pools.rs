//! All pools a node knows, from the plugin's configuration and from a directory.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    InvalidPool, InvalidValue, InvalidYaml, IpRange, Pool, PoolWarnings, SkipReason, SkippedPool,
    document::{self, PoolDocument},
    pool_index::{self, PoolDirListing, PoolQuery},
};

/// Pools in the order they were read, each name once.
#[derive(Debug, Clone, Default)]
pub struct Pools {
    entries: Vec<PoolEntry>,
    reserved: Vec<IpRange>,
    ignored: Vec<IgnoredDocument>,
    remarks: PoolWarnings,
    /// Whether there may be more of which is not told.
    partial: bool,
    /// Whether a file could not be read, which another time may be read.
    passing: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct PoolEntry {
    pub(crate) pool: Pool,
    /// Written in the configuration itself.
    pub(crate) inline: bool,
    pub(crate) origin: String,
    /// Where another pool of this name is: nobody can say which is meant.
    pub(crate) rival: Option<String>,
}

/// A document that is no pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredDocument {
    /// Where it stands.
    pub origin: String,
    /// Why it is left alone.
    pub reason: String,
}

/// Pools cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PoolReadError {
    /// A file or the directory.
    #[error("read {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No YAML.
    #[error("{}: {problem}", path.display())]
    Yaml {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: InvalidYaml,
    },
    /// No JSON.
    #[error("{}: {problem}", path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: serde_json::Error,
    },
    /// A document breaks a rule.
    #[error("{origin}: {problem}")]
    Invalid {
        /// Which file and which document.
        origin: String,
        /// Which key and why.
        problem: InvalidPool,
    },
    /// A file without content.
    #[error("{}: it is empty, as one that is just being written; remove it if it is meant so", .0.display())]
    Empty(PathBuf),
    /// A file that cannot be understood may reserve addresses.
    #[error("{0}; no pool of the directory is used, for the file may reserve addresses")]
    Reservation(Box<PoolReadError>),
}

impl Pools {
    /// The pools of a configuration's `pools`: a list of objects with `name` and the keys of a
    /// `SpiderIPPool`'s `spec`. `null` is no pool at all.
    ///
    /// # Errors
    /// [`PoolReadError::Invalid`], naming `pools[index]`.
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

    /// The pools of a directory's `*.yaml`, `*.yml` and `*.json` files in the order of their names; files
    /// whose name begins with a dot are skipped.
    ///
    /// A file that cannot be used harms its own pools only, and a missing directory has none: [`Pools::remarks`] tells
    /// of both.
    ///
    /// # Errors
    /// [`PoolReadError::Io`] if the directory cannot be listed; [`PoolReadError::Reservation`] if a file that cannot be used
    /// may keep addresses of all pools from being given.
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
                    pools.passing |= matches!(error, PoolReadError::Io { .. });
                    pools.remarks.unusable_file(&error);
                }
            }
        }
        pools.subtract_reserved();
        Ok(pools)
    }

    /// As [`Pools::read_dir`], for who needs but some of the pools: an index below the state directory tells of them if
    /// no file was changed since it was made. With `keep` one is made where there is none.
    ///
    /// What comes of an index [is partial](Pools::is_partial): whoever does not find there what was wanted has to read
    /// the directory.
    ///
    /// # Errors
    /// As [`Pools::read_dir`].
    pub fn read_wanted(
        path: &Path,
        wanted: PoolQuery<'_>,
        state: &Path,
        keep: bool,
    ) -> Result<Self, PoolReadError> {
        let listing = PoolDirListing::of(path);
        if let Some(found) =
            listing.as_ref().and_then(|listing| pool_index::find(state, path, listing, wanted))
        {
            return Ok(found);
        }
        let pools = Self::read_dir(path)?;
        if let Some(listing) = listing.filter(|_| keep && !pools.passing) {
            pool_index::write_index(state, path, &listing, &pools);
        }
        Ok(pools)
    }

    /// The pools of one file. `path` stands in messages; if it ends in `.json` the text is JSON, else YAML.
    ///
    /// # Errors
    /// Any [`PoolReadError`].
    pub fn from_text(text: &str, path: &Path) -> Result<Self, PoolReadError> {
        let mut pools = Self::default();
        pools.add_text(text, path)?;
        pools.subtract_reserved();
        Ok(pools)
    }

    /// These and then the others'. Addresses reserved in either are reserved in both.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.take(other);
        self.subtract_reserved();
        self
    }

    /// Whether there may be more pools than these, and more to say of them: they come of an index.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// All pools in order.
    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.entries.iter().map(|entry| &entry.pool)
    }

    /// The pool of that name.
    pub fn get(&self, name: &str) -> Option<&Pool> {
        self.iter().find(|pool| pool.name.as_str() == name)
    }

    /// How many pools there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no pool.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Addresses that no pool gives out.
    pub fn reserved(&self) -> &[IpRange] {
        &self.reserved
    }

    /// Documents that were read and are no pools.
    pub fn ignored(&self) -> &[IgnoredDocument] {
        &self.ignored
    }

    /// What kept further pools from being known.
    pub fn remarks(&self) -> &PoolWarnings {
        &self.remarks
    }

    /// The pools that are not used because there are two of their name, and where these are.
    pub fn contested(&self) -> impl Iterator<Item = SkippedPool> {
        self.entries.iter().filter_map(|entry| {
            let reason = SkipReason::contested(entry)?;
            Some(SkippedPool { pool: entry.pool.name.clone(), reason })
        })
    }

    /// What an error adds if another pool could have helped: the files that cannot be used, and the pools of one name.
    pub fn unusable(&self) -> String {
        let contested =
            self.contested().map(|SkippedPool { pool, reason }| format!("; IPPool {pool}: {reason}"));
        self.remarks.to_string() + &contested.collect::<String>()
    }

    pub(crate) fn entries(&self) -> &[PoolEntry] {
        &self.entries
    }

    /// Pools of an index, of which these ranges were taken.
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
        self.passing |= other.passing;
    }

    /// Of two pools of one name neither is used, for nobody can say which was meant.
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

/// A file of which nothing can be used.
struct UnusableFile {
    error: PoolReadError,
    /// Its content, as far as it can be seen, speaks of reservations, or nothing of it can be seen.
    may_reserve: bool,
}

fn pools_of_file(path: &Path) -> Result<Pools, UnusableFile> {
    let io = |source| PoolReadError::Io { path: path.to_owned(), source };
    let bytes = fs::read(path).map_err(|source| {
        // A link that leads nowhere and a directory have no content. A file that was just there is being replaced.
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

/// Whether a file that cannot be understood may be meant to reserve addresses.
fn may_contain_reservations(bytes: &[u8]) -> bool {
    let says = |word: &[u8]| bytes.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    // Half of it is enough: the other half may be what is wrong.
    says(b"SpiderR") || says(b"ReservedIP")
}

/// A directory's pool files, sorted; `None` if it is missing.
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

/// Whether a file of a pool directory is looked at, by its name.
pub(crate) fn is_pool_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_pool_file_name(name.as_encoded_bytes()))
}

/// As [`is_pool_file`], of the name alone.
pub(crate) fn is_pool_file_name(name: &[u8]) -> bool {
    let ends: [&[u8]; 3] = [b".yaml", b".yml", b".json"];
    !name.starts_with(b".") && ends.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests;
