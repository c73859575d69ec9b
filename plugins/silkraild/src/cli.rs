//! The command line.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};
use device_plugin::{ReadOptions, preferred::PfPolicy};
use exporter::{Collector, CollectorSet, ExporterOptions, NameFilter, ResourceHealth, ResourceHealthStore};
use tokio::sync::watch;

use crate::{
    cluster_pools::{ControllerArgs, IpamArgs},
    device_plugin::DevicePluginOptions,
    kubernetes_api::KubernetesApi,
    log::LogArgs,
    networks::NetworksArgs,
    node_name::{self, UnknownNodeName},
    release_node::ReleaseNodeArgs,
    seconds::seconds,
};

/// RDMA metrics of this node and of every pod on it
///
/// Serves /metrics for Prometheus, /healthz and /readyz for the kubelet, and a web page at / that shows the data of
/// /api/v1/node. It changes nothing on the node. With --device-plugin it also gives the kubelet devices for pods.
#[derive(Debug, Parser)]
#[command(name = "silkraild", version, after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct SilkraildCli {
    #[command(subcommand)]
    pub(crate) command: Option<SilkraildCommand>,
    /// File with options, in YAML: the keys are the names of long options; an option on the command line or in the environment
    /// has priority
    #[arg(long = "config.file", env = "SILKRAILD_CONFIG_FILE", value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// Check the options and the files that they name, print all options as such a file, and exit
    #[arg(long = "config.check")]
    pub(crate) config_check: bool,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Address on which to serve everything
    #[arg(long, default_value = "0.0.0.0:9879", value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// Additional address of /healthz and /readyz, for probes: clients of the other port cannot delay them
    #[arg(long = "health.listen", default_value = "127.0.0.1:9880", value_name = "ADDRESS:PORT")]
    pub(crate) health: SocketAddr,
    /// TLS, client certificates and logins for --listen, in the web configuration format of Prometheus exporters;
    /// reloaded when one of its files changes
    #[arg(long = "web.config.file", value_name = "FILE")]
    pub(crate) web: Option<PathBuf>,
    /// Also accept tokens of the Kubernetes API, if the API server allows their users to get the path; requires TLS
    #[arg(long = "web.token-review", env = "SILKRAILD_WEB_TOKEN_REVIEW")]
    pub(crate) token_review: bool,
    /// Name of the node in Kubernetes, if it differs from the hostname
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,
    /// State directory of the plugins
    #[arg(long, default_value = "/run/silkrail", value_name = "DIR")]
    state_dir: PathBuf,
    /// Root directory of the node, if silkraild runs in a container
    #[arg(long, default_value = "/", value_name = "DIR")]
    root: PathBuf,
    /// Read only devices that match the pattern, like mlx5_*; can be repeated
    #[arg(long, value_name = "PATTERN")]
    device_include: Vec<String>,
    /// Send no requests to devices that match the pattern; can be repeated
    #[arg(long, value_name = "PATTERN")]
    device_exclude: Vec<String>,
    /// Expose only metrics whose names match the pattern, like 'rdma_port_*'; can be repeated
    #[arg(long, value_name = "PATTERN")]
    metric_include: Vec<String>,
    /// Do not expose metrics whose names match the pattern; can be repeated
    #[arg(long, value_name = "PATTERN")]
    metric_exclude: Vec<String>,
    /// Enable a collector: psn, pid_counters, cm; can be repeated
    #[arg(long, value_name = "COLLECTOR")]
    enable: Vec<Collector>,
    /// Disable a collector; can be repeated
    #[arg(long, value_name = "COLLECTOR")]
    disable: Vec<Collector>,
    /// Interval at which psn reads packet sequence numbers, in seconds: it counts up to 15.7 million packets per interval
    /// and queue pair
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds)]
    psn_interval: Duration,
    /// Use psn with this driver too, although it is not known to report packet sequence numbers; can be repeated
    #[arg(long, value_name = "DRIVER")]
    psn_driver: Vec<String>,
    /// Timeout for reading a device, after which a collection continues without it, in seconds
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    device_timeout: Duration,
    /// File that keeps the values of 32-bit counters over restarts; without it they seem to be reset by each restart
    #[arg(
        long = "counters.file",
        env = "SILKRAILD_COUNTERS_FILE",
        default_value = "/run/silkraild/counters.json",
        value_name = "FILE"
    )]
    counter_file: PathBuf,
    /// Whether to get the workloads of pods from the Kubernetes API
    #[arg(long, env = "SILKRAILD_KUBERNETES", default_value = "auto", value_name = "MODE")]
    pub(crate) kubernetes: KubernetesApi,
    /// Keep the condition RDMAHealthy of the node in the Kubernetes API, from the findings of `silkrail doctor --record`
    #[arg(long = "node-condition", env = "SILKRAILD_NODE_CONDITION")]
    pub(crate) node_condition: bool,
    /// Also emit metrics with the names and labels that dashboards of another exporter use
    #[arg(long, value_name = "EXPORTER")]
    compat: Vec<Compat>,
    /// Print the metrics once and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Write the metrics to a file for node_exporter's textfile collector, at the start and after each interval
    #[arg(long = "output.textfile", value_name = "FILE")]
    pub(crate) textfile: Option<PathBuf>,
    /// Interval between writes of that file, in seconds
    #[arg(long = "output.interval", default_value = "15", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// Offer devices to the kubelet as resources, as this file says: that of sriov-network-device-plugin or
    /// k8s-rdma-shared-dev-plugin, or a node file with devicePlugin; can be repeated
    #[arg(long = "device-plugin", env = "SILKRAILD_DEVICE_PLUGIN", value_name = "FILE")]
    pub(crate) device_plugin: Vec<PathBuf>,
    /// Directory of the kubelet's device plugins, if its root directory is not /var/lib/kubelet
    #[arg(long = "device-plugin.dir", default_value = "/var/lib/kubelet/device-plugins", value_name = "DIR")]
    device_plugin_dir: PathBuf,
    /// The name before the slash of resources without resourcePrefix in resourceList. [default: openshift.io in the ConfigMap of
    /// sriov-network-operator, else intel.com]
    #[arg(
        long = "device-plugin.resource-prefix",
        env = "SILKRAILD_DEVICE_PLUGIN_RESOURCE_PREFIX",
        value_name = "PREFIX",
        value_parser = NonEmptyStringValueParser::new()
    )]
    device_plugin_prefix: Option<String>,
    /// How the devices of a container are distributed over PFs
    #[arg(long = "device-plugin.pfs", default_value = "spread", value_name = "POLICY")]
    device_plugin_pfs: PfDistribution,
    /// Also give containers umad and issm devices, with which they can manage the fabric
    #[arg(long = "device-plugin.management")]
    device_plugin_management: bool,
    /// How long a device must be well before it is healthy again, in seconds
    #[arg(long = "device-plugin.hold", default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    device_plugin_hold: Duration,
    /// Serve the snapshots of the process at the other end of standard input
    #[arg(long, hide = true)]
    pub(crate) frontend: bool,
    /// Write the files of the process at the other end of standard input
    #[arg(long, hide = true)]
    pub(crate) writer: bool,
}

/// Other programs of the executable.
#[derive(Debug, Subcommand)]
pub(crate) enum SilkraildCommand {
    Ipam(IpamArgs),
    IpamController(ControllerArgs),
    IpamReleaseNode(ReleaseNodeArgs),
    Networks(NetworksArgs),
    #[command(hide = true)]
    Man(ManArgs),
}

/// Write the manual pages into a directory
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The directory that gets silkraild.8, silkraild-ipam.8 and so on
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// Spiderpool's RDMA exporter
    Spiderpool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PfDistribution {
    /// On as many PFs as possible
    Spread,
    /// On as few PFs as possible
    Pack,
}

const AFTER_HELP: &str = "\
Collectors: mode devices ports hw_counters counters ethtool gids resources pods owners cgroup;
disabled by default: psn and pid_counters, for pods that share a device, and cm, which counts messages of the
connection manager (44 series for each port).

psn counts the packets of each pod by the packet sequence numbers of its RC and UC queue pairs. It reads them every
second, independently of scrapes: on mlx5 this takes one firmware command per queue pair. Packets of RDMA READ count as
sent by the pod that reads. pid_counters shows hardware counters that the kernel has bound to processes; enable this with
`rdma statistic qp set link mlx5_0/1 auto pid on` before pods create queue pairs.

To attribute RDMA objects to pods, silkraild must run in the node's PID namespace (hostPID: true). To read devices in the
network namespaces of pods, it needs CAP_SYS_ADMIN. It gets the workloads of pods from the Kubernetes API, and with
--node-condition it changes the status of its node; --once does not use the API.

With --web.token-review, the API server authorizes each path by ClusterRoles with nonResourceURLs. The service account of
silkraild needs the role system:auth-delegator. While the API server does not respond, silkraild accepts no new tokens.

A configuration file:
  listen: 127.0.0.1:9879
  device-exclude: ['mlx5_bond_*']          # an option that can be repeated has a list
  web.token-review: true                   # an option without a value has true or false
  log.level: warn
A list on the command line replaces that of the file. Unknown keys are errors.

Examples:
  silkraild --config.file /etc/silkrail/silkraild.yaml --config.check
  silkraild --once | grep rdma_port_up
  silkraild --device-exclude 'mlx5_bond_*' --disable ethtool
  silkraild --metric-exclude 'rdma_rx_*' --metric-exclude 'rdma_tx_*'
  silkraild --web.config.file /etc/silkraild/web.yaml
  silkraild --output.textfile /var/lib/node_exporter/rdma.prom --listen 127.0.0.1:9879

Exit status:
  0   success, or terminated by SIGTERM or SIGINT
  1   an error
  2   wrong usage, or an invalid configuration file";

impl SilkraildCli {
    /// Returns the options of the exporter.
    pub(crate) fn settings(&self) -> Result<ExporterOptions, UnknownNodeName> {
        let collectors = self.enable.iter().fold(CollectorSet::default(), |all, more| all.with(*more));
        let collectors = self.disable.iter().fold(collectors, |all, less| all.without(*less));
        let devices =
            NameFilter { include: self.device_include.clone(), exclude: self.device_exclude.clone() };
        let metrics =
            NameFilter { include: self.metric_include.clone(), exclude: self.metric_exclude.clone() };
        Ok(ExporterOptions {
            metrics,
            node: node_name::of(self.node_name.as_deref())?,
            root: self.root.clone(),
            state_dir: self.state_dir.clone(),
            collectors,
            devices,
            device_timeout: self.device_timeout,
            kept_files: 0,
            psn_interval: self.psn_interval,
            psn_drivers: self.psn_driver.clone(),
            resources: ResourceHealthStore::default(),
            // A single reading changes nothing on the node.
            counter_sink: None,
            counter_file: (!self.once).then(|| self.counter_file.clone()),
            spiderpool: self.compat.contains(&Compat::Spiderpool),
        })
    }

    /// Returns the names with which the files of resources are read.
    pub(crate) fn resource_names<'a>(&'a self, node: &'a str) -> ReadOptions<'a> {
        ReadOptions { node, resource_prefix: self.device_plugin_prefix.as_deref() }
    }

    /// Returns the options of the device plugin.
    pub(crate) fn device_plugin_options(
        &self,
        health: watch::Sender<Vec<ResourceHealth>>,
    ) -> DevicePluginOptions {
        DevicePluginOptions {
            root: self.root.clone(),
            state_dir: self.state_dir.clone(),
            kubelet: self.device_plugin_dir.clone(),
            has_management: self.device_plugin_management,
            policy: match self.device_plugin_pfs {
                PfDistribution::Spread => PfPolicy::Spread,
                PfDistribution::Pack => PfPolicy::Pack,
            },
            hold: self.device_plugin_hold,
            health,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        SilkraildCli::command().debug_assert();
    }

    #[test]
    fn each_program_has_the_options_of_the_log() {
        for program in [&[][..], &["ipam"], &["ipam-controller"], &["networks"], &["ipam-release-node", "n"]]
        {
            let parse =
                |option: &str| SilkraildCli::try_parse_from([&["silkraild"], program, &[option]].concat());
            assert!(parse("--log.level=debug").is_ok() && parse("--log.format=json").is_ok(), "{program:?}");
            assert_eq!(parse("--log.level=loud").unwrap_err().exit_code(), 2, "{program:?}");
        }
    }

    /// As for the commands of silkrail that change the node.
    #[test]
    fn blocks_are_released_with_consent() {
        let parse = |more: &[&str]| {
            let args = [&["silkraild", "ipam-release-node", "gpu-07"], more].concat();
            SilkraildCli::try_parse_from(args)
        };
        assert!(parse(&["--dry-run"]).is_ok() && parse(&["--yes"]).is_ok() && parse(&[]).is_ok());
        assert_eq!(parse(&["--yes", "--dry-run"]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn collectors_are_enabled_and_disabled_by_name() {
        let cli =
            SilkraildCli::try_parse_from(["silkraild", "--enable=psn", "--disable=gids", "--node-name=n"])
                .unwrap();
        let collectors = cli.settings().unwrap().collectors;
        assert!(collectors.has(Collector::Psn) && !collectors.has(Collector::Gids));
        assert!(collectors.has(Collector::Ports));
        let settings = |more: &[&str]| {
            let args = [&["silkraild", "--node-name=n"], more].concat();
            SilkraildCli::try_parse_from(args).unwrap().settings().unwrap()
        };
        let both =
            settings(&["--disable=psn", "--enable=psn", "--enable=cm", "--disable=gids", "--disable=mode"])
                .collectors;
        let has = [Collector::Psn, Collector::Cm, Collector::Gids, Collector::Mode]
            .map(|collector| both.has(collector));
        assert_eq!(has, [false, true, false, false], "what must not be done has priority");
        assert!(settings(&[]).counter_file.is_some() && settings(&["--once"]).counter_file.is_none());
        let filters = settings(&[
            "--device-include=a",
            "--device-exclude=b",
            "--metric-include=c",
            "--metric-exclude=d",
        ]);
        assert_eq!(
            (filters.devices.include, filters.devices.exclude),
            (vec!["a".to_owned()], vec!["b".to_owned()])
        );
        assert_eq!(
            (filters.metrics.include, filters.metrics.exclude),
            (vec!["c".to_owned()], vec!["d".to_owned()])
        );
        let wrong = SilkraildCli::try_parse_from(["silkraild", "--enable=infiniband"]).unwrap_err();
        assert!(wrong.to_string().contains("expected one of mode, devices"), "{wrong}");
        assert_eq!(wrong.exit_code(), 2);
    }

    #[test]
    fn packet_numbers_are_read_each_second_by_default() {
        let settings = |more: &[&str]| {
            let args = [&["silkraild", "--node-name=n"], more].concat();
            SilkraildCli::try_parse_from(args).unwrap().settings().unwrap()
        };
        let plain = settings(&[]);
        assert_eq!((plain.psn_interval, plain.psn_drivers.len()), (Duration::from_secs(1), 0));
        let changed = settings(&["--psn-interval=0.25", "--psn-driver=bnxt_re", "--psn-driver", "qedr"]);
        assert_eq!(
            (changed.psn_interval, changed.psn_drivers),
            (Duration::from_millis(250), vec!["bnxt_re".into(), "qedr".into()])
        );
    }
}
