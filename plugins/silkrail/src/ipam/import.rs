//! `silkrail ipam import`: reserves addresses that another IPAM plugin has assigned to running pods.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    net::IpAddr,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use ipnetwork::IpNetwork;
use serde_json::{Value, json};

use super::export::NodeExport;
use crate::{
    documents,
    exit::{CommandError, CommandExit},
    json,
};

/// Print a SpiderReservedIP with the addresses that another IPAM plugin has assigned
///
/// A pool does not assign reserved addresses. So pods of the other plugin keep their addresses while new pods get those of the
/// pools: apply the object, or write it into the directory of pools, before the pools are used, and again when pods of the
/// other plugin have ended. The allocations of a Spiderpool need no import: those in status.allocatedIPs of a pool are not
/// assigned.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// What the sources are
    #[arg(long, value_name = "PLUGIN")]
    from: ImportSource,
    /// Directories of host-local, or files with objects of whereabouts or exports of nodes; - is the standard input
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    /// Name of the object
    #[arg(long, default_value = "imported", value_name = "NAME")]
    name: String,
}

/// The plugin that has assigned the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImportSource {
    /// host-local: the directory of a network below /var/lib/cni/networks
    HostLocal,
    /// whereabouts: its IPPool objects
    Whereabouts,
    /// silkrail-ipam of other nodes: documents of `silkrail ipam export`
    Silkrail,
}

const EXAMPLES: &str = "\
Examples:
  silkrail ipam import --from host-local /var/lib/cni/networks/rail0 > /etc/silkrail/pools.d/imported.json
  kubectl get ippools.whereabouts.cni.cncf.io -A -o json | silkrail ipam import --from whereabouts - | kubectl apply -f -

Exit status:
  0   done
  1   an error
  2   wrong usage, or an invalid file";

impl ImportArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let mut addresses = BTreeSet::new();
        for source in &self.sources {
            addresses.extend(match self.from {
                ImportSource::HostLocal => of_host_local(source)?,
                ImportSource::Whereabouts => of_whereabouts(source)?,
                ImportSource::Silkrail => {
                    NodeExport::read(source)?.addresses.iter().map(|pod| pod.address).collect()
                }
            });
        }
        json::print(&reservations(&self.name, &addresses), out)?;
        Ok(CommandExit::Done)
    }
}

/// Returns an object for each family, also for one without addresses: it replaces a former one that had some.
fn reservations(name: &str, addresses: &BTreeSet<IpAddr>) -> Value {
    let object = |name: String, version: u8, ips: Vec<String>| {
        json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1",
            "kind": "SpiderReservedIP",
            "metadata": {"name": name},
            "spec": {"ipVersion": version, "ips": ips},
        })
    };
    let of = |is_ipv4| {
        addresses.iter().filter(move |address| address.is_ipv4() == is_ipv4).map(ToString::to_string)
    };
    let (ipv4, ipv6): (Vec<_>, Vec<_>) = (of(true).collect(), of(false).collect());
    let items = [object(name.to_owned(), 4, ipv4), object(format!("{name}-v6"), 6, ipv6)];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Returns the addresses of a network of host-local: a file for each, whose name is the address, with `_` for `:` on some systems.
fn of_host_local(directory: &Path) -> Result<Vec<IpAddr>, CommandError> {
    let failed = |source| CommandError::Input { path: directory.to_owned(), source };
    let mut addresses = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        // Other files are the lock and the last address of each range.
        let name = entry.map_err(failed)?.file_name();
        addresses.extend(name.to_str().and_then(|name| name.replace('_', ":").parse::<IpAddr>().ok()));
    }
    Ok(addresses)
}

/// Returns the addresses of whereabouts' pools. The keys of `allocations` are offsets from the address in the range, as it is
/// written.
fn of_whereabouts(path: &Path) -> Result<Vec<IpAddr>, CommandError> {
    let invalid = |what: String| CommandError::Network { path: path.to_owned(), what };
    let mut addresses = Vec::new();
    for pool in documents::objects(path, "IPPool")? {
        let name = pool["metadata"]["name"].as_str().unwrap_or_default();
        let text = pool["spec"]["range"].as_str().unwrap_or_default();
        let range: IpNetwork = text
            .parse()
            .map_err(|_| invalid(format!("IPPool {name}: spec.range: expected a network, found {text:?}")))?;
        for offset in pool["spec"]["allocations"].as_object().into_iter().flat_map(|all| all.keys()) {
            let address = at_offset(range, offset).ok_or_else(|| {
                invalid(format!("IPPool {name}: spec.allocations: {offset:?} is not an address of {range}"))
            })?;
            addresses.push(address);
        }
    }
    Ok(addresses)
}

fn at_offset(range: IpNetwork, offset: &str) -> Option<IpAddr> {
    let offset: u128 = offset.parse().ok()?;
    let address = match range.ip() {
        IpAddr::V4(first) => IpAddr::V4(u32::from(first).checked_add(offset.try_into().ok()?)?.into()),
        IpAddr::V6(first) => IpAddr::V6(u128::from(first).checked_add(offset)?.into()),
    };
    range.contains(address).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    fn texts(addresses: &[IpAddr]) -> Vec<String> {
        let mut texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        texts.sort();
        texts
    }

    #[test]
    fn addresses_of_host_local_are_names_of_files() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["10.0.0.5", "fd00::5", "fd00__7", "lock", "last_reserved_ip.0"] {
            fs::write(directory.path().join(name), "c1\r\nnet1").unwrap();
        }
        assert_eq!(texts(&of_host_local(directory.path()).unwrap()), ["10.0.0.5", "fd00::5", "fd00::7"]);
        assert!(of_host_local(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn addresses_of_whereabouts_are_offsets() {
        let pool = |range: &str, offset: &str| {
            let allocation = json!({offset: {"id": "c", "podref": "ai/a", "ifname": "net1"}});
            let pool = json!({"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"range": range, "allocations": allocation}});
            file(&json!({"kind": "List", "items": [pool]}).to_string())
        };
        let of = |range: &str, offset: &str| of_whereabouts(pool(range, offset).path());
        assert_eq!(texts(&of("10.0.2.0/23", "257").unwrap()), ["10.0.3.1"]);
        assert_eq!(texts(&of("10.0.2.9/24", "1").unwrap()), ["10.0.2.10"]);
        assert_eq!(texts(&of("fd00::/64", "18446744073709551615").unwrap()), ["fd00::ffff:ffff:ffff:ffff"]);
        for (range, offset) in [
            ("10.0.2.0/24", "256"),
            ("10.0.2.0/24", "x"),
            ("fd00::/64", "18446744073709551616"),
            ("10.0.2", "1"),
        ] {
            of(range, offset).unwrap_err();
        }
        of_whereabouts(file("{}").path()).unwrap_err();
        let pool = |range: &str, allocations: Value| json!({"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"range": range, "allocations": allocations}});
        let pools = [
            pool("10.0.1.0/24", json!({})),
            pool("10.0.2.0/24", json!({"5": {}, "7": {}})),
            pool("fd00::/64", json!({"1": {}})),
        ];
        let several = file(&json!({"kind": "List", "items": pools}).to_string());
        assert_eq!(texts(&of_whereabouts(several.path()).unwrap()), ["10.0.2.5", "10.0.2.7", "fd00::1"]);
    }

    #[test]
    fn the_addresses_of_all_sources_are_reserved_under_one_name() {
        let directories = [["10.0.0.5", "lock"], ["10.0.0.5", "10.0.0.4"]].map(|names| {
            let directory = tempfile::tempdir().unwrap();
            names.iter().for_each(|name| fs::write(directory.path().join(name), "").unwrap());
            directory
        });
        let sources = directories.iter().map(|directory| directory.path().to_owned()).collect();
        let mut out = Vec::new();
        ImportArgs { from: ImportSource::HostLocal, sources, name: "r".into() }.run(&mut out).unwrap();
        let list: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(list["items"][0]["spec"]["ips"], json!(["10.0.0.4", "10.0.0.5"]));
        assert_eq!(
            (&list["items"][0]["metadata"]["name"], &list["items"][1]["metadata"]["name"]),
            (&json!("r"), &json!("r-v6"))
        );
    }

    #[test]
    fn a_reservation_has_one_family() {
        let addresses = ["10.0.0.5", "fd00::5", "10.0.0.4"].map(|address| address.parse().unwrap()).into();
        let list = reservations("r", &addresses);
        assert_eq!(list["items"][0]["spec"], json!({"ipVersion": 4, "ips": ["10.0.0.4", "10.0.0.5"]}));
        assert_eq!(list["items"][1]["spec"], json!({"ipVersion": 6, "ips": ["fd00::5"]}));
        // It parses as what it is.
        ::ipam::Pools::from_text(&list.to_string(), Path::new("r.json")).unwrap();
        let none = reservations("r", &BTreeSet::new());
        assert_eq!(none["items"].as_array().unwrap().len(), 2);
        ::ipam::Pools::from_text(&none.to_string(), Path::new("r.json")).unwrap();
    }
}
