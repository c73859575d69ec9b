//! The files with the resources.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use device_plugin::{Config, InvalidConfig, ResourceSpec};
use tracing::warn;

/// Why a file is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigFileError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {error}", path.display())]
    Invalid { path: PathBuf, error: InvalidConfig },
}

/// The configurations of all files.
pub(super) struct ConfigFiles(Vec<(PathBuf, Config)>);

impl ConfigFiles {
    pub(super) fn read(files: &[PathBuf]) -> Result<Self, ConfigFileError> {
        files.iter().map(|path| Ok((path.clone(), read(path)?))).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the resources, and reports what is invalid: the other resources are used.
    pub(super) fn into_resources(self) -> Vec<ResourceSpec> {
        let mut resources: BTreeMap<_, (usize, ResourceSpec)> = BTreeMap::new();
        for (path, config) in self.0 {
            let file = path.display();
            config.findings.iter().for_each(|finding| warn!("{file}: {finding}"));
            for resource in config.resources {
                let number = resources.len();
                if let Some((_, first)) = resources.get(&resource.name) {
                    let (name, at, first) = (&resource.name, &resource.path, &first.path);
                    warn!(
                        "{file}: {at}: the resource {name} is already at {first} (the resource is not used)"
                    );
                    continue;
                }
                resources.insert(resource.name.clone(), (number, resource));
            }
        }
        // A device belongs to the first resource that selects it, in the order of the files.
        let mut resources: Vec<_> = resources.into_values().collect();
        resources.sort_by_key(|(number, _)| *number);
        resources.into_iter().map(|(_, resource)| resource).collect()
    }
}

fn read(path: &Path) -> Result<Config, ConfigFileError> {
    let text =
        fs::read_to_string(path).map_err(|source| ConfigFileError::Read { path: path.to_owned(), source })?;
    Config::parse(&text).map_err(|error| ConfigFileError::Invalid { path: path.to_owned(), error })
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
            format!("configList: [{{resourceName: {name}, rdmaHcaMax: {slots}, selectors: {{}}}}]")
        };
        let (_dir, paths) = files(&[&resource("z", 1), &resource("a", 2), &resource("z", 3)]);
        let resources = ConfigFiles::read(&paths).unwrap().into_resources();
        let found: Vec<_> =
            resources.iter().map(|resource| (resource.name.to_string(), resource.mode)).collect();
        let shared = |slots| device_plugin::ResourceMode::Shared { slots };
        assert_eq!(found, [("rdma/z".into(), shared(1)), ("rdma/a".into(), shared(2))]);
    }

    #[test]
    fn an_error_has_the_path_of_the_file() {
        let (dir, paths) = files(&["a: ["]);
        let error = |paths: &[PathBuf]| ConfigFiles::read(paths).err().unwrap().to_string();
        assert!(error(&paths).starts_with(&format!("{}: line ", paths[0].display())), "{}", error(&paths));
        let missing = dir.path().join("none.json");
        assert!(error(&[missing]).contains("none.json: No such file"));
    }
}
