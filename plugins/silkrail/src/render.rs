//! `silkrail render`: NetworkAttachmentDefinitions from SpiderMultusConfig documents.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use identifiers::is_unprintable;
use serde_json::{Value, json};
use spider_multus::{NetworkAttachment, SpiderMultusConfigs, Target};

use crate::{
    documents,
    exit::{CommandError, CommandExit},
    json,
};

/// Print the NetworkAttachmentDefinitions of SpiderMultusConfig documents
///
/// They are those that Spiderpool's controller creates: the same plugins with the same values. Nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RenderArgs {
    /// File with SpiderMultusConfig documents, in YAML or JSON, or - for the standard input; can be repeated
    #[arg(short, long = "file", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// For nodes on which Spiderpool does not run: silkrail-ipam in place of its IPAM plugin, and no coordinator
    #[arg(long)]
    without_spiderpool: bool,
    /// With --without-spiderpool: silkrail-ipam uses the pools of the cluster, not those of the node
    #[arg(long, requires = "without_spiderpool")]
    cluster_pools: bool,
    /// Print a list in JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Other documents of the files, such as pools, are ignored and listed.

Examples:
  silkrail render -f networks.yaml | kubectl apply -f -
  kubectl get spidermultusconfigs -A -o yaml | silkrail render -f - --without-spiderpool

Exit status:
  0   done
  1   an error
  2   wrong usage, an invalid document, or no SpiderMultusConfig";

impl RenderArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let target = match (self.without_spiderpool, self.cluster_pools) {
            (false, _) => Target::Spiderpool,
            (true, false) => Target::Silkrail,
            (true, true) => Target::SilkrailCluster,
        };
        let mut networks = Vec::new();
        for file in &self.files {
            let read = read(file)?;
            for ignored in &read.ignored {
                let ignored = format!("{} {}", ignored.kind, ignored.name);
                eprintln!("silkrail: {}: ignored: {}", file.display(), printable(&ignored));
            }
            networks.extend(read.configs.iter().map(|config| NetworkAttachment::of(config, target)));
        }
        if networks.is_empty() {
            return Err(CommandError::NothingToRender);
        }
        for network in &networks {
            let name = [network.namespace.as_deref(), Some(&network.name)]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("/");
            network
                .remarks
                .iter()
                .for_each(|remark| eprintln!("silkrail: {}", printable(&format!("{name}: {remark}"))));
        }
        print(&networks, self.json, out)?;
        Ok(CommandExit::Done)
    }
}

/// Returns text of a document as it can be written to a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn read(file: &Path) -> Result<SpiderMultusConfigs, CommandError> {
    let (text, path) = (documents::text(file)?, file.to_owned());
    SpiderMultusConfigs::parse(&text)
        .map_err(|error| CommandError::Network { path, what: printable(&error.to_string()) })
}

fn print(networks: &[NetworkAttachment], as_json: bool, out: &mut dyn Write) -> Result<(), CommandError> {
    if as_json {
        let items: Vec<Value> = networks.iter().map(NetworkAttachment::object).collect();
        return json::print(&json!({"apiVersion": "v1", "kind": "List", "items": items}), out);
    }
    for (number, network) in networks.iter().enumerate() {
        if number > 0 {
            writeln!(out, "---")?;
        }
        write!(out, "{}", network.yaml())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORKS: &str = "
kind: SpiderMultusConfig
metadata: {name: a, namespace: kube-system}
spec: {cniType: ipoib, ipoib: {master: ibp1s0}, enableCoordinator: false}
---
kind: SpiderMultusConfig
metadata: {name: b}
spec: {cniType: custom}
";

    fn printed(as_json: bool) -> String {
        let configs = SpiderMultusConfigs::parse(NETWORKS).unwrap().configs;
        let networks: Vec<_> =
            configs.iter().map(|config| NetworkAttachment::of(config, Target::Silkrail)).collect();
        let mut out = Vec::new();
        print(&networks, as_json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn documents_are_separated() {
        let expected = r#"apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: "a"
  namespace: "kube-system"
spec:
  config: |-
    {
      "cniVersion": "0.3.1",
      "name": "a",
      "plugins": [
        {
          "type": "ipoib",
          "master": "ibp1s0",
          "ipam": {
            "type": "silkrail-ipam"
          }
        }
      ]
    }
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: "b"
spec: {}
"#;
        assert_eq!(printed(false), expected);
    }

    #[test]
    fn the_json_is_a_list_of_the_same_objects() {
        let list: Value = serde_json::from_str(&printed(true)).unwrap();
        assert_eq!((&list["kind"], &list["items"][1]["metadata"]["name"]), (&json!("List"), &json!("b")));
    }
}
