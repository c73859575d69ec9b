//! Damaged state files: they are quarantined and reported, and do not stop a call.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::json;
use testkit::{Answer, Call, Observe};

use silkrail_tests::{
    rail::{RailNode, ipam},
    reboot::boot_id,
};

/// A kind of damage to a file.
#[derive(Debug, Clone, Copy)]
enum FileDamage {
    Empty,
    Half,
    AllButTheEnd,
    Garbage,
    Zeros,
    Future,
    Link,
    Directory,
    Pipe,
}

const ALL: [FileDamage; 9] = [
    FileDamage::Empty,
    FileDamage::Half,
    FileDamage::AllButTheEnd,
    FileDamage::Garbage,
    FileDamage::Zeros,
    FileDamage::Future,
    FileDamage::Link,
    FileDamage::Directory,
    FileDamage::Pipe,
];

impl FileDamage {
    /// Damages a file. A symbolic link points to `protected`.
    fn apply(self, rail: &RailNode, file: &Path, protected: &Path) {
        let bytes = fs::read(file).unwrap();
        let whole = bytes.len();
        match self {
            Self::Empty => fs::write(file, "").unwrap(),
            Self::Half => fs::write(file, &bytes[..whole / 2]).unwrap(),
            Self::AllButTheEnd => fs::write(file, &bytes[..whole - 2]).unwrap(),
            Self::Garbage => fs::write(file, "\u{1b}garbage\n".repeat(40)).unwrap(),
            Self::Zeros => fs::write(file, vec![0; whole]).unwrap(),
            Self::Future => fs::write(file, future(&bytes)).unwrap(),
            Self::Link | Self::Directory | Self::Pipe => {
                fs::remove_file(file).unwrap();
                match self {
                    Self::Link => symlink(protected, file).unwrap(),
                    Self::Directory => fs::create_dir_all(file.join("something")).unwrap(),
                    _ => drop(rail.node.run("mkfifo", &[file])),
                }
            }
        }
    }
}

/// The same file as a newer version of the program would write it.
fn future(bytes: &[u8]) -> Vec<u8> {
    if bytes.starts_with(b"silkmap") {
        return [&bytes[..8], &[2], &bytes[9..]].concat();
    }
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.replacen("\"version\":1,", "\"version\":2,", 1).replacen("podmap/1.", "podmap/2.", 1).into_bytes()
}

/// An attachment whose IPAM plugin is in the same executable as the main plugin.
struct DamageFixture {
    rail: RailNode,
    call: Call,
    protected: PathBuf,
}

impl DamageFixture {
    fn new() -> Self {
        let rail = RailNode::new();
        let call = rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10-10.7.0.11"])}));
        let protected = rail.node.state_dir().with_file_name("protected");
        fs::write(&protected, "protected").unwrap();
        Self { rail, call, protected }
    }

    /// Attaches, damages the file, and returns its path with the result of the call `after`. Only quarantined
    /// files remain.
    fn damaged(&self, file: &str, damage: FileDamage, after: impl Fn(&Call) -> Answer) -> (PathBuf, Answer) {
        self.call.add().ok();
        let file = self.rail.node.state_dir().join(file.replace("BOOT", &boot_id()));
        damage.apply(&self.rail, &file, &self.protected);
        let answer = after(&self.call);
        assert_eq!(fs::read(&self.protected).unwrap(), b"protected", "{damage:?} of {}", file.display());
        assert_eq!(self.rail.pod.link("net1"), None, "{damage:?} of {}", file.display());
        assert!(self.rail.node.snapshot().claims().is_empty(), "{damage:?} of {}", file.display());
        (file, answer)
    }

    /// Checks that the attachment can be created again, then removes all state.
    fn attach_and_reset(&self) {
        self.call.add().ok();
        self.call.del().done();
        fs::remove_dir_all(self.rail.node.state_dir()).unwrap();
        fs::create_dir(self.rail.node.state_dir()).unwrap();
    }
}

/// Checks that the file was renamed, is not deleted, and is named in a warning.
fn assert_quarantined(file: &Path, answer: &Answer, damage: FileDamage) {
    let name = file.file_name().unwrap().to_str().unwrap();
    let beside = fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    let quarantined: Vec<_> =
        beside.map(|name| name.into_string().unwrap()).filter(|it| it != name).collect();
    assert!(
        quarantined.iter().any(|it| it.starts_with(name)),
        "{damage:?}: {name} is not among {quarantined:?}"
    );
    // No journal remains at the path. An entry or a map is new if the attachment was created again.
    assert!(
        file.symlink_metadata().is_err() || !name.ends_with(".journal"),
        "{damage:?}: {name} still exists"
    );
    let reported = answer.stderr.lines().any(|line| line.contains("level=warn") && line.contains(name));
    assert!(reported, "{damage:?}: no warning contains {name}: {answer:?}");
}

#[test]
fn invariant_2_del_succeeds_with_any_damage_to_a_journal() {
    let fixture = DamageFixture::new();
    for file in ["attachments/c0ffee@net1.macvlan.journal", "attachments/c0ffee@net1.silkrail-ipam.journal"] {
        for damage in ALL {
            let (file, answer) = fixture.damaged(file, damage, Call::del);
            answer.done();
            // A truncated journal is valid: a killed call leaves one.
            if !matches!(damage, FileDamage::Half | FileDamage::AllButTheEnd) {
                assert_quarantined(&file, &answer, damage);
            }
            fixture.attach_and_reset();
        }
    }
}

#[test]
fn invariant_2_del_succeeds_with_any_damage_to_the_pod_map_entry() {
    let fixture = DamageFixture::new();
    for damage in ALL {
        let (file, answer) = fixture.damaged("podmap/v1/c0ffee@net1.json", damage, Call::del);
        answer.done();
        assert_quarantined(&file, &answer, damage);
        fixture.attach_and_reset();
    }
}

#[test]
fn a_damaged_file_at_the_path_of_a_new_file_is_quarantined() {
    let fixture = DamageFixture::new();
    for file in ["attachments/c0ffee@net1.macvlan.journal", "podmap/v1/c0ffee@net1.json"] {
        let path = fixture.rail.node.state_dir().join(file);
        for damage in [
            FileDamage::Empty,
            FileDamage::Garbage,
            FileDamage::Link,
            FileDamage::Directory,
            FileDamage::Pipe,
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "{}").unwrap();
            damage.apply(&fixture.rail, &path, &fixture.protected);
            let answer = fixture.call.add();
            answer.ok();
            assert!(path.is_file() && !path.is_symlink(), "{damage:?} of {file}");
            fixture.call.del().done();
            assert_quarantined(&path, &answer, damage);
            assert_eq!(fs::read(&fixture.protected).unwrap(), b"protected");
            fixture.attach_and_reset();
        }
    }
}

#[test]
fn invariant_4_no_address_is_allocated_twice_with_any_damage_to_a_map() {
    let fixture = DamageFixture::new();
    let other = fixture.rail.node.pod("b");
    let second = fixture.call.clone().pod(&other).container("second");
    for damage in ALL {
        let (first, after) = (&fixture.call, |call: &Call| {
            let answer = second.add();
            answer.ok();
            assert_eq!(fixture.rail.node.snapshot().claims().len(), 2, "{damage:?}");
            call.del().done();
            second.del().done();
            answer
        });
        let (file, answer) = fixture.damaged("ipam/BOOT/maps/rail", damage, after);
        // A map without a header was not written completely.
        if !matches!(damage, FileDamage::Empty | FileDamage::Zeros) {
            assert_quarantined(&file, &answer, damage);
        }
        first.del().done();
        fixture.attach_and_reset();
    }
}

#[test]
fn invariant_2_del_succeeds_with_any_damage_to_a_map() {
    let fixture = DamageFixture::new();
    for damage in ALL {
        let (_, answer) = fixture.damaged("ipam/BOOT/maps/rail", damage, Call::del);
        answer.done();
        fixture.attach_and_reset();
    }
}
