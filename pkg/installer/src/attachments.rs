//! The attachments that need the plugins for their DEL.

use std::{collections::BTreeSet, fs, io::ErrorKind, path::Path};

use crate::Error;

/// Returns the attachments (`CONTAINER-ID@IFNAME`) with a journal or a pod map entry below this state directory.
pub(crate) fn below(state: &Path) -> Result<Vec<String>, Error> {
    let mut found = BTreeSet::new();
    // A journal's name ends with the plugin that wrote it.
    for name in names(&state.join("attachments"), ".journal")? {
        found.insert(name.rsplit_once('.').map_or(name.as_str(), |(attachment, _)| attachment).to_owned());
    }
    found.extend(names(&state.join("podmap/v1"), ".json")?);
    Ok(found.into_iter().collect())
}

/// Returns the names in a directory that end with `end`, without it.
fn names(dir: &Path, end: &str) -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Error::io("cannot list", dir))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(Error::io("cannot list", dir))?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(end).filter(|name| !name.starts_with('.')).map(str::to_owned));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_with_several_files_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(below(dir.path()).unwrap().is_empty());
        for path in ["attachments", "podmap/v1"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        for file in [
            "attachments/a@net1.sriov.journal",
            "attachments/a@net1.rdma.journal",
            "attachments/b@net1.macvlan.journal.bad",
            "attachments/.e@net1.macvlan.journal",
            "podmap/v1/a@net1.json",
            "podmap/v1/c@net1.json",
            "podmap/v1/.d@net1.json.new",
        ] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        assert_eq!(below(dir.path()).unwrap(), ["a@net1", "c@net1"]);
    }
}
