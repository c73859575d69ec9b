//! The executables to install, and the search for them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, ReleaseVersion, Sha256, elf, probe, trusted_owners};

/// The program name that the file of all CNI plugins reports to `--version`.
pub(crate) const PLUGINS: &str = "silkrail-cni";

/// Directories to search, relative to the specified one: the layouts of hack/build and of the container image.
const PLACES: [&str; 5] = ["", "cni", "bin", "../cni", "../bin"];

/// An executable that was run on this node.
#[derive(Debug)]
pub(crate) struct SourceProgram {
    /// The program name that it reports to `--version`, such as `silkraild`.
    pub(crate) name: &'static str,
    pub(crate) content: Vec<u8>,
    pub(crate) sha256: Sha256,
    pub(crate) release: ReleaseVersion,
}

impl SourceProgram {
    /// Finds the CNI plugins. The file may have the name of any plugin; it must serve all of `names`.
    pub(crate) fn plugins(from: &Path, known: &[String], names: &[String]) -> Result<Self, Error> {
        let mut files = vec![PLUGINS];
        files.extend(known.iter().map(String::as_str));
        let (program, path) = Self::find(from, PLUGINS, &files)?;
        for name in names {
            probe::serves(&path, name).map_err(|why| Error::DoesNotRun { path: path.clone(), why })?;
        }
        Ok(program)
    }

    /// Finds a program that is a separate file, such as `silkraild`.
    pub(crate) fn named(from: &Path, name: &'static str) -> Result<Self, Error> {
        Self::find(from, name, &[name]).map(|(program, _)| program)
    }

    fn find(from: &Path, name: &'static str, files: &[&str]) -> Result<(Self, PathBuf), Error> {
        let paths = PLACES.iter().flat_map(|place| files.iter().map(move |file| from.join(place).join(file)));
        let found = paths.into_iter().find(|path| path.is_file());
        let path = found.ok_or_else(|| Error::NoSource { name: name.to_owned(), dir: from.to_owned() })?;
        let path = trusted_owners::require_trusted(&path).map_err(|why| Error::Untrusted { path, why })?;
        let content = fs::read(&path).map_err(Error::io("cannot read", &path))?;
        if let Some(is) = elf::machine(&content).filter(|is| is != std::env::consts::ARCH) {
            return Err(Error::WrongMachine { path, is });
        }
        let refuse = |why| Error::DoesNotRun { path: path.clone(), why };
        let (is, release) = probe::version(&path).map_err(refuse)?;
        if is != name {
            return Err(refuse(format!("it reports the name {is:?}, expected {name:?}")));
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
    fn the_plugins_are_found_in_the_layouts_of_the_build_and_of_the_image() {
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
    fn a_file_that_other_users_can_change_is_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("macvlan");
        program(&file, &format!("touch {}/ran; echo silkrail-cni 1.0.0", dir.path().display()));
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        let error = find(dir.path()).unwrap_err();
        assert!(matches!(error, Error::Untrusted { .. }), "{error}");
        assert!(
            error.to_string().contains("is owned by user 65534") && !dir.path().join("ran").exists(),
            "{error}"
        );
    }

    #[test]
    fn a_missing_file_or_another_program_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(find(dir.path()), Err(Error::NoSource { .. })));
        program(&dir.path().join("macvlan"), "echo bridge 1.0.0");
        assert!(find(dir.path()).unwrap_err().to_string().contains("it reports the name \"bridge\""));
        program(&dir.path().join("macvlan"), "[ \"$1\" = --version ] && echo silkrail-cni 1.0.0");
        assert!(find(dir.path()).unwrap_err().to_string().contains("does not run correctly on this node"));
    }

    #[test]
    fn every_name_must_be_served() {
        let dir = tempfile::tempdir().unwrap();
        let once = "[ \"$1\" = --version ] && echo silkrail-cni 1.0.0 && exit\n\
                    mkdir \"$0.called\" && echo '{\"supportedVersions\":[\"1.0.0\"]}'";
        program(&dir.path().join("macvlan"), once);
        let error = find(dir.path()).unwrap_err();
        assert!(matches!(error, Error::DoesNotRun { .. }), "it serves only the first of two: {error}");
    }

    #[test]
    fn an_executable_for_another_processor_is_reported_before_it_is_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut content = fs::read("/proc/self/exe").unwrap();
        content[18..20].copy_from_slice(&22_u16.to_le_bytes());
        fs::write(dir.path().join("silkrail-cni"), content).unwrap();
        let error = find(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is for s390x, and this node is"), "{error}");
    }
}
