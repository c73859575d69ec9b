//! An IPAM plugin that answers as a test tells it to.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::TestNode;

/// An executable that notes how it is called and prints what a test wants.
#[derive(Debug)]
pub struct FakeIpam {
    home: PathBuf,
    name: String,
}

/// A call of it.
#[derive(Debug)]
pub struct RecordedCall {
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The configuration.
    pub stdin: Vec<u8>,
}

const SCRIPT: &str = r#"#!/bin/sh
home="${0%/*}/data"
n=0
until mkdir "$home/calls/$(printf %04d $n)" 2>/dev/null; do n=$((n + 1)); done
call="$home/calls/$(printf %04d $n)"
env >"$call/env"
cat >"$call/stdin"
[ -f "$home/sleep" ] && sleep "$(cat "$home/sleep")"
# Not for ever: the test may have failed.
n=0
while [ -f "$home/held" ] && [ $n -lt 1200 ]; do sleep 0.05; n=$((n + 1)); done
[ -f "$home/$CNI_COMMAND.kills" ] && kill -9 $PPID
[ -f "$home/$CNI_COMMAND.stdout" ] && cat "$home/$CNI_COMMAND.stdout"
[ -f "$home/$CNI_COMMAND.fails" ] && exit 1
exit 0
"#;

impl FakeIpam {
    /// Installs one that answers every call with success and prints nothing.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn install(node: &TestNode, name: &str) -> Self {
        let home = node.ipam_dir(name);
        fs::create_dir_all(home.join("data/calls")).unwrap();
        let ipam = Self { home, name: name.to_owned() };
        fs::write(ipam.path(), SCRIPT).unwrap();
        fs::set_permissions(ipam.path(), fs::Permissions::from_mode(0o755)).unwrap();
        ipam
    }

    /// Installs one whose ADD prints this result.
    pub fn giving(node: &TestNode, result: &Value) -> Self {
        let ipam = Self::install(node, "fake");
        ipam.answers("ADD", result);
        ipam
    }

    /// The directory it is in, for `CNI_PATH`.
    pub fn dir(&self) -> &Path {
        &self.home
    }

    /// The executable.
    pub fn path(&self) -> PathBuf {
        self.home.join(&self.name)
    }

    /// Has a verb print this.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn answers(&self, verb: &str, result: &Value) {
        fs::write(self.data(&format!("{verb}.stdout")), result.to_string()).unwrap();
    }

    /// Has a verb fail with an error object.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn fails(&self, verb: &str, code: u64, msg: &str) {
        self.answers(verb, &json!({"cniVersion": "1.1.0", "code": code, "msg": msg}));
        fs::write(self.data(&format!("{verb}.fails")), "").unwrap();
    }

    /// Has a verb kill the plugin that calls it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn kills_its_caller_at(&self, verb: &str) {
        fs::write(self.data(&format!("{verb}.kills")), "").unwrap();
    }

    /// Has a verb succeed again and print nothing.
    pub fn recovers(&self, verb: &str) {
        let _ = fs::remove_file(self.data(&format!("{verb}.kills")));
        let _ = fs::remove_file(self.data(&format!("{verb}.fails")));
        let _ = fs::remove_file(self.data(&format!("{verb}.stdout")));
    }

    /// Has every call take so long.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn takes(&self, seconds: f32) {
        fs::write(self.data("sleep"), seconds.to_string()).unwrap();
    }

    /// Has every call wait until [`FakeIpam::lets_go`], however slow the machine is.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn holds(&self) {
        fs::write(self.data("held"), "").unwrap();
    }

    /// Has the calls that wait go on, and later ones not wait.
    ///
    /// # Panics
    /// If none was to wait.
    pub fn lets_go(&self) {
        fs::remove_file(self.data("held")).unwrap();
    }

    /// How it was called, in order.
    ///
    /// # Panics
    /// If that cannot be read.
    pub fn calls(&self) -> Vec<RecordedCall> {
        let mut dirs: Vec<PathBuf> =
            fs::read_dir(self.data("calls")).unwrap().map(|entry| entry.unwrap().path()).collect();
        dirs.sort();
        dirs.iter().map(|dir| RecordedCall::read(dir)).collect()
    }

    /// Whether it was called, be it that the call has not ended.
    ///
    /// # Panics
    /// If that cannot be read.
    pub fn was_called(&self) -> bool {
        fs::read_dir(self.data("calls")).unwrap().next().is_some()
    }

    /// The verbs it was called with, in order.
    pub fn verbs(&self) -> Vec<String> {
        self.calls().iter().map(|call| call.var("CNI_COMMAND").to_owned()).collect()
    }

    fn data(&self, name: &str) -> PathBuf {
        self.home.join("data").join(name)
    }
}

impl RecordedCall {
    fn read(dir: &Path) -> Self {
        let text = fs::read_to_string(dir.join("env")).unwrap();
        let pair = |line: &str| line.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        Self { env: text.lines().filter_map(pair).collect(), stdin: fs::read(dir.join("stdin")).unwrap() }
    }

    /// An environment variable; empty if it was not set.
    pub fn var(&self, name: &str) -> &str {
        self.env.get(name).map_or("", String::as_str)
    }
}
