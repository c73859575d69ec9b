//! Where the running kernel has `ib_core`: built in, as a module, or not at all.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

/// The modules of the running kernel.
#[derive(Debug)]
pub struct KernelModules {
    root: PathBuf,
    release: String,
}

/// The initial RAM file system, whose modules are loaded before the root file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initramfs {
    /// The path of the image.
    pub image: PathBuf,
    /// The command that rebuilds it, such as `update-initramfs -u`.
    pub command: &'static str,
}

/// Where the kernel has `ib_core`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IbCoreLocation {
    /// In the kernel image: modprobe.d has no effect.
    BuiltIn,
    /// In a loadable module.
    Module,
    /// Neither in the kernel image nor in a module.
    Missing,
}

impl KernelModules {
    /// Returns the modules of the running kernel, below a root directory.
    pub fn running(root: &Path) -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self::of(root, release.trim())
    }

    /// Returns the modules of the kernel with this release, as `uname -r` prints it.
    pub fn of(root: &Path, release: &str) -> Self {
        Self { root: root.to_owned(), release: release.to_owned() }
    }

    /// Determines where this kernel has `ib_core`.
    pub fn ib_core(&self) -> IbCoreLocation {
        if self.lists("modules.builtin", "ib_core").unwrap_or(false) {
            IbCoreLocation::BuiltIn
        } else if self.lists("modules.dep", "ib_core").unwrap_or(false) {
            IbCoreLocation::Module
        } else {
            IbCoreLocation::Missing
        }
    }

    /// Returns whether the kernel has a module, built in or loadable; `None` if its lists cannot be read.
    pub fn has(&self, module: &str) -> Option<bool> {
        Some(self.lists("modules.builtin", module)? || self.lists("modules.dep", module)?)
    }

    /// The directory of the kernel's modules, `/lib/modules/RELEASE`.
    pub fn modules(&self) -> PathBuf {
        self.root.join("lib/modules").join(&self.release)
    }

    /// A hint to rebuild the initramfs, which may contain `ib_core` and the old setting; `None` without an initramfs.
    pub fn initramfs_hint(&self) -> Option<String> {
        let Initramfs { image, command } = self.initramfs()?;
        let image = Path::new("/").join(image.strip_prefix(&self.root).unwrap_or(&image));
        Some(format!(
            "if {} contains ib_core, it also contains the old setting: rebuild it ({command}) before the reboot",
            image.display()
        ))
    }

    /// The initramfs of this kernel, if it has one.
    pub fn initramfs(&self) -> Option<Initramfs> {
        let boot = self.root.join("boot");
        let image = fs::read_dir(&boot)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .find(|name| self.is_initramfs(name))?;
        let has = |program: &str| self.root.join(program).exists();
        let command = if has("usr/sbin/update-initramfs") {
            "update-initramfs -u"
        } else if has("usr/bin/dracut") || has("usr/sbin/dracut") {
            "dracut -f"
        } else {
            "your distribution's command"
        };
        Some(Initramfs { image: boot.join(image), command })
    }

    /// Whether this is the name that Debian, Red Hat or SUSE use. Images of kdump and copies of former images are not used
    /// by the next boot.
    fn is_initramfs(&self, name: &str) -> bool {
        let release = &self.release;
        [format!("initrd.img-{release}"), format!("initramfs-{release}.img"), format!("initrd-{release}")]
            .iter()
            .any(|known| known == name)
    }

    /// Whether a file lists a module. A line is `kernel/drivers/infiniband/core/ib_core.ko`; in modules.dep a suffix such as
    /// `.xz` and the dependencies follow.
    fn lists(&self, file: &str, module: &str) -> Option<bool> {
        let text = fs::read_to_string(self.modules().join(file)).ok()?;
        let is_module = |line: &str| {
            let path = line.split(':').next().unwrap_or_default();
            let extension = path.rsplit('/').next().and_then(|name| name.strip_prefix(module));
            extension.is_some_and(|extension| extension == ".ko" || extension.starts_with(".ko."))
        };
        Some(text.lines().any(is_module))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(files: &[(&str, &str)]) -> (tempfile::TempDir, KernelModules) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let kernel = KernelModules::of(root.path(), "6.12.0-test");
        (root, kernel)
    }

    #[test]
    fn a_module_is_distinguished_from_built_in_code() {
        let path = "lib/modules/6.12.0-test/modules";
        let dep = "kernel/drivers/infiniband/core/ib_core.ko.xz: kernel/x.ko.xz\n";
        let other =
            "kernel/drivers/infiniband/core/rdma_cm.ko.xz: kernel/drivers/infiniband/core/ib_core.ko.xz\n";
        let (_root, module) = kernel(&[(&format!("{path}.dep"), dep)]);
        assert_eq!(module.ib_core(), IbCoreLocation::Module);
        let (_root, missing) = kernel(&[(&format!("{path}.dep"), other)]);
        assert_eq!(missing.ib_core(), IbCoreLocation::Missing);
        let builtin = "kernel/drivers/infiniband/core/ib_core.ko\n";
        let (_root, builtin) = kernel(&[(&format!("{path}.builtin"), builtin), (&format!("{path}.dep"), "")]);
        assert_eq!(builtin.ib_core(), IbCoreLocation::BuiltIn);
        assert_eq!((builtin.has("ib_core"), builtin.has("rdma_cm")), (Some(true), Some(false)));
        assert_eq!(module.has("ib_core"), None, "modules.builtin cannot be read");
        let (_root, both) = kernel(&[(&format!("{path}.builtin"), ""), (&format!("{path}.dep"), other)]);
        assert_eq!((both.has("rdma_cm"), both.has("ib_core")), (Some(true), Some(false)));
    }

    #[test]
    fn the_initramfs_of_this_kernel_is_named_with_the_command() {
        let (_root, without) = kernel(&[("boot/initrd.img-5.10.0-other", "")]);
        assert_eq!(without.initramfs_hint(), None);
        let (_root, others) = kernel(&[
            ("boot/initramfs-6.12.0-testkdump.img", ""),
            ("boot/initrd.img-6.12.0-test.old-dkms", ""),
            ("boot/initramfs-6.12.0-test2.img", ""),
        ]);
        assert_eq!(others.initramfs(), None);
        let (_root, red_hat) = kernel(&[("boot/initramfs-6.12.0-test.img", "")]);
        assert!(red_hat.initramfs().is_some());
        for (name, program, command) in [
            ("initrd-6.12.0-test", "usr/bin/dracut", "dracut -f"),
            ("initramfs-6.12.0-test.img", "usr/sbin/dracut", "dracut -f"),
            ("initrd-6.12.0-test", "usr/sbin/mkinitcpio", "your distribution's command"),
        ] {
            let (root, kernel) = kernel(&[(&format!("boot/{name}"), ""), (program, "")]);
            let image = root.path().join("boot").join(name);
            assert_eq!(kernel.initramfs(), Some(Initramfs { image, command }));
        }
        let (_root, debian) =
            kernel(&[("boot/initrd.img-6.12.0-test", ""), ("usr/sbin/update-initramfs", "")]);
        let hint = debian.initramfs_hint().unwrap();
        assert!(
            hint.contains("/boot/initrd.img-6.12.0-test") && hint.contains("update-initramfs -u"),
            "{hint}"
        );
    }
}
