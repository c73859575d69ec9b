//! The file systems that the plugins write to.

use crate::{Finding, FindingId, NodeFacts};

const NOT_A_DIRECTORY: FindingId =
    FindingId::new("state-not-a-directory", "The state directory, or the directory of records, is a file");
const READ_ONLY: FindingId = FindingId::new(
    "state-read-only",
    "The file system of the state directory or of the records is read-only",
);
const FULL: FindingId =
    FindingId::new("state-full", "The file system of the state directory or of the records is full");

pub(super) const IDS: &[FindingId] = &[NOT_A_DIRECTORY, READ_ONLY, FULL];

/// Less free space than this is reported: a journal has a few kilobytes, a claim is a symbolic link.
const MIN_BYTES: u64 = 1 << 20;
const MIN_FILES: u64 = 256;

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for system in &facts.file_systems {
        let directory = &system.directory;
        if system.is_file {
            let finding = NOT_A_DIRECTORY.error(directory, "it is not a directory: no pod can be attached");
            found.push(
                finding
                    .because("a file has its name, or that of a directory above it")
                    .fix("remove the file"),
            );
            continue;
        }
        if system.read_only {
            let finding = READ_ONLY
                .error(directory, "its file system is read-only: no pod can be attached or released");
            found.push(
                finding
                    .because("statvfs: ST_RDONLY")
                    .fix("find the reason in the kernel's log (dmesg), and mount it for writing"),
            );
            continue;
        }
        let files = system.free_files.filter(|files| *files < MIN_FILES);
        if system.free_bytes < MIN_BYTES || files.is_some() {
            let finding =
                FULL.error(directory, "its file system is full: no pod can be attached or released");
            let finding = finding.because(format!("{} bytes are free", system.free_bytes));
            let finding = finding.because_all(files.map(|files| format!("{files} files are free")));
            found.push(finding.fix(format!(
                "`df {directory}` and `df -i {directory}` show the file system: remove files, or enlarge it"
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;
    use crate::facts::file_systems::FileSystem;

    fn found(system: FileSystem) -> Vec<String> {
        let system = FileSystem { directory: "/run/silkrail".into(), ..system };
        with(|facts| facts.file_systems.push(system))
    }

    #[test]
    fn the_plugins_can_write_their_state() {
        let roomy = FileSystem { free_bytes: 1 << 30, free_files: Some(10_000), ..FileSystem::default() };
        assert!(found(roomy.clone()).is_empty());
        let least = FileSystem { free_bytes: 1 << 20, free_files: Some(256), ..FileSystem::default() };
        assert!(found(least.clone()).is_empty());
        let each = with(|facts| {
            let system = |directory: &str, system: &FileSystem| FileSystem {
                directory: directory.into(),
                ..system.clone()
            };
            facts.file_systems = vec![
                system("/a", &FileSystem { is_file: true, ..roomy.clone() }),
                system("/b", &FileSystem { read_only: true, ..roomy.clone() }),
                system("/c", &FileSystem { free_bytes: (1 << 20) - 1, ..least.clone() }),
                system("/d", &FileSystem { free_files: Some(255), ..least }),
            ];
        });
        let expected = [
            "error state-not-a-directory /a",
            "error state-read-only /b",
            "error state-full /c",
            "error state-full /d",
        ];
        assert_eq!(each, expected);
        assert!(found(FileSystem { free_files: None, ..roomy.clone() }).is_empty());
        assert_eq!(
            found(FileSystem { free_bytes: 4096, ..roomy.clone() }),
            ["error state-full /run/silkrail"]
        );
        assert_eq!(
            found(FileSystem { free_files: Some(0), ..roomy.clone() }),
            ["error state-full /run/silkrail"]
        );
        assert_eq!(
            found(FileSystem { read_only: true, ..roomy.clone() }),
            ["error state-read-only /run/silkrail"]
        );
        assert_eq!(
            found(FileSystem { is_file: true, ..roomy }),
            ["error state-not-a-directory /run/silkrail"]
        );
    }
}
