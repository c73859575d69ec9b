//! The client of the API server.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use kube::{
    Client, Config,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An API server is configured, but no client can be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pod has no service account token.
    #[error("{0}; does the pod have automountServiceAccountToken: false?")]
    InCluster(#[source] Box<InClusterError>),
    /// The file that `KUBECONFIG` names cannot be read or is invalid.
    #[error("KUBECONFIG: {0}")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    /// A file with credentials cannot be read or is invalid.
    #[error("{}: {source}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// Why it cannot be used.
        source: Box<KubeconfigError>,
    },
    /// The user of the kubeconfig file gets its credentials from a program.
    #[error(
        "kubeconfig: the user of the current context has {key}, which runs a program; no program is run with the privileges \
         of this process; expected token, tokenFile, or client-certificate and client-key, for example of a service account"
    )]
    Program {
        /// The key: `exec` or `auth-provider`.
        key: &'static str,
    },
    /// The certificates or tokens are invalid.
    #[error("failed to create the client of the API server: {0}")]
    Client(#[source] Box<kube::Error>),
}

/// Where the address and the credentials of the API server come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessSource {
    ServiceAccount,
    Kubeconfig,
}

impl AccessSource {
    /// Returns the source that the environment sets: the kubelet's variables have priority.
    fn of(variable: impl Fn(&'static str) -> Option<OsString>) -> Option<Self> {
        let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
        if is_set("KUBERNETES_SERVICE_HOST") {
            Some(Self::ServiceAccount)
        } else {
            is_set("KUBECONFIG").then_some(Self::Kubeconfig)
        }
    }
}

/// Returns a client with the pod's service account, else with the file that `KUBECONFIG` names; `None` if neither is set. Does
/// not run programs that the file names. Changes of the service account's token and CA are picked up.
///
/// Sends no request yet. Must be called in a Tokio runtime.
///
/// # Errors
/// [`Error`]: the configuration is invalid, or requires a program.
pub async fn connect() -> Result<Option<Client>, Error> {
    let config = match AccessSource::of(env::var_os) {
        None => return Ok(None),
        Some(AccessSource::ServiceAccount) => {
            Config::incluster().map_err(|error| Error::InCluster(Box::new(error)))?
        }
        Some(AccessSource::Kubeconfig) => {
            let options = KubeConfigOptions::default();
            Config::from_kubeconfig(&options).await.map_err(|error| Error::Kubeconfig(Box::new(error)))?
        }
    };
    client(config).map(Some)
}

/// Returns a client with the current context of a kubeconfig file. Does not run programs that the file names. Certificates are read
/// now, and changes of them are not picked up.
///
/// Sends no request yet. Must be called in a Tokio runtime.
///
/// # Errors
/// [`Error`]: the file is invalid, or requires a program.
pub async fn connect_with(path: &Path) -> Result<Client, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source: Box::new(source) };
    let file = Kubeconfig::read_from(path).map_err(failed)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(failed)?;
    client(config)
}

fn client(mut config: Config) -> Result<Client, Error> {
    // kube would run the program in try_from.
    let user = &config.auth_info;
    let ways = [("exec", user.exec.is_some()), ("auth-provider", user.auth_provider.is_some())];
    if let Some((key, _)) = ways.into_iter().find(|(_, is_there)| *is_there) {
        return Err(Error::Program { key });
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.default_retry = false; // callers retry at their own intervals and count failures
    Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use kube::config::Kubeconfig;

    use super::*;

    /// Returns the result for a kubeconfig file with this user, and whether the program that it names was run.
    async fn connected(user: &str) -> (Result<(), Error>, bool) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let text = "#!/bin/sh\ntouch \"$0.started\"\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"interactive\":false},\"status\":{\"token\":\"t\"},\"token\":\"t\"}'\n";
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let kubeconfig = format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:1'}}}}]\n\
             users: [{{name: other, user: {{exec: {{command: /bin/false}}}}}}, {{name: a, user: {}}}]\n",
            user.replace("PROGRAM", program.to_str().unwrap())
        );
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let connected = client(config).map(drop);
        (connected, Path::new(&format!("{}.started", program.display())).exists())
    }

    #[test]
    fn the_service_account_of_a_pod_has_priority_over_a_kubeconfig() {
        use AccessSource::{Kubeconfig, ServiceAccount};
        for (service, kubeconfig, source) in [
            (Some("10.96.0.1"), Some("/file"), Some(ServiceAccount)),
            (Some("10.96.0.1"), None, Some(ServiceAccount)),
            (Some(""), Some("/file"), Some(Kubeconfig)),
            (None, Some("/file"), Some(Kubeconfig)),
            (Some(""), Some(""), None),
            (None, None, None),
        ] {
            let of = |name| match name {
                "KUBERNETES_SERVICE_HOST" => service.map(OsString::from),
                "KUBECONFIG" => kubeconfig.map(OsString::from),
                other => panic!("{other}"),
            };
            assert_eq!(AccessSource::of(of), source, "{service:?} {kubeconfig:?}");
        }
    }

    #[tokio::test]
    async fn a_named_kubeconfig_is_used_with_its_current_context_and_runs_no_program() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubelet.conf");
        let error = connect_with(&file).await.map(drop).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", file.display())), "{error}");
        let write = |context: &str| {
            let text = format!(
                "current-context: {context}\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}, {{name: b, context: \
                 {{cluster: a, user: b}}}}]\nclusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:1'}}}}]\n\
                 users: [{{name: a, user: {{token: t}}}}, {{name: b, user: {{exec: {{command: /bin/false}}}}}}]\n"
            );
            fs::write(&file, text).unwrap();
        };
        write("a");
        assert!(connect_with(&file).await.is_ok());
        write("b");
        assert!(matches!(connect_with(&file).await, Err(Error::Program { key: "exec" })));
        write("c");
        assert!(matches!(connect_with(&file).await, Err(Error::File { path, .. }) if path == file));
    }

    #[tokio::test]
    async fn a_program_that_a_kubeconfig_names_is_not_run() {
        let exec =
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: PROGRAM, interactiveMode: Never}}";
        let provider =
            "{auth-provider: {name: gcp, config: {cmd-path: PROGRAM, cmd-args: x, token-key: '{.token}'}}}";
        for (key, user) in [("exec", exec), ("auth-provider", provider)] {
            let (connected, is_started) = connected(user).await;
            assert!(!is_started, "{key}");
            let error = connected.unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("expected token, tokenFile"), "{error}");
        }
        let (connected, _) = connected("{token: t}").await;
        assert!(connected.is_ok(), "other users of the file are ignored");
    }
}
