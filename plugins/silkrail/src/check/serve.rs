//! `silkrail check serve`: the agent that serves tests of other nodes.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use check::{
    DeviceName, PortNumber, PortSelector,
    agent::{Agent, AgentOptions},
    client, local_end,
    protocol::CheckToken,
};
use cpufreq::{Governors, PERFORMANCE};

use super::{exit_status::EXIT_STATUS, local_context::local_context};
use crate::exit::{CommandError, CommandExit};

/// Serve tests of other nodes, at most one at a time on each RDMA port
///
/// A client can make this node start perftest. Without --token-file only clients on this node can connect (127.0.0.1). With
/// it, both ends prove that they have the same token, and their messages are encrypted with keys of that connection
/// (Noise NNpsk0); the token is not sent over the network. The file must be owned by root, inaccessible to others (mode
/// 600) and have at least 16 bytes. A service can get it from systemd (LoadCredential=). All ends need a silkrail of the same
/// protocol version; others are refused by name.
///
/// perftest's own TCP port is not protected by the token. It is open during a test, on the address that the client
/// connected to, or on all addresses with versions of perftest that do not support --bind_source_ip, like 4.5. Neither that
/// port nor RDMA traffic is encrypted: use this command only in a network of trusted nodes.
///
/// Ports: the one of --listen, perftest's TCP ports (--test-port and the 15 after it), and UDP 4791 for RoCE.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_STATUS}"))]
pub(crate) struct ServeArgs {
    /// The address to listen on; addresses other than 127.0.0.1 require a token
    #[arg(long, default_value_t = SocketAddr::from(([127, 0, 0, 1], client::PORT)), value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// The file with the shared secret of all nodes
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Another address by which clients reach this agent, if addresses are translated; repeatable
    #[arg(long, value_name = "ADDR")]
    known_as: Vec<IpAddr>,
    /// The RDMA device if the client requests none; default: the device with the best GID for the client's address
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceName>,
    /// The port of --device
    #[arg(long, value_name = "N", requires = "device")]
    port: Option<PortNumber>,
    /// The first TCP port for perftest; the 15 after it are tried too
    #[arg(long, default_value_t = local_end::FIRST_PORT, value_name = "PORT")]
    test_port: u16,
    /// Set this CPU frequency governor on this node during tests, and restore it after
    #[arg(long, value_parser = [PERFORMANCE])]
    governor: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  openssl rand -hex 32 >/etc/silkrail/check.token; chmod 600 /etc/silkrail/check.token   (the same on all nodes)
  silkrail check serve --listen 0.0.0.0:18514 --token-file /etc/silkrail/check.token
  silkrail check serve --device mlx5_1 --listen 10.1.70.2:18514 --token-file /etc/silkrail/check.token";

impl ServeArgs {
    pub(super) fn run(&self, root: &Path) -> Result<CommandExit, CommandError> {
        let node = local_context(root)?;
        let governors = self.governor.as_ref().map(|_| Governors::below(root));
        let settings = AgentOptions {
            token: self.token_file.as_deref().map(CheckToken::read).transpose()?,
            known_as: self.known_as.iter().map(IpAddr::to_canonical).collect(),
            wanted: PortSelector { device: self.device.clone(), port: self.port, gid_index: None },
            first_port: self.test_port,
            governors: governors.as_ref(),
        };
        let agent = Agent::listen(self.listen, settings, &node)?;
        if let Err(error) = Governors::below(root).restore_after_kill() {
            eprintln!("silkrail: {error}");
        }
        eprintln!("silkrail: listening on {}", agent.address()?);
        agent.serve(&|line| eprintln!("silkrail: {line}"))?;
        Ok(CommandExit::Done)
    }
}
