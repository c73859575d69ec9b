//! The shell scripts of a job's containers.

/// Sets the variables of the node's own `nccl.conf` that are not set yet, and executes the test program, which is `$@`.
///
/// silkraild's device plugin writes the file to each container with the devices that the container got, so it differs from
/// worker to worker. NCCL reads it by itself only since 2.23, and a process that sshd starts does not have the container's
/// variables.
pub(super) const WITH_NCCL_CONF: &str = r#"conf=${NCCL_CONF_FILE:-/run/silkrail/pod/nccl.conf}
if [ -r "$conf" ]; then
  while IFS= read -r line; do
    case $line in [A-Z]*=*) ;; *) continue ;; esac
    name=${line%%=*}
    case $name in *[!A-Z0-9_]*) continue ;; esac
    if eval "[ -z \"\${$name+set}\" ]"; then export "$line"; fi
  done <"$conf"
fi
exec "$@""#;

/// Runs sshd, with the key pair of a Secret if there is one. Otherwise the operator has mounted keys, read-only.
pub(super) const SSH_SERVER: &str = r#"mkdir -p /run/sshd
if [ -d /etc/silkrail-ssh ]; then
  mkdir -p "$HOME/.ssh"
  chmod 700 "$HOME/.ssh"
  cp /etc/silkrail-ssh/key.pub "$HOME/.ssh/authorized_keys"
  chmod 600 "$HOME/.ssh/authorized_keys"
fi
ssh-keygen -A
exec /usr/sbin/sshd -D -e"#;

/// Waits for the SSH servers of the workers, whose names are `$hosts`, and executes mpirun, which is `$@`.
const LAUNCH: &str = r#"if [ -d /etc/silkrail-ssh ]; then
  mkdir -p "$HOME/.ssh"
  cp /etc/silkrail-ssh/key "$HOME/.ssh/id_ed25519"
  chmod 600 "$HOME/.ssh/id_ed25519"
  printf 'Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n' >"$HOME/.ssh/config"
fi
for host in $hosts; do
  tries=0
  until ssh -o ConnectTimeout=5 "$host" true; do
    tries=$((tries + 1))
    if [ "$tries" -ge 120 ]; then echo "no SSH server on $host" >&2; exit 1; fi
    sleep 2
  done
done
slots=
for host in $hosts; do slots=${slots:+$slots,}$host:SLOTS; done
exec mpirun HOSTS "$slots" "$@""#;

/// Returns the launcher's script: `hosts` is a shell expression for the workers' names, and `option` mpirun's option for them.
pub(super) fn launch(hosts: &str, option: &str, slots: u16) -> String {
    let script = LAUNCH.replace("SLOTS", &slots.to_string()).replace("HOSTS", option);
    format!("hosts={hosts}\n{script}")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, process::Command};

    use super::*;
    use crate::simulated_node::write_program;

    fn sh(script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "silkrail"]).args(arguments).env_clear().envs(variables.iter().copied());
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn variables_of_the_node_are_set_unless_the_user_has_set_them() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("nccl.conf");
        fs::write(
            &conf,
            "# a comment\nNCCL_IB_HCA==mlx5_3:1,mlx5_5:1\nNCCL_IB_TC=106\nNCCL_IB_GID_INDEX=3\nA$(touch $NCCL_CONF_FILE.run)=1\n",
        )
        .unwrap();
        let conf = conf.to_str().unwrap();
        let print = ["sh", "-c", "echo $NCCL_IB_HCA $NCCL_IB_TC $NCCL_IB_GID_INDEX"];
        let (ok, printed) = sh(
            WITH_NCCL_CONF,
            &print,
            &[("NCCL_CONF_FILE", conf), ("NCCL_IB_GID_INDEX", "5"), ("PATH", "/usr/bin:/bin")],
        );
        assert!(ok);
        assert_eq!(printed, "=mlx5_3:1,mlx5_5:1 106 5\n");
        assert!(!Path::new(&format!("{conf}.run")).exists(), "a name is not executed");
        // Without the file the program runs, too.
        let (ok, printed) = sh(
            WITH_NCCL_CONF,
            &["echo", "it runs"],
            &[("NCCL_CONF_FILE", "/nonexistent"), ("PATH", "/usr/bin:/bin")],
        );
        assert!(ok && printed == "it runs\n", "{printed}");
    }

    /// Writes a program that is played by a script.
    fn program(dir: &Path, name: &str, script: &str) {
        write_program(&dir.join(name), &format!("#!/bin/sh\n{script}\n"));
    }

    #[test]
    fn the_launcher_waits_for_all_workers_and_runs_mpirun_on_them() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir_all(home.join(".ssh")).unwrap();
        // The first attempt fails.
        program(dir.path(), "ssh", "[ -e $0.tried ] || { touch $0.tried; exit 255; }; echo $3 >>$0.hosts");
        program(dir.path(), "sleep", "exit 0");
        program(dir.path(), "mpirun", "echo \"$@\"");
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        let variables = [("HOME", home.to_str().unwrap()), ("PATH", &path)];
        let (ok, printed) =
            sh(&launch("'w-0.w w-1.w'", "-H", 8), &["-np", "16", "all_reduce_perf"], &variables);
        assert!(ok);
        assert_eq!(printed, "-H w-0.w:8,w-1.w:8 -np 16 all_reduce_perf\n");
        assert_eq!(fs::read_to_string(dir.path().join("ssh.hosts")).unwrap(), "w-0.w\nw-1.w\n");
        // Keys that an operator has mounted are not touched.
        assert_eq!(fs::read_dir(home.join(".ssh")).unwrap().count(), 0);
    }
}
