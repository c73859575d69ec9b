use std::os::unix::fs::MetadataExt;

use super::*;
use NetnsMode::{Exclusive, Shared};

/// A root directory with the given files below it.
fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn text(root: &tempfile::TempDir) -> String {
    fs::read_to_string(root.path().join("etc/modprobe.d/ib_core.conf")).unwrap()
}

/// The mode of the last setting.
fn persisted(root: &tempfile::TempDir) -> Option<NetnsMode> {
    ModprobeConfig::below(root.path()).settings().unwrap().pop().and_then(|setting| setting.mode)
}

#[test]
fn b1_a_missing_file_is_created_with_one_setting() {
    let root = root(&[]);
    assert!(ModprobeConfig::below(root.path()).persist(Shared).unwrap());
    let settings = text(&root).lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    assert_eq!(settings, "options ib_core netns_mode=1");
    assert_eq!(persisted(&root), Some(Shared));
}

#[test]
fn b2_a_setting_that_is_correct_is_not_written_again() {
    let root = root(&[("etc/modprobe.d/ib_core.conf", "options  ib_core   netns_mode=N\n")]);
    let modprobe = ModprobeConfig::below(root.path());
    modprobe.persist(Exclusive).unwrap();
    assert_eq!(
        (modprobe.would_persist(Exclusive).unwrap(), modprobe.would_persist(Shared).unwrap()),
        (false, true)
    );
    let before = fs::metadata(modprobe.file()).unwrap();
    assert!(!modprobe.persist(Exclusive).unwrap());
    let after = fs::metadata(modprobe.file()).unwrap();
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
}

#[test]
fn b7_duplicates_become_one_and_the_rest_stays() {
    let before = "# mind the queue\noptions ib_core netns_mode=1\noptions ib_core netns_mode=1\n\
                  options ib_core other=3\noptions ib_ipoib recv_queue_size=512\n";
    let root = root(&[("etc/modprobe.d/ib_core.conf", before)]);
    ModprobeConfig::below(root.path()).persist(Exclusive).unwrap();
    let expected = "# mind the queue\noptions ib_core netns_mode=0\noptions ib_core other=3\n\
                    options ib_ipoib recv_queue_size=512\n";
    assert_eq!(text(&root), expected);
}

#[test]
fn b8_a_competing_file_is_found_and_the_effective_one_is_known() {
    let operator = "etc/modprobe.d/sriov_network_operator_modules_config.conf";
    let root = root(&[(operator, "options ib_core netns_mode=1\n")]);
    let modprobe = ModprobeConfig::below(root.path());
    modprobe.persist(Exclusive).unwrap();
    let settings = modprobe.settings().unwrap();
    let modes: Vec<_> = settings.iter().map(|setting| setting.mode).collect();
    assert_eq!(modes, [Some(Exclusive), Some(Shared)], "by file name, the last one counts");
    assert_eq!(settings[1].path, root.path().join(operator));
}

#[test]
fn b8_a_file_in_etc_hides_its_namesake() {
    let root = root(&[
        ("usr/lib/modprobe.d/ib_core.conf", "options ib_core netns_mode=1\n"),
        ("usr/lib/modprobe.d/aaa.conf", "options ib_core netns_mode=1\n"),
        ("etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=0\n"),
        ("etc/modprobe.d/zzz.conf.rpmsave", "options ib_core netns_mode=1\n"),
    ]);
    let settings = ModprobeConfig::below(root.path()).settings().unwrap();
    assert_eq!(
        settings.iter().map(|setting| setting.mode).collect::<Vec<_>>(),
        [Some(Shared), Some(Exclusive)]
    );
}

#[test]
fn b9_no_other_file_is_created() {
    let root = root(&[("etc/modprobe.d/mlx.conf", "options ib_core netns_mode=1\n")]);
    ModprobeConfig::below(root.path()).persist(Exclusive).unwrap();
    let names = fs::read_dir(root.path().join("etc/modprobe.d")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["ib_core.conf", "mlx.conf"]);
    assert_eq!(
        fs::read_to_string(root.path().join("etc/modprobe.d/mlx.conf")).unwrap(),
        "options ib_core netns_mode=1\n"
    );
}

#[test]
fn b18_a_directory_that_cannot_be_written_is_named() {
    let root = root(&[("etc/modprobe.d", "a file where the directory should be")]);
    let error = ModprobeConfig::below(root.path()).persist(Exclusive).unwrap_err().to_string();
    assert!(error.contains("etc/modprobe.d") && error.ends_with("; nothing was changed"), "{error}");
}

#[test]
fn b19_the_file_of_a_killed_run_is_ignored_and_removed() {
    let root = root(&[
        ("etc/modprobe.d/ib_core.conf", "options ib_core netns_mode=1\n"),
        ("etc/modprobe.d/.ib_core.conf.silkrail", "options ib_core netns_mo"),
    ]);
    assert_eq!(persisted(&root), Some(Shared), "the old file is complete");
    ModprobeConfig::below(root.path()).persist(Exclusive).unwrap();
    assert_eq!(persisted(&root), Some(Exclusive));
    assert_eq!(fs::read_dir(root.path().join("etc/modprobe.d")).unwrap().count(), 1);
}

#[test]
fn b20_reading_writes_nothing() {
    let root = root(&[]);
    assert_eq!(ModprobeConfig::below(root.path()).settings().unwrap(), []);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn other_options_on_the_line_stay() {
    for (before, after) in [
        (
            "options ib_core send_queue_size=64 netns_mode=1 recv_queue_size=64\n",
            "options ib_core send_queue_size=64 netns_mode=0 recv_queue_size=64\n",
        ),
        ("options ib-core netns_mode=1", "options ib-core netns_mode=0\n"),
        ("options ib_core \\\n  netns_mode=1 \\\n  a=b\n", "options ib_core netns_mode=0 a=b\n"),
        (
            "options ib_core a=b netns_mode=1\noptions ib_core netns_mode=0 c=d\n",
            "options ib_core a=b netns_mode=0\noptions ib_core c=d\n",
        ),
        (
            "options ib_core_x netns_mode=1\n",
            "options ib_core_x netns_mode=1\noptions ib_core netns_mode=0\n",
        ),
        ("# options ib_core netns_mode=1", "# options ib_core netns_mode=1\noptions ib_core netns_mode=0\n"),
        (
            "options\tib_core  netns_mode=0  # spaces stay\n",
            "options\tib_core  netns_mode=0  # spaces stay\n",
        ),
    ] {
        assert_eq!(edited(before, Exclusive), after, "{before:?}");
        assert_eq!(edited(after, Exclusive), after, "twice changes nothing");
    }
}

#[test]
fn the_kernels_spellings_of_a_bool_are_known() {
    for (value, mode) in
        [("1", Shared), ("Y", Shared), ("on", Shared), ("0", Exclusive), ("n", Exclusive), ("off", Exclusive)]
    {
        assert_eq!(mode_of(value), Some(mode), "{value}");
    }
    assert_eq!(values("options ib_core netns_mode=2\n"), [None]);
}

#[test]
fn the_command_line_wins_with_its_last_word() {
    assert_eq!(command_line("quiet ib_core.netns_mode=1 ib_core.netns_mode=0 ro\n"), Some(Exclusive));
    assert_eq!(command_line("quiet mlx5_core.netns_mode=1\n"), None);
    assert_eq!(
        command_line("ib_core.netns_mode=0 ib_core.netns_mode=2"),
        Some(Exclusive),
        "the kernel refuses 2"
    );
}

#[test]
fn a_file_hides_its_namesakes_in_later_directories() {
    let dirs = [
        "etc/modprobe.d",
        "run/modprobe.d",
        "usr/local/lib/modprobe.d",
        "usr/lib/modprobe.d",
        "lib/modprobe.d",
    ];
    for pair in dirs.windows(2) {
        let [first, second] = [0, 1].map(|at| format!("{}/a.conf", pair[at]));
        let root =
            root(&[(&first, "options ib_core netns_mode=0\n"), (&second, "options ib_core netns_mode=1\n")]);
        let settings = ModprobeConfig::below(root.path()).settings().unwrap();
        assert_eq!(settings, [ModprobeOption { path: root.path().join(&first), mode: Some(Exclusive) }]);
    }
}
