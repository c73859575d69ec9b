//! The HTTP frontend: TLS, logins and HTTP, in a process without privileges.
//!
//! An attacker that controls this process can read the metrics and the files that its user can read, such as the keys of the
//! web configuration, and can open connections. It cannot run programs, write files, send signals or enter namespaces.

mod syscalls;

use std::{ffi::CStr, io, net::SocketAddr, os::unix::net};

use tokio::{
    net::UnixStream,
    select,
    signal::unix::{SignalKind, signal},
};

use crate::{
    child::{self, parent, privileges},
    cli::SilkraildCli,
    http::{self, HttpEndpoint, Listener},
    seccomp,
    snapshot_client::SnapshotClient,
    token_review,
    web_config::WebConfigReloader,
};

/// The option that starts this program as the frontend. Only the reader passes it.
pub(crate) const OPTION: &str = "--frontend";

/// The process name that `ps` shows.
const NAME: &CStr = c"silkraild-http";

/// Threads that compress snapshots and verify passwords, in addition to the main thread.
const THREADS: usize = 2;

/// Why the frontend exits with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrontendError {
    #[error(transparent)]
    Parent(#[from] parent::Error),
    #[error("failed to drop privileges: {0}")]
    Privileges(#[from] privileges::DropPrivilegesError),
    #[error(transparent)]
    Syscalls(#[from] seccomp::SeccompError),
    #[error("cannot listen on {address}: {source}; choose another address with {option}{}", low(*.address))]
    Listen { address: SocketAddr, option: &'static str, source: io::Error },
    #[error(transparent)]
    Web(#[from] webconfig::Error),
    #[error(transparent)]
    Tokens(#[from] token_review::TokenReviewError),
    #[error("{OPTION} is internal to silkraild: expected a socket as standard input")]
    NoSocket,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Returns advice for ports below 1024, which need `CAP_NET_BIND_SERVICE`.
fn low(address: SocketAddr) -> &'static str {
    if (1..1024).contains(&address.port()) {
        ", with a port above 1023: the frontend has no privilege for lower ports"
    } else {
        ""
    }
}

/// Serves both ports until the reader exits.
///
/// # Errors
/// [`FrontendError`]: privileges cannot be dropped, a port is in use, or the web configuration is invalid.
pub(crate) fn run(cli: &SilkraildCli) -> Result<(), FrontendError> {
    privileges::drop_all(NAME)?;
    let stream = child::socket()?.ok_or(FrontendError::NoSocket)?;
    parent::end_with(&stream)?;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(THREADS).build()?;
    let end = runtime.block_on(serve(cli, stream));
    // Do not wait for threads: a file of the web configuration may be on a disk that hangs.
    runtime.shutdown_background();
    end
}

async fn serve(cli: &SilkraildCli, stream: net::UnixStream) -> Result<(), FrontendError> {
    // The frontend exits with the reader. SIGTERM may be sent to both; the reader must not see the frontend exit first.
    let _ignored = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let listener = listen(cli.listen, "--listen")?;
    let health = listen(cli.health, "--health.listen")?;
    // No client has connected yet. The filter applies to this thread and to those that it starts later.
    syscalls::deny()?;
    let web = cli.web.as_deref().map(WebConfigReloader::of).transpose()?.unwrap_or_default();
    let tokens = token_review::find(cli.token_review, cli.listen, &web).await?;
    let (tls, logins) = (web.current().tls.is_some(), web.current().users.is_some());
    tracing::info!(tls, logins, tokens = tokens.is_some(), health = %health.address()?, address = %listener.address()?, "serving");
    let (snapshots, reader) = SnapshotClient::new(UnixStream::from_std(stream)?, web.clone());
    select! {
        () = http::serve(listener, HttpEndpoint::metrics(snapshots.clone(), web.clone(), tokens)) => Ok(()),
        () = http::serve(health, HttpEndpoint::health(snapshots.clone())) => Ok(()),
        result = web.reload_periodically() => Ok(result?),
        end = reader => Ok(end?),
    }
}

fn listen(address: SocketAddr, option: &'static str) -> Result<Listener, FrontendError> {
    Listener::bind(address).map_err(|source| FrontendError::Listen { address, option, source })
}
