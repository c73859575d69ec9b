//! The key `ipam_unix_socket_path`: the socket of Spiderpool's agent.

use std::path::{Path, PathBuf};

use cni::CallContext;
use plugin_runtime::Error;
use state::is_below;

/// The socket, unless the configuration names another.
const DEFAULT: &str = "/var/run/spidernet/spiderpool.sock";

/// Any other socket may be that of a service that trusts root, such as a container runtime's.
fn is_allowed(path: &Path) -> bool {
    is_below(path, &["/run", "/var/run"], &["spider", "silkrail"])
}

/// Returns the path of the socket.
///
/// # Errors
/// If it is not in a directory of Spiderpool.
pub(crate) fn path(common: &CallContext<'_>) -> Result<PathBuf, Error> {
    let Some(ipam) = common.conf.fields().object("ipam")? else { return Ok(DEFAULT.into()) };
    match ipam.text("ipam_unix_socket_path")? {
        None => Ok(DEFAULT.into()),
        Some(path) if is_allowed(Path::new(path)) => Ok(path.into()),
        Some(path) => {
            let expected = "a socket below /run in a directory whose name begins with spider";
            Err(ipam.invalid("ipam_unix_socket_path", expected, format!("{path:?}")).into())
        }
    }
}
