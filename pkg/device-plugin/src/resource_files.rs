//! The files with the resources.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use crate::{Config, Fabric, InvalidConfig, ReadOptions, ResourceSpec};

/// Why a file is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ResourceFileError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// It is not a mapping with resources.
    #[error("{}: {error}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The error.
        error: InvalidConfig,
    },
}

/// The resources of several files.
#[derive(Debug, Default)]
pub struct ResourceFiles {
    /// In the order of the files: a device belongs to the first resource that selects it.
    pub resources: Vec<ResourceSpec>,
    /// Where the ports of the nodes are in the fabric. What the first file says is used.
    pub fabric: Fabric,
    /// What is invalid: the other resources are used.
    pub findings: Vec<FileFinding>,
}

/// What is invalid in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFinding {
    /// The file.
    pub file: PathBuf,
    /// What is wrong, and what is expected, with line and key.
    pub what: String,
}

impl fmt::Display for FileFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

impl ResourceFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// [`ResourceFileError`] for the first file that is no configuration.
    pub fn read(files: &[PathBuf], options: ReadOptions<'_>) -> Result<Self, ResourceFileError> {
        let mut read_files = Self::default();
        let mut paths = BTreeMap::new();
        for file in files {
            let config = read(file, options)?;
            read_files.fabric.add(config.fabric);
            let finding = |what: String| FileFinding { file: file.clone(), what };
            read_files.findings.extend(config.findings.iter().map(|it| finding(it.to_string())));
            for resource in config.resources {
                let (name, at) = (resource.name.clone(), resource.path.clone());
                match paths.get(&name) {
                    None => {
                        paths.insert(name, format!("{}: {at}", file.display()));
                        read_files.resources.push(resource);
                    }
                    Some(first) => read_files.findings.push(finding(format!(
                        "{at}: the resource {name} is already at {first} (the resource is not used)"
                    ))),
                }
            }
        }
        Ok(read_files)
    }
}

fn read(path: &Path, options: ReadOptions<'_>) -> Result<Config, ResourceFileError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ResourceFileError::Read { path: path.to_owned(), source })?;
    Config::with(&text, options).map_err(|error| ResourceFileError::Invalid { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[&str]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().unwrap();
        let write = |(number, text): (usize, &&str)| {
            let path = dir.path().join(format!("{number}.json"));
            fs::write(&path, text).unwrap();
            path
        };
        let paths = texts.iter().enumerate().map(write).collect();
        (dir, paths)
    }

    #[test]
    fn resources_are_in_the_order_of_the_files_and_the_first_of_a_name_is_used() {
        let resource = |name: &str, slots: u32| {
            format!(
                "configList: [{{resourceName: {name}, rdmaHcaMax: {slots}, selectors: {{ifNames: [p0]}}}}]\nrails: {{p{slots}: {slots}, p0: {slots}}}"
            )
        };
        let (_dir, paths) = files(&[&resource("z", 1), &resource("a", 2), &resource("z", 3)]);
        let read = ResourceFiles::read(&paths, ReadOptions::default()).unwrap();
        let found: Vec<_> =
            read.resources.iter().map(|resource| (resource.name.to_string(), resource.mode)).collect();
        let shared = |slots| crate::ResourceMode::Shared { slots };
        assert_eq!(found, [("rdma/z".into(), shared(1)), ("rdma/a".into(), shared(2))]);
        let rails = [("p0", 1), ("p1", 1), ("p2", 2), ("p3", 3)].map(|(pf, rail)| (pf.to_owned(), rail));
        assert_eq!(read.fabric.rails, rails.into());
        let expected = format!(
            "{}: configList[0]: the resource rdma/z is already at {}: configList[0] (the resource is not used)",
            paths[2].display(),
            paths[0].display()
        );
        assert_eq!(read.findings.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn the_findings_of_all_files_are_there() {
        let (_dir, paths) = files(&["configList: []\nx: 1", "configList: []\ny: 1"]);
        let found = ResourceFiles::read(&paths, ReadOptions::default()).unwrap().findings;
        let files: Vec<_> = found.iter().map(|finding| &finding.file).collect();
        assert_eq!(files, [&paths[0], &paths[1]]);
        assert!(found[1].what.starts_with("line 2: y: unknown key"), "{found:?}");
    }

    #[test]
    fn an_error_has_the_path_of_the_file() {
        let (dir, paths) = files(&["a: ["]);
        let error =
            |paths: &[PathBuf]| ResourceFiles::read(paths, ReadOptions::default()).err().unwrap().to_string();
        assert!(error(&paths).starts_with(&format!("{}: line ", paths[0].display())), "{}", error(&paths));
        let missing = dir.path().join("none.json");
        assert!(error(&[missing]).contains("none.json: No such file"));
    }
}
