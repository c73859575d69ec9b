//! `silkrail check serve`: the end that waits for tests.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use check::{
    DeviceName, PortNumber, PortSelector,
    agent::{Agent, AgentOptions},
    client,
    governor::{Governors, PERFORMANCE},
    protocol::CheckToken,
    local_end,
};

use super::EXIT_STATUS;
use crate::exit::{CommandError, CommandExit};

/// Wait for tests of other nodes, one at a time
///
/// Who can connect can have this node start perftest, so without --token-file only this node itself can (127.0.0.1). With
/// it, both ends prove that they have the same token, and all that they say is encrypted, with keys of that connection
/// (Noise NNpsk0); the token does not go over the network. The file must be root's and nobody else's (mode 600), with
/// at least 16 bytes; a service may have it from systemd (LoadCredential=). All ends need the same version of silkrail.
///
/// perftest's own TCP port knows no token. It is open for the length of a test, on the address that the client has
/// connected to; perftest that does not know --bind_source_ip, like 4.5, has it on all addresses. Neither that port nor RDMA
/// is encrypted: use it in a network whose nodes you trust.
///
/// Ports: the one of --listen, perftest's TCP ports (--test-port and the 15 after it), and for RoCE UDP 4791.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_STATUS}"))]
pub(crate) struct ServeArgs {
    /// Where to listen; other addresses than 127.0.0.1 need a token
    #[arg(long, default_value_t = SocketAddr::from(([127, 0, 0, 1], client::PORT)), value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// The secret that all nodes share
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Another address than its own by which clients reach this agent, where addresses are translated; may be given again
    #[arg(long, value_name = "ADDR")]
    known_as: Vec<IpAddr>,
    /// The RDMA device for clients that ask for none; default: the one that is best for their address
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceName>,
    /// Its port
    #[arg(long, value_name = "N", requires = "device")]
    port: Option<PortNumber>,
    /// The first TCP port for perftest; the 15 after it are tried too
    #[arg(long, default_value_t = local_end::FIRST_PORT, value_name = "PORT")]
    test_port: u16,
    /// Set the CPUs of this node to this frequency governor during tests, and back
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
        let node = super::node(root)?;
        let settings = AgentOptions {
            token: self.token_file.as_deref().map(CheckToken::read).transpose()?,
            known_as: self.known_as.iter().map(IpAddr::to_canonical).collect(),
            wanted: PortSelector { device: self.device.clone(), port: self.port, gid_index: None },
            first_port: self.test_port,
            governors: self.governor.as_ref().map(|_| Governors::below(root)),
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
