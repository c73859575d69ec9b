//! An IPAM plugin whose results are set by a test.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::TestNode;

/// An executable that records its calls and prints the results that a test has set.
#[derive(Debug)]
pub struct FakeIpam {
    dir: PathBuf,
    name: String,
}

/// A call of a [`FakeIpam`].
#[derive(Debug)]
pub struct RecordedCall {
    /// The environment variables.
    pub env: BTreeMap<String, String>,
    /// The configuration.
    pub stdin: Vec<u8>,
}

const SCRIPT: &str = r#"#!/bin/sh
data="${0%/*}/data"
set -- "$data"/calls/*
n=$#
call="$data/calls/$(printf %04d $n)"
until mkdir "$call" 2>/dev/null; do n=$((n + 1)) call="$data/calls/$(printf %04d $n)"; done
env >"$call/env"
cat >"$call/stdin"
[ -f "$data/sleep" ] && sleep "$(cat "$data/sleep")"
# Limited, because the test may have failed.
n=0
while [ -f "$data/held" ] && [ $n -lt 1200 ]; do sleep 0.05; n=$((n + 1)); done
if [ -f "$data/versions" ] && [ "$CNI_COMMAND" != VERSION ]; then
    version=$(sed -n 's/.*"cniVersion": *"\([^"]*\)".*/\1/p' "$call/stdin")
    grep -qx "$version" "$data/versions" || { cat "$data/incompatible"; exit 1; }
fi
[ -f "$data/$CNI_COMMAND.kills" ] && kill -9 $PPID
[ -f "$data/$CNI_COMMAND.stdout" ] && cat "$data/$CNI_COMMAND.stdout"
[ -f "$data/$CNI_COMMAND.fails" ] && exit 1
exit 0
"#;

impl FakeIpam {
    /// Installs an executable that succeeds in every call and prints nothing.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn install(node: &TestNode, name: &str) -> Self {
        let dir = node.ipam_dir(name);
        fs::create_dir_all(dir.join("data/calls")).unwrap();
        let ipam = Self { dir, name: name.to_owned() };
        fs::write(ipam.path(), SCRIPT).unwrap();
        fs::set_permissions(ipam.path(), fs::Permissions::from_mode(0o755)).unwrap();
        ipam
    }

    /// Installs an executable whose ADD prints this result.
    pub fn returning(node: &TestNode, result: &Value) -> Self {
        let ipam = Self::install(node, "fake");
        ipam.set_result("ADD", result);
        ipam
    }

    /// Returns its directory, for `CNI_PATH`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the executable.
    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// Sets the result of an operation.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn set_result(&self, verb: &str, result: &Value) {
        fs::write(self.data(&format!("{verb}.stdout")), result.to_string()).unwrap();
    }

    /// Makes an operation fail with an error object.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn fails(&self, verb: &str, code: u64, msg: &str) {
        self.set_result(verb, &json!({"cniVersion": "1.1.0", "code": code, "msg": msg}));
        fs::write(self.data(&format!("{verb}.fails")), "").unwrap();
    }

    /// Makes it refuse configurations of other versions, as the Go plugins do.
    ///
    /// # Panics
    /// If the files cannot be written.
    pub fn knows_only(&self, versions: &[&str]) {
        fs::write(self.data("versions"), versions.join("\n")).unwrap();
        let error = json!({"cniVersion": versions[0], "code": 1, "msg": "incompatible CNI versions"});
        fs::write(self.data("incompatible"), error.to_string()).unwrap();
        self.set_result("VERSION", &json!({"cniVersion": versions[0], "supportedVersions": versions}));
    }

    /// Makes an operation kill the plugin that calls it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn kills_its_caller_at(&self, verb: &str) {
        fs::write(self.data(&format!("{verb}.kills")), "").unwrap();
    }

    /// Makes an operation succeed again and print nothing.
    pub fn recovers(&self, verb: &str) {
        let _ = fs::remove_file(self.data(&format!("{verb}.kills")));
        let _ = fs::remove_file(self.data(&format!("{verb}.fails")));
        let _ = fs::remove_file(self.data(&format!("{verb}.stdout")));
    }

    /// Makes every call take a number of seconds.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn delay(&self, seconds: f32) {
        fs::write(self.data("sleep"), seconds.to_string()).unwrap();
    }

    /// Makes every call wait until [`FakeIpam::unblock`], for a minute at most.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn block(&self) {
        fs::write(self.data("held"), "").unwrap();
    }

    /// Makes the waiting calls continue, and later ones not wait.
    ///
    /// # Panics
    /// Without a previous [`FakeIpam::block`].
    pub fn unblock(&self) {
        fs::remove_file(self.data("held")).unwrap();
    }

    /// Returns its calls, in order.
    ///
    /// # Panics
    /// If they cannot be read.
    pub fn calls(&self) -> Vec<RecordedCall> {
        let mut dirs: Vec<PathBuf> =
            fs::read_dir(self.data("calls")).unwrap().map(|entry| entry.unwrap().path()).collect();
        dirs.sort();
        dirs.iter().map(|dir| RecordedCall::read(dir)).collect()
    }

    /// Whether it was called, even if the call has not ended yet.
    ///
    /// # Panics
    /// If the calls cannot be read.
    pub fn was_called(&self) -> bool {
        self.begun() > 0
    }

    /// Returns the number of its calls, those that have not ended yet included.
    ///
    /// # Panics
    /// If the calls cannot be read.
    pub fn begun(&self) -> usize {
        fs::read_dir(self.data("calls")).unwrap().count()
    }

    /// Returns the operations of its calls (`CNI_COMMAND`), in order.
    pub fn verbs(&self) -> Vec<String> {
        self.calls().iter().map(|call| call.var("CNI_COMMAND").to_owned()).collect()
    }

    fn data(&self, name: &str) -> PathBuf {
        self.dir.join("data").join(name)
    }
}

impl RecordedCall {
    fn read(dir: &Path) -> Self {
        let text = fs::read_to_string(dir.join("env")).unwrap();
        let pair = |line: &str| line.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
        Self { env: text.lines().filter_map(pair).collect(), stdin: fs::read(dir.join("stdin")).unwrap() }
    }

    /// Returns an environment variable; empty if it was not set.
    pub fn var(&self, name: &str) -> &str {
        self.env.get(name).map_or("", String::as_str)
    }
}
