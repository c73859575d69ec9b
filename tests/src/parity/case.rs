//! The input of a case.

use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::{Answer, Call, Observe};

use super::{observation, place::Place};
use crate::tools::tools;

/// Whose plugin is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implementation {
    /// The Go plugin of Debian 12's package.
    Go,
    /// Silkrail's plugin, with Go's IPAM plugins.
    Silkrail,
}

/// The name of each call of a case (`ADD`, `DEL 2`), with its output and the state of pod and master after it.
pub type Record = Vec<(String, Value)>;

/// One step of a case.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A call with this `CNI_COMMAND`. CHECK and DEL get the result of the last ADD as `prevResult`.
    Call(&'static str),
    /// A command of `ip` in the pod.
    InPod(&'static str),
    /// A command of `ip` on the node.
    OnNode(&'static str),
}

/// The calls of a plugin with one configuration.
#[derive(Debug, Clone)]
pub struct Case {
    /// The name of the case, on the page too.
    pub name: &'static str,
    /// The plugin.
    pub plugin: &'static str,
    /// Keys that are added to the configuration, or taken from it with `null`.
    pub conf: Value,
    /// Variables that are set, or taken from the environment with `None`.
    pub environment: Vec<(&'static str, Option<&'static str>)>,
    /// The steps.
    pub steps: Vec<Step>,
}

impl Case {
    /// Returns a case with these keys and the calls ADD, CHECK, and DEL twice.
    pub fn new(plugin: &'static str, name: &'static str, conf: Value) -> Self {
        let steps = ["ADD", "CHECK", "DEL", "DEL"].map(Step::Call).to_vec();
        Self { name, plugin, conf, environment: Vec::new(), steps }
    }

    /// Returns the case with other steps.
    #[must_use]
    pub fn steps(self, steps: &[Step]) -> Self {
        Self { steps: steps.to_vec(), ..self }
    }

    /// Returns the case with a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &'static str, value: Option<&'static str>) -> Self {
        self.environment.push((name, value));
        self
    }

    fn conf(&self, place: &Place<'_>) -> Value {
        let mut conf = json!({
            "cniVersion": "1.0.0", "name": "rail", "type": self.plugin, "master": place.master,
            "ipam": host_local(place),
        });
        let keys = conf.as_object_mut().unwrap();
        for (key, value) in self.conf.as_object().unwrap() {
            match value {
                Value::Null => drop(keys.remove(key)),
                value => drop(keys.insert(key.clone(), value.clone())),
            }
        }
        conf
    }

    /// Returns the directory of the Go plugins.
    fn go_plugins(&self) -> PathBuf {
        tools("go-plugins", self.plugin)
    }

    fn call(&self, implementation: Implementation, place: &Place<'_>) -> Call {
        let mut call = place.node.plugin(self.plugin);
        call = match implementation {
            Implementation::Go => call.from_dir(&self.go_plugins()).conf(&self.conf(place)),
            Implementation::Silkrail => call.delegates_in(&self.go_plugins()).conf(&self.conf(place)),
        };
        call = call.pod(place.pod);
        for (name, value) in &self.environment {
            call = match value {
                Some(value) => call.env(name, value),
                None => call.without(name),
            };
        }
        call
    }
}

/// An `ipam` with addresses, a gateway and a route, of an IPAM plugin that both implementations use.
fn host_local(place: &Place<'_>) -> Value {
    json!({
        "type": "host-local", "dataDir": place.node.state_dir().with_file_name("host-local"),
        "ranges": [
            [{"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.10", "rangeEnd": "10.7.0.11", "gateway": "10.7.0.1"}],
            [{"subnet": "fd00:7::/64", "rangeStart": "fd00:7::10", "rangeEnd": "fd00:7::11"}],
        ],
        "routes": [{"dst": "10.9.0.0/16", "gw": "10.7.0.2"}],
    })
}

/// Makes the calls of a case.
///
/// # Panics
/// If Debian's plugins were not unpacked.
pub(super) fn run(case: &Case, implementation: Implementation, place: &Place<'_>) -> Record {
    place.pod.set_sysctl("net/ipv6/conf/default/accept_dad", "0");
    let call = case.call(implementation, place);
    let (mut recorded, mut result) = (Record::new(), Value::Null);
    for step in &case.steps {
        let verb = match step {
            Step::Call(verb) => verb,
            Step::InPod(command) => {
                place.pod.run_ip(command);
                continue;
            }
            Step::OnNode(command) => {
                place.node.run_ip(command);
                continue;
            }
        };
        let answer = match (*verb, &result) {
            ("CHECK" | "DEL", Value::Object(_)) => call.with("prevResult", &result).verb(verb),
            (verb, _) => call.verb(verb),
        };
        if *verb == "ADD" && answer.status.success() {
            result = answer.ok();
        }
        recorded.push((key(&recorded, verb), observation::after(&answer, &call, place)));
    }
    recorded
}

/// `ADD`, `ADD 2` and so on.
fn key(recorded: &Record, verb: &str) -> String {
    let earlier = recorded.iter().filter(|(call, _)| call.split(' ').next() == Some(verb)).count();
    if earlier == 0 { verb.to_owned() } else { format!("{verb} {}", earlier + 1) }
}

/// What a call printed: the result, or the code of the error.
pub(super) fn printed(answer: &Answer) -> Value {
    if !answer.status.success() {
        return json!({"error": answer.json()["code"]});
    }
    if answer.stdout.is_empty() { json!("nothing") } else { answer.json() }
}
