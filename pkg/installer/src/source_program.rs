//! The executables that are installed, where they come from.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, ReleaseVersion, Sha256, elf, probe, trusted_owners};

/// What the file of all CNI plugins calls itself.
pub(crate) const PLUGINS: &str = "silkrail-cni";

/// Below the directory that was named, and beside it: as hack/build lays them out, and as an image has them.
const PLACES: [&str; 5] = ["", "cni", "bin", "../cni", "../bin"];

/// An executable that runs on this node.
#[derive(Debug)]
pub(crate) struct SourceProgram {
    /// What it calls itself.
    pub(crate) name: &'static str,
    pub(crate) content: Vec<u8>,
    pub(crate) sha256: Sha256,
    pub(crate) release: ReleaseVersion,
}

impl SourceProgram {
    /// The CNI plugins. Their file may have the name of any of them; it must serve all those that are asked for.
    pub(crate) fn plugins(from: &Path, known: &[String], names: &[String]) -> Result<Self, Error> {
        let mut files = vec![PLUGINS];
        files.extend(known.iter().map(String::as_str));
        let (program, path) = Self::find(from, PLUGINS, &files)?;
        for name in names {
            probe::serves(&path, name).map_err(|why| Error::DoesNotRun { path: path.clone(), why })?;
        }
        Ok(program)
    }

    /// A program of its own.
    pub(crate) fn named(from: &Path, name: &'static str) -> Result<Self, Error> {
        Self::find(from, name, &[name]).map(|(program, _)| program)
    }

    fn find(from: &Path, name: &'static str, files: &[&str]) -> Result<(Self, PathBuf), Error> {
        let paths = PLACES.iter().flat_map(|place| files.iter().map(move |file| from.join(place).join(file)));
        let found = paths.into_iter().find(|path| path.is_file());
        let path = found.ok_or_else(|| Error::NoSource { name: name.to_owned(), dir: from.to_owned() })?;
        let path = trusted_owners::require_trusted(&path).map_err(|why| Error::Untrusted { path, why })?;
        let content = fs::read(&path).map_err(Error::io("read", &path))?;
        if let Some(is) = elf::machine(&content).filter(|is| is != std::env::consts::ARCH) {
            return Err(Error::WrongMachine { path, is });
        }
        let refuse = |why| Error::DoesNotRun { path: path.clone(), why };
        let (is, release) = probe::version(&path).map_err(refuse)?;
        if is != name {
            return Err(refuse(format!("it says that it is {is:?}, not {name:?}")));
        }
        Ok((Self { name, sha256: Sha256::of(&content), content, release }, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_programs::{plugins, program};

    fn known() -> Vec<String> {
        vec!["macvlan".into(), "ipvlan".into()]
    }

    fn find(from: &Path) -> Result<SourceProgram, Error> {
        SourceProgram::plugins(from, &known(), &known())
    }

    #[test]
    fn the_plugins_are_found_as_they_are_built_and_as_an_image_has_them() {
        for (file, from) in [
            ("dist/cni/macvlan", "dist/cni"),
            ("dist/cni/ipvlan", "dist"),
            ("dist/cni/macvlan", "dist/bin"),
            ("silkrail-cni", ""),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("dist/cni")).unwrap();
            fs::create_dir_all(dir.path().join("dist/bin")).unwrap();
            plugins(&dir.path().join(file), "0.1.0");
            assert_eq!(find(&dir.path().join(from)).unwrap().release, ReleaseVersion::new("0.1.0"), "{file}");
        }
    }

    #[test]
    fn what_others_can_change_is_not_even_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("macvlan");
        program(&file, &format!("touch {}/ran; echo silkrail-cni 1.0.0", dir.path().display()));
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        let error = find(dir.path()).unwrap_err();
        assert!(matches!(error, Error::Untrusted { .. }), "{error}");
        assert!(
            error.to_string().contains("belongs to user 65534") && !dir.path().join("ran").exists(),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_there_or_something_else_is_told() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(find(dir.path()), Err(Error::NoSource { .. })));
        program(&dir.path().join("macvlan"), "echo bridge 1.0.0");
        assert!(find(dir.path()).unwrap_err().to_string().contains("it says that it is \"bridge\""));
        program(&dir.path().join("macvlan"), "[ \"$1\" = --version ] && echo silkrail-cni 1.0.0");
        assert!(find(dir.path()).unwrap_err().to_string().contains("does not run as it should here"));
    }

    #[test]
    fn an_executable_for_another_processor_is_told_before_it_is_tried() {
        let dir = tempfile::tempdir().unwrap();
        let mut content = fs::read("/proc/self/exe").unwrap();
        content[18..20].copy_from_slice(&22_u16.to_le_bytes());
        fs::write(dir.path().join("silkrail-cni"), content).unwrap();
        let error = find(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is for s390x, and this node is"), "{error}");
    }
}
