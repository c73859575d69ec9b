//! Putting programs under their names.

use std::path::{Path, PathBuf};

use crate::{
    Error, InstallStore, ReleaseVersion, ReplacedFile, Sha256,
    atomic_install::{self, FileAttributes},
    destination,
    install_record::InstallRecord,
    install_target::{InstallStep, InstallTarget, MODE},
    probe,
    source_program::SourceProgram,
};

const EXECUTABLE: FileAttributes = FileAttributes { mode: MODE, owner: None };

/// What is beside the CNI plugins, for people and for the node itself.
const TOOLS: [&str; 2] = ["silkrail", "silkraild"];

/// What to install, and where.
#[derive(Debug, Clone)]
pub struct InstallOptions {
    /// The node's root directory.
    pub root: PathBuf,
    /// The directory with the executables; in it and beside it `cni` and `bin` count too.
    pub from: PathBuf,
    /// Where the node's runtime looks for plugins.
    pub to: PathBuf,
    /// Where `silkrail` and `silkraild` go, if anywhere.
    pub bin_dir: Option<PathBuf>,
    /// Every name that a plugin has.
    pub plugins: Vec<String>,
    /// Those to install.
    pub names: Vec<String>,
    /// Names whose file is left alone if it is somebody else's: a program of theirs may be at work with it.
    pub spared: Vec<String>,
    /// Also in place of a newer release.
    pub force: bool,
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallAction {
    /// Nothing was there.
    Install,
    /// Another build of ours was there.
    Upgrade,
    /// Something else was there, and is kept.
    Replace,
    /// It is there already.
    Unchanged,
    /// Something else is there, and stays.
    LeftAlone,
}

/// One file of a plan.
#[derive(Debug, Clone)]
pub struct PlannedFile {
    /// The file, as the node names it.
    pub path: PathBuf,
    /// What becomes of it.
    pub action: InstallAction,
    /// Of its new content.
    pub sha256: Sha256,
    /// Of the new content.
    pub release: ReleaseVersion,
    /// The release that it replaces.
    pub was: Option<ReleaseVersion>,
    /// What was there before Silkrail, for [`uninstall`](crate::uninstall()).
    pub origin: Option<ReplacedFile>,
}

/// Programs that run here, and the names that they get.
#[derive(Debug)]
pub struct Installer {
    programs: Vec<SourceProgram>,
    targets: Vec<InstallTarget>,
    store: InstallStore,
    spared: Vec<String>,
    force: bool,
}

impl Installer {
    /// Looks at source and destination. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::NoSource`], [`Error::Untrusted`], [`Error::WrongMachine`], [`Error::DoesNotRun`]; [`Error::Destination`].
    pub fn new(options: &InstallOptions) -> Result<Self, Error> {
        let store = InstallStore::of(&options.root);
        let to = destination::check(&store.here(&options.to))?;
        let bin_dir = options.bin_dir.as_ref().map(|dir| destination::check(&store.here(dir))).transpose()?;
        let mut programs = vec![SourceProgram::plugins(&options.from, &options.plugins, &options.names)?];
        let mut targets: Vec<_> = options.names.iter().map(|name| target(&store, 0, &to, name)).collect();
        for (dir, name) in bin_dir.iter().flat_map(|dir| TOOLS.map(|name| (dir, name))) {
            targets.push(target(&store, programs.len(), dir, name));
            programs.push(SourceProgram::named(&options.from, name)?);
        }
        Ok(Self { programs, targets, store, spared: options.spared.clone(), force: options.force })
    }

    /// What would be done. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Downgrade`], [`Error::Strange`], [`Error::Record`], [`Error::Io`].
    pub fn plan(&self) -> Result<Vec<PlannedFile>, Error> {
        Ok(self.steps(&self.store.load()?)?.iter().map(PlannedFile::of).collect())
    }

    /// Does it, and says what was done.
    ///
    /// Everything that can fail comes first; then what is replaced is kept and noted; then each name is given to its new
    /// file. Whoever kills this leaves old files and new ones, all whole, and the next run does the rest.
    ///
    /// # Errors
    /// As of [`Installer::plan`]; [`Error::Busy`]; [`Error::Destination`] if the new file does not run there.
    pub fn apply(&self) -> Result<Vec<PlannedFile>, Error> {
        let _lock = self.store.lock()?;
        for dir in self.directories() {
            atomic_install::discard_all(dir)?;
        }
        let noted = self.store.load()?;
        let steps = self.steps(&noted)?;
        let done = self.carry_out(&steps, noted);
        if done.is_err() {
            // What is left of it was not published; the next run would remove it too.
            let _ = self.directories().into_iter().try_for_each(atomic_install::discard_all);
        }
        done.map(|()| steps.iter().map(PlannedFile::of).collect())
    }

    fn carry_out(&self, steps: &[InstallStep], mut record: InstallRecord) -> Result<(), Error> {
        for program in 0..self.programs.len() {
            self.make(program, steps)?;
        }
        for content in steps.iter().filter_map(InstallStep::content_to_keep) {
            self.store.save_backup(content)?;
        }
        self.save_record(&mut record, steps, InstallStep::entry_meanwhile)?;
        for step in changing(steps) {
            atomic_install::publish(&step.target.here)?;
        }
        for dir in self.directories() {
            atomic_install::sync(dir)?;
        }
        self.save_record(&mut record, steps, |step| step.entry.clone())
    }

    fn steps(&self, noted: &InstallRecord) -> Result<Vec<InstallStep>, Error> {
        let step = |target: &InstallTarget| {
            let noted = noted.files.get(&target.on_node);
            let step = target.step(&self.programs[target.program], noted, self.force)?;
            let name = target.here.file_name().unwrap_or_default();
            let is_spared = self.spared.iter().any(|spared| name == spared.as_str());
            Ok(if is_spared { step.spare_others() } else { step })
        };
        self.targets.iter().map(step).collect()
    }

    /// Makes a program's new files beside their names: one file with many names, that of those already there if any is.
    fn make(&self, number: usize, steps: &[InstallStep]) -> Result<(), Error> {
        let program = &self.programs[number];
        let of_program = |step: &&InstallStep| step.target.program == number;
        let there = steps.iter().filter(of_program).find(|step| step.action == InstallAction::Unchanged);
        let mut file = there.map(|step| step.target.here.clone());
        for step in changing(steps).filter(of_program) {
            let path = &step.target.here;
            match &file {
                Some(file) => atomic_install::link(file, path, &program.content, EXECUTABLE)?,
                None => {
                    let made = atomic_install::write(path, &program.content, EXECUTABLE)?;
                    runs_there(&made, program, path)?;
                    file = Some(made);
                }
            }
        }
        Ok(())
    }

    /// Writes what is to be noted, if it is not noted already.
    fn save_record(
        &self,
        record: &mut InstallRecord,
        steps: &[InstallStep],
        entry: fn(&InstallStep) -> crate::install_record::InstalledFile,
    ) -> Result<(), Error> {
        let mut new = record.clone();
        let ours = steps.iter().filter(|step| step.action != InstallAction::LeftAlone);
        new.files.extend(ours.map(|step| (step.target.on_node.clone(), entry(step))));
        if new != *record {
            self.store.save(&new)?;
            *record = new;
        }
        Ok(())
    }

    fn directories(&self) -> Vec<&Path> {
        let mut dirs: Vec<_> = self.targets.iter().filter_map(|target| target.here.parent()).collect();
        dirs.dedup();
        dirs
    }
}

fn target(store: &InstallStore, program: usize, dir: &Path, name: &str) -> InstallTarget {
    let here = dir.join(name);
    InstallTarget { program, on_node: store.on_node(&here), here }
}

fn changing(steps: &[InstallStep]) -> impl Iterator<Item = &InstallStep> {
    steps.iter().filter(|step| !matches!(step.action, InstallAction::Unchanged | InstallAction::LeftAlone))
}

/// A file system that forbids execution, a label that does: here it is seen before anything is replaced.
fn runs_there(made: &Path, program: &SourceProgram, path: &Path) -> Result<(), Error> {
    match probe::version(made) {
        Ok((name, _)) if name == program.name => Ok(()),
        other => {
            let why = other.map_or_else(|why| why, |(name, _)| format!("it says that it is {name:?}"));
            let why = format!("what is written there does not run ({why}): is it mounted noexec?");
            Err(Error::Destination { path: path.parent().unwrap_or(path).to_owned(), why })
        }
    }
}

impl PlannedFile {
    fn of(step: &InstallStep) -> Self {
        Self {
            path: step.target.on_node.clone(),
            action: step.action,
            sha256: step.entry.sha256[0],
            release: step.entry.release.clone(),
            was: step.was.clone(),
            origin: step.entry.origin.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
