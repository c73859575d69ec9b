//! The way to the API server.

use std::{env, time::Duration};

use kube::{
    Client, Config,
    config::{InClusterError, KubeConfigOptions, KubeconfigError},
};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// There should be an API server, but it cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pod has no service account.
    #[error("{0}; does the pod have automountServiceAccountToken: false?")]
    InCluster(#[source] Box<InClusterError>),
    /// `KUBECONFIG` names no good file.
    #[error("KUBECONFIG: {0}")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    /// Its user is whoever a program says.
    #[error(
        "KUBECONFIG: the user of its current context has {key}, a way in that a program makes, and none is run with the \
         privileges of this one; expected token, tokenFile, or client-certificate and client-key: take those of a service \
         account"
    )]
    Program {
        /// What it has.
        key: &'static str,
    },
    /// Certificates or tokens cannot be used.
    #[error("prepare the connection to the API server: {0}")]
    Client(#[source] Box<kube::Error>),
}

/// The API server by the pod's service account, else by the file that `KUBECONFIG` names. `None` if there is neither.
/// No program is started, whatever the file says. A token or a certificate authority that changes in the service account's files is read again.
///
/// Nothing is asked yet. Must be called in a runtime.
pub async fn connect() -> Result<Option<Client>, Error> {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let config = if is_set("KUBERNETES_SERVICE_HOST") {
        Config::incluster().map_err(|error| Error::InCluster(Box::new(error)))?
    } else if is_set("KUBECONFIG") {
        let options = KubeConfigOptions::default();
        Config::from_kubeconfig(&options).await.map_err(|error| Error::Kubeconfig(Box::new(error)))?
    } else {
        return Ok(None);
    };
    client(config).map(Some)
}

fn client(mut config: Config) -> Result<Client, Error> {
    // kube would start it here.
    let user = &config.auth_info;
    let ways = [("exec", user.exec.is_some()), ("auth-provider", user.auth_provider.is_some())];
    if let Some((key, _)) = ways.into_iter().find(|(_, is_there)| *is_there) {
        return Err(Error::Program { key });
    }
    config.connect_timeout = Some(CONNECT);
    config.default_retry = false; // each question has its own pace, and its failures are counted
    Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use kube::config::Kubeconfig;

    use super::*;

    /// What becomes of a file whose user has this, and whether the program was started that it names.
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

    #[tokio::test]
    async fn no_program_is_started_that_a_kubeconfig_names() {
        let exec =
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: PROGRAM, interactiveMode: Never}}";
        let provider =
            "{auth-provider: {name: gcp, config: {cmd-path: PROGRAM, cmd-args: x, token-key: '{.token}'}}}";
        for (key, user) in [("exec", exec), ("auth-provider", provider)] {
            let (connected, is_started) = connected(user).await;
            assert!(!is_started, "{key}");
            let told = connected.unwrap_err().to_string();
            assert!(told.contains(key) && told.contains("expected token, tokenFile"), "{told}");
        }
        let (connected, _) = connected("{token: t}").await;
        assert!(connected.is_ok(), "what another user has does not matter");
    }
}
