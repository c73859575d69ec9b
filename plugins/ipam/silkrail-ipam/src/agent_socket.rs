//! The key `ipam_unix_socket_path`: the socket of Spiderpool's agent.

use std::path::PathBuf;

use cni::CallContext;
use plugin_runtime::Error;

/// The socket, unless the configuration names another.
const DEFAULT: &str = "/var/run/spidernet/spiderpool.sock";

/// Returns the path of the socket.
///
/// # Errors
/// If it is not absolute.
pub(crate) fn path(common: &CallContext<'_>) -> Result<PathBuf, Error> {
    let Some(ipam) = common.conf.fields().object("ipam")? else { return Ok(DEFAULT.into()) };
    match ipam.text("ipam_unix_socket_path")? {
        None => Ok(DEFAULT.into()),
        Some(path) if path.starts_with('/') => Ok(path.into()),
        Some(path) => {
            Err(ipam.invalid("ipam_unix_socket_path", "an absolute path", format!("{path:?}")).into())
        }
    }
}
