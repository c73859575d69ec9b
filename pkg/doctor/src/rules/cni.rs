//! CNI plugins on the node.

use std::collections::BTreeMap;

use crate::{
    Finding, FindingId, Known, NodeFacts, Severity,
    facts::cni::{PluginFile, PluginFileKind},
};

const MISSING: FindingId = FindingId::new("cni-missing", "The CNI directory contains no plugin of Silkrail");
const NOT_EXECUTABLE: FindingId = FindingId::new("cni-not-executable", "A plugin is not executable");
const DANGLING: FindingId =
    FindingId::new("cni-dangling", "A plugin is a symbolic link whose target does not exist");
const FOREIGN: FindingId =
    FindingId::new("cni-foreign", "A file with the name of a Silkrail plugin belongs to another project");
const VERSIONS: FindingId =
    FindingId::new("cni-versions-differ", "The plugins of Silkrail have different versions");
const NOT_THIS: FindingId =
    FindingId::new("cni-version-other", "The plugins have a different version than this program");

pub(super) const IDS: &[FindingId] = &[MISSING, NOT_EXECUTABLE, DANGLING, FOREIGN, VERSIONS, NOT_THIS];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    let dir = &facts.cni.dir;
    let files = match &facts.cni.files {
        Known::Value(files) => files.as_slice(),
        Known::Absent => &[],
        Known::Unknown => return,
    };
    let path = |file: &PluginFile| format!("{dir}/{}", file.name);
    let ours: Vec<(&PluginFile, &str, usize)> = files
        .iter()
        .filter_map(|file| match &file.kind {
            PluginFileKind::Ours { version, content } => Some((file, version.as_str(), *content)),
            _ => None,
        })
        .collect();
    if ours.is_empty() && files.iter().all(|file| file.kind == PluginFileKind::Foreign) {
        let finding = MISSING.warning(dir, "the directory contains no plugin of Silkrail");
        found.push(
            finding
                .because_all(files.iter().map(|file| format!("{}: belongs to another project", path(file))))
                .fix("run: silkrail install; if the runtime uses another directory, pass it with --cni-bin DIR"),
        );
        return;
    }
    for file in files {
        let finding = match file.kind {
            PluginFileKind::Dangling => DANGLING
                .error(
                    path(file),
                    "the target of the symbolic link does not exist: pods that need the plugin cannot start",
                )
                .fix("run: silkrail install; or remove the symbolic link"),
            PluginFileKind::Ours { .. } | PluginFileKind::Foreign if !file.executable => NOT_EXECUTABLE
                .error(path(file), "the file is not executable: pods that need the plugin cannot start")
                .fix(format!("chmod 0755 {}", path(file))),
            PluginFileKind::Foreign => foreign(file, &path(file), &ours),
            _ => continue,
        };
        found.push(finding);
    }
    found.extend(versions(dir, &ours));
}

/// A foreign `sriov` beside `silkrail-sriov` is intended; without the latter, a chain mixes plugins of two projects. A
/// foreign `spiderpool` is fine, since the plugins of Silkrail can delegate to Spiderpool's own IPAM plugin.
fn foreign(file: &PluginFile, path: &str, ours: &[(&PluginFile, &str, usize)]) -> Finding {
    let prefixed = format!("silkrail-{}", file.name);
    let beside = file.name == "spiderpool" || ours.iter().any(|(file, ..)| file.name == prefixed);
    let severity = if beside { Severity::Info } else { Severity::Warning };
    let finding = FOREIGN.found(severity, path, format!("{} belongs to another project", file.name));
    let how = if beside {
        format!("the plugin of Silkrail is {prefixed}")
    } else {
        format!("{prefixed} does not exist either")
    };
    finding.because(how).fix(format!(
        "use the type {prefixed} in network configurations, or replace the file: silkrail install"
    ))
}

fn versions(dir: &str, ours: &[(&PluginFile, &str, usize)]) -> Option<Finding> {
    let mut by_content: BTreeMap<(&str, usize), Vec<&str>> = BTreeMap::new();
    for (file, version, content) in ours {
        by_content.entry((version, *content)).or_default().push(&file.name);
    }
    if by_content.len() > 1 {
        let finding = VERSIONS
            .warning(dir, "the plugins come from different builds: an installation was not completed");
        let evidence =
            by_content.iter().map(|((version, _), names)| format!("{version}: {}", names.join(", ")));
        return Some(finding.because_all(evidence).fix("run: silkrail install"));
    }
    let ((version, _), _) = by_content.into_iter().next()?;
    let own = env!("CARGO_PKG_VERSION");
    if version == own {
        return None;
    }
    let finding = NOT_THIS
        .warning(dir, format!("the plugins have version {version}, but this program has version {own}"));
    Some(
        finding
            .because(format!("{} files", ours.len()))
            .fix("install the plugins of this version: silkrail install"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ours, with};
    use crate::{
        Known,
        facts::cni::{PluginFile, PluginFileKind},
    };

    fn files(files: Vec<PluginFile>) -> Vec<String> {
        with(move |facts| facts.cni.files = Known::Value(files))
    }

    fn file(name: &str, kind: PluginFileKind) -> PluginFile {
        PluginFile { name: name.into(), kind, executable: true }
    }

    fn of_version(version: &str, content: usize) -> PluginFileKind {
        PluginFileKind::Ours { version: version.into(), content }
    }

    #[test]
    fn a_node_without_silkrail_plugins_is_reported() {
        assert_eq!(files(Vec::new()), ["warning cni-missing /opt/cni/bin"]);
        assert_eq!(
            files(vec![file("macvlan", PluginFileKind::Foreign)]),
            ["warning cni-missing /opt/cni/bin"]
        );
        assert_eq!(with(|facts| facts.cni.files = Known::Absent), ["warning cni-missing /opt/cni/bin"]);
    }

    #[test]
    fn a_plugin_must_be_executable() {
        let closed = PluginFile { executable: false, ..ours("sriov") };
        assert_eq!(files(vec![ours("macvlan"), closed]), ["error cni-not-executable /opt/cni/bin/sriov"]);
        let dangling = file("rdma", PluginFileKind::Dangling);
        assert_eq!(files(vec![ours("macvlan"), dangling.clone()]), ["error cni-dangling /opt/cni/bin/rdma"]);
        assert_eq!(files(vec![dangling]), ["error cni-dangling /opt/cni/bin/rdma"]);
    }

    #[test]
    fn a_foreign_plugin_shadows_the_one_of_silkrail() {
        let found = files(vec![ours("macvlan"), file("sriov", PluginFileKind::Foreign)]);
        assert_eq!(found, ["warning cni-foreign /opt/cni/bin/sriov"]);
        // Both plugins are installed.
        let both = files(vec![ours("silkrail-sriov"), file("sriov", PluginFileKind::Foreign)]);
        assert_eq!(both, ["info cni-foreign /opt/cni/bin/sriov"]);
        // The plugins can delegate to it.
        let ipam = files(vec![ours("macvlan"), file("spiderpool", PluginFileKind::Foreign)]);
        assert_eq!(ipam, ["info cni-foreign /opt/cni/bin/spiderpool"]);
    }

    #[test]
    fn plugins_have_the_version_of_this_program() {
        let own = env!("CARGO_PKG_VERSION");
        let two = vec![file("macvlan", of_version(own, 1)), file("sriov", of_version(own, 2))];
        assert_eq!(files(two), ["warning cni-versions-differ /opt/cni/bin"]);
        assert_eq!(
            files(vec![file("sriov", of_version("0.0.1", 2))]),
            ["warning cni-version-other /opt/cni/bin"]
        );
    }
}
