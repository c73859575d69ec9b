//! Plans and performs an installation.

use std::path::{Path, PathBuf};

use crate::{
    Error, InstallAction, InstallStore, ReleaseVersion, ReplacedFile, Sha256,
    atomic_install::{self, FileAttributes},
    destination,
    install_record::InstallRecord,
    install_target::{InstallStep, InstallTarget, MODE},
    probe,
    source_program::SourceProgram,
};

const EXECUTABLE: FileAttributes = FileAttributes { mode: MODE, owner: None };

/// The programs other than the CNI plugins: the command line and the daemon.
const TOOLS: [&str; 2] = ["silkrail", "silkraild"];

/// What to install, and where.
#[derive(Debug, Clone)]
pub struct InstallOptions {
    /// The node's root directory.
    pub root: PathBuf,
    /// The directory with the executables; `cni` and `bin` in it and next to it are searched too.
    pub from: PathBuf,
    /// The directory in which the node's container runtime looks for plugins.
    pub to: PathBuf,
    /// The directory for `silkrail` and `silkraild`; `None` to leave them out.
    pub bin_dir: Option<PathBuf>,
    /// The names of all plugins.
    pub plugins: Vec<String>,
    /// The plugin names to install.
    pub names: Vec<String>,
    /// Names that are not replaced if the file belongs to another project, which may still use it.
    pub spared: Vec<String>,
    /// Whether a newer release is replaced.
    pub force: bool,
}

/// One file of a plan.
#[derive(Debug, Clone)]
pub struct PlannedFile {
    /// The path of the file on the node.
    pub path: PathBuf,
    /// What is done with the file.
    pub action: InstallAction,
    /// The hash of the new content.
    pub sha256: Sha256,
    /// The release of the new content.
    pub release: ReleaseVersion,
    /// The release of the replaced file, if it is one of Silkrail's.
    pub was: Option<ReleaseVersion>,
    /// The file from before Silkrail, which [`uninstall`](crate::uninstall()) restores.
    pub origin: Option<ReplacedFile>,
}

/// An installation: programs that were run on this node, and the paths that they are installed at.
#[derive(Debug)]
pub struct Installer {
    programs: Vec<SourceProgram>,
    targets: Vec<InstallTarget>,
    store: InstallStore,
    spared: Vec<String>,
    force: bool,
}

impl Installer {
    /// Checks the source and the destination. Nothing is changed.
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

    /// Returns what would be done. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Downgrade`], [`Error::NotRegular`], [`Error::Record`], [`Error::Io`].
    pub fn plan(&self) -> Result<Vec<PlannedFile>, Error> {
        Ok(self.steps(&self.store.load()?)?.iter().map(PlannedFile::of).collect())
    }

    /// Installs the files and returns what was done.
    ///
    /// Steps that can fail come first; then replaced files are saved and recorded; then the new files are renamed. If the
    /// process is killed, each file is either the old or the new one, and the next run completes the installation.
    ///
    /// # Errors
    /// As [`Installer::plan`]; [`Error::Busy`]; [`Error::Destination`] if the new file does not run there.
    pub fn apply(&self) -> Result<Vec<PlannedFile>, Error> {
        let _lock = self.store.lock()?;
        for dir in self.directories() {
            atomic_install::discard_all(dir)?;
        }
        let noted = self.store.load()?;
        let steps = self.steps(&noted)?;
        let done = self.carry_out(&steps, noted);
        if done.is_err() {
            // Temporary files are removed now; otherwise the next run would remove them.
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

    /// Creates a program's new files under temporary names, as hard links to one file: to an unchanged target if any.
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

    /// Updates and saves the record, unless it is up to date.
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

/// Runs a new file before anything is replaced: a mount option or an SELinux label may forbid execution.
fn runs_there(made: &Path, program: &SourceProgram, path: &Path) -> Result<(), Error> {
    match probe::version(made) {
        Ok((name, _)) if name == program.name => Ok(()),
        other => {
            let why = other.map_or_else(|why| why, |(name, _)| format!("it reports the name {name:?}"));
            let why = format!(
                "a file written there does not run ({why}); check whether the file system is mounted noexec"
            );
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
