//! The HTTP frontend: TLS, logins and HTTP, in a process without privileges.
//!
//! Whoever takes it over sees the metrics, reads what files of its user are shown to it, such as the keys of the web
//! configuration, and can make connections. It can run, write, signal and enter nothing.

mod parent;
mod privileges;
mod syscalls;

use std::{
    io::{self, stdin},
    net::SocketAddr,
    os::{
        fd::AsFd,
        unix::{fs::FileTypeExt, net},
    },
};

use tokio::{
    net::UnixStream,
    select,
    signal::unix::{SignalKind, signal},
};

use crate::{
    SilkraildCli,
    http::{self, HttpEndpoint, Listener},
    snapshot_client::SnapshotClient,
    token_review,
    web_config::WebConfigReloader,
};

/// The option that makes this program one. It is for the reader to give.
pub(crate) const OPTION: &str = "--frontend";

/// Threads that compress texts, besides the one that answers.
const THREADS: usize = 2;

/// What ends it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrontendError {
    #[error(transparent)]
    Parent(#[from] parent::Error),
    #[error("give up privileges: {0}")]
    Privileges(#[from] privileges::DropPrivilegesError),
    #[error(transparent)]
    Syscalls(#[from] syscalls::SeccompError),
    #[error("listen on {address}: {source}; choose another address with {option}{}", low(*.address))]
    Listen { address: SocketAddr, option: &'static str, source: io::Error },
    #[error(transparent)]
    Web(#[from] webconfig::Error),
    #[error(transparent)]
    Tokens(#[from] token_review::TokenReviewError),
    #[error("{OPTION} is for silkraild itself to give: its standard input is then a socket")]
    NoSocket,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What else may be wrong with an address.
fn low(address: SocketAddr) -> &'static str {
    if (1..1024).contains(&address.port()) {
        ", with a port above 1023: no privilege is kept for lower ones"
    } else {
        ""
    }
}

/// Serves until the reader ends.
///
/// # Errors
/// Why it cannot.
pub(crate) fn run(cli: &SilkraildCli) -> Result<(), FrontendError> {
    privileges::give_up()?;
    let stream = socket()?;
    parent::end_with(&stream)?;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(THREADS).build()?;
    let end = runtime.block_on(serve(cli, stream));
    // Not waiting for threads: a file of the web configuration may be on a disk that hangs.
    runtime.shutdown_background();
    end
}

/// The socket to the reader, which is standard input.
fn socket() -> Result<net::UnixStream, FrontendError> {
    let owned = stdin().as_fd().try_clone_to_owned()?;
    let file = std::fs::File::from(owned.try_clone()?);
    if !file.metadata()?.file_type().is_socket() {
        return Err(FrontendError::NoSocket);
    }
    let stream = net::UnixStream::from(owned);
    stream.set_nonblocking(true)?;
    Ok(stream)
}

async fn serve(cli: &SilkraildCli, stream: net::UnixStream) -> Result<(), FrontendError> {
    // It ends with the reader. Who ends the daemon may signal both, and the reader is not to see this one go first.
    let _ignored = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let listener = listen(cli.listen, "--listen")?;
    let health = listen(cli.health, "--health.listen")?;
    // Nobody was talked to yet. Later there will be other threads, which this one could not deny anything.
    syscalls::deny()?;
    let web = cli.web.as_deref().map(WebConfigReloader::of).transpose()?.unwrap_or_default();
    let tokens = token_review::find(cli.token_review, cli.listen, &web).await?;
    let (tls, logins) = (web.current().tls.is_some(), web.current().users.is_some());
    tracing::info!(tls, logins, tokens = tokens.is_some(), health = %health.address()?, address = %listener.address()?, "serving");
    let (readings, reader) = SnapshotClient::new(UnixStream::from_std(stream)?, web.clone());
    select! {
        () = http::serve(listener, HttpEndpoint::metrics(readings.clone(), web.clone(), tokens)) => Ok(()),
        () = http::serve(health, HttpEndpoint::health(readings.clone())) => Ok(()),
        result = web.reload_periodically() => Ok(result?),
        end = reader => Ok(end?),
    }
}

fn listen(address: SocketAddr, option: &'static str) -> Result<Listener, FrontendError> {
    Listener::bind(address).map_err(|source| FrontendError::Listen { address, option, source })
}
