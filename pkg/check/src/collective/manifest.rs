//! A plan as objects of Kubernetes. The scheduler selects the nodes; pod anti-affinity puts each worker on a different one.

use serde_json::{Value, json};

use super::{
    CollectiveLibrary, CollectivePlan,
    job_options::{JobKind, JobOptions},
    pod_template::{LABEL, launcher, metadata, worker},
    script, yaml_text,
};

/// The Secret with the SSH key pair of plain pods, in its keys `key` and `key.pub`.
const SSH_SECRET: &str = "silkrail-check-ssh";

/// Returns the YAML of the objects that run the plan, with one worker for each of its hosts.
pub fn manifest(plan: &CollectivePlan, options: &JobOptions) -> String {
    yaml_text::documents(&match options.kind {
        JobKind::MpiJob => vec![mpi_job(plan, options)],
        JobKind::Volcano => vec![volcano_job(plan, options)],
        JobKind::Pods => pods(plan, options),
    })
}

/// An MPIJob (`kubeflow.org/v2beta1`). The operator provides the host file, the SSH keys and the SSH servers.
fn mpi_job(plan: &CollectivePlan, options: &JobOptions) -> Value {
    let mut command = vec!["mpirun".to_owned()];
    command.extend(arguments(plan));
    let implementation = match plan.library {
        CollectiveLibrary::Nccl => "OpenMPI",
        CollectiveLibrary::Hccl => "MPICH",
    };
    json!({
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": metadata(options, options.name.as_str()),
        "spec": {
            "slotsPerWorker": plan.per_node,
            "mpiImplementation": implementation,
            // Without it mpirun would start while the workers pull their images, and fail.
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": launcher(options, &json!(command))},
                "Worker": {"replicas": plan.hosts.len(), "template": worker(plan, options, None)},
            },
        },
    })
}

/// A Job of Volcano (`batch.volcano.sh/v1alpha1`). Its plugins provide the names of the workers and the SSH keys.
fn volcano_job(plan: &CollectivePlan, options: &JobOptions) -> Value {
    let hosts = "$(cat /etc/volcano/worker.host)";
    let workers = plan.hosts.len();
    let mut worker = worker(plan, options, Some(shell(script::SSH_SERVER.to_owned(), Vec::new())));
    worker["spec"]["restartPolicy"] = "Never".into();
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": metadata(options, options.name.as_str()),
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": workers + 1,
            "maxRetry": 1,
            "plugins": {"ssh": [], "svc": []},
            "policies": [{"event": "PodFailed", "action": "AbortJob"}],
            "tasks": [
                {
                    "name": "launcher",
                    "replicas": 1,
                    "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
                    "template": launcher(options, &launch_command(plan, hosts)),
                },
                {"name": "worker", "replicas": workers, "template": worker},
            ],
        },
    })
}

/// A headless Service, a Pod for each worker and one for the launcher. They use the key pair of a Secret.
fn pods(plan: &CollectivePlan, options: &JobOptions) -> Vec<Value> {
    let name = options.name.as_str();
    let ssh = json!({"name": "ssh", "secret": {"secretName": SSH_SECRET, "defaultMode": 256}});
    let mount = json!({"name": "ssh", "mountPath": "/etc/silkrail-ssh", "readOnly": true});
    let hosts: Vec<String> = (0..plan.hosts.len()).map(|number| format!("{name}-{number}")).collect();
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(options, name),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {LABEL: name}},
    });
    let with_key = |mut pod: Value| {
        let spec = &mut pod["spec"];
        push(&mut spec["volumes"], ssh.clone());
        push(&mut spec["containers"][0]["volumeMounts"], mount.clone());
        pod
    };
    let pod = |pod_name: &str, template: Value| {
        let mut pod = with_key(template);
        let mut of_pod = metadata(options, pod_name);
        if let (Some(all), Some(more)) = (of_pod.as_object_mut(), pod["metadata"].as_object()) {
            all.extend(more.clone());
        }
        pod["metadata"] = of_pod;
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod
    };
    let mut objects = vec![service];
    for host in &hosts {
        let mut template = worker(plan, options, Some(shell(script::SSH_SERVER.to_owned(), Vec::new())));
        template["spec"]["restartPolicy"] = "Never".into();
        template["spec"]["hostname"] = host.as_str().into();
        template["spec"]["subdomain"] = name.into();
        objects.push(pod(host, template));
    }
    let names: Vec<String> = hosts.iter().map(|host| format!("{host}.{name}")).collect();
    let command = launch_command(plan, &format!("'{}'", names.join(" ")));
    objects.push(pod(&format!("{name}-launcher"), launcher(options, &command)));
    objects
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        none => *none = json!([item]),
    }
}

/// Returns the command that runs mpirun on the hosts of a shell expression.
fn launch_command(plan: &CollectivePlan, hosts: &str) -> Value {
    let option = match plan.library {
        CollectiveLibrary::Nccl => "-H",
        CollectiveLibrary::Hccl => "-hosts",
    };
    shell(script::launch(hosts, option, plan.per_node), arguments(plan))
}

/// Returns the command of a script with arguments.
fn shell(script: String, arguments: Vec<String>) -> Value {
    let words = ["/bin/sh".to_owned(), "-c".to_owned(), script, "silkrail".to_owned()];
    json!(words.into_iter().chain(arguments).collect::<Vec<_>>())
}

/// Returns the arguments of mpirun, without the hosts.
fn arguments(plan: &CollectivePlan) -> Vec<String> {
    let processes = plan.processes().to_string();
    let mut words: Vec<String> = match plan.library {
        CollectiveLibrary::Nccl => {
            ["--allow-run-as-root", "--bind-to", "none", "-np", &processes].map(str::to_owned).to_vec()
        }
        CollectiveLibrary::Hccl => ["-n", &processes].map(str::to_owned).to_vec(),
    };
    words.extend(plan.variables());
    words.extend(plan.mpirun_options.iter().map(ToString::to_string));
    if plan.library == CollectiveLibrary::Nccl {
        if !plan.has_variable("NCCL_NET") {
            // Without RDMA devices NCCL would measure TCP, silently.
            words.extend(["-x".to_owned(), "NCCL_NET=IB".to_owned()]);
        }
        words.extend(["/bin/sh", "-c", script::WITH_NCCL_CONF, "silkrail"].map(str::to_owned));
    }
    words.extend(plan.program());
    words
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::collective::plan::tests::plan;

    pub(crate) fn options(kind: &str) -> JobOptions {
        JobOptions {
            kind: kind.parse().unwrap(),
            image: "registry/nccl-tests:v2.13".parse().unwrap(),
            name: "nccl-1".parse().unwrap(),
            namespace: "bench".parse().ok(),
            networks: ["kube-system/rail0", "kube-system/rail1"].map(|name| name.parse().unwrap()).to_vec(),
            rdma: vec!["spidernet.io/mellanoxrdma=2".parse().unwrap()],
            accelerator: None,
            shared_memory_gib: 32,
        }
    }

    fn objects(library: CollectiveLibrary, options: &JobOptions) -> Vec<Value> {
        let text = manifest(&plan(library), options);
        yaml::documents(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn words(command: &Value) -> Vec<&str> {
        command.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
    }

    /// Asserts that all keys of an object are fields of this type.
    fn assert_fields(object: &Value, fields: &[&str]) {
        for key in object.as_object().unwrap().keys() {
            assert!(fields.contains(&key.as_str()), "unknown field {key} in {object}");
        }
    }

    const CONTAINER: [&str; 6] = ["name", "image", "command", "securityContext", "resources", "volumeMounts"];
    const POD_SPEC: [&str; 6] =
        ["affinity", "containers", "volumes", "restartPolicy", "hostname", "subdomain"];

    /// Asserts that a worker has what RDMA needs.
    fn assert_worker(metadata: &Value, spec: &Value) {
        assert_fields(spec, &POD_SPEC);
        assert_eq!(
            metadata["annotations"]["k8s.v1.cni.cncf.io/networks"],
            "kube-system/rail0,kube-system/rail1"
        );
        let container = &spec["containers"][0];
        assert_fields(container, &CONTAINER);
        assert_eq!(
            container["resources"]["limits"],
            json!({"nvidia.com/gpu": 8, "spidernet.io/mellanoxrdma": 2})
        );
        assert_eq!(container["securityContext"], json!({"capabilities": {"add": ["IPC_LOCK"]}}));
        let shm = json!({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "32Gi"}});
        assert!(spec["volumes"].as_array().unwrap().contains(&shm), "{spec}");
        let mounts = container["volumeMounts"].as_array().unwrap();
        assert!(mounts.contains(&json!({"name": "shm", "mountPath": "/dev/shm"})), "{container}");
        let term = &spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(term["labelSelector"]["matchLabels"], metadata["labels"], "one worker per node");
    }

    #[test]
    fn an_mpi_job_has_networks_devices_shared_memory_and_the_fields_of_v2beta1() {
        let all = objects(CollectiveLibrary::Nccl, &options("mpijob"));
        let job = &all[0];
        assert_eq!(
            (all.len(), &job["apiVersion"], &job["kind"]),
            (1, &json!("kubeflow.org/v2beta1"), &json!("MPIJob"))
        );
        assert_eq!(job["metadata"], json!({"name": "nccl-1", "namespace": "bench"}));
        let spec = &job["spec"];
        let fields = [
            "slotsPerWorker",
            "runPolicy",
            "mpiReplicaSpecs",
            "sshAuthMountPath",
            "launcherCreationPolicy",
            "mpiImplementation",
        ];
        assert_fields(spec, &fields);
        let policy = [
            "cleanPodPolicy",
            "ttlSecondsAfterFinished",
            "activeDeadlineSeconds",
            "backoffLimit",
            "schedulingPolicy",
            "suspend",
        ];
        assert_fields(&spec["runPolicy"], &policy);
        assert_eq!(spec["runPolicy"]["backoffLimit"], 0, "a result is not measured again");
        let replicas = &spec["mpiReplicaSpecs"];
        assert_fields(replicas, &["Launcher", "Worker"]);
        for role in ["Launcher", "Worker"] {
            assert_fields(&replicas[role], &["replicas", "template", "restartPolicy"]);
        }
        assert_eq!((&spec["slotsPerWorker"], &replicas["Worker"]["replicas"]), (&json!(8), &json!(2)));
        let worker = &replicas["Worker"]["template"];
        assert_worker(&worker["metadata"], &worker["spec"]);
        assert!(worker["spec"]["containers"][0]["command"].is_null(), "the operator starts sshd");
        let launcher = &replicas["Launcher"]["template"]["spec"]["containers"][0];
        let command = words(&launcher["command"]);
        let expected = "mpirun --allow-run-as-root --bind-to none -np 16 -x NCCL_IB_GID_INDEX=3 -x NCCL_IB_HCA=^mlx5_8 -x NCCL_NET=IB /bin/sh -c";
        assert_eq!(command[..14].join(" "), expected);
        assert_eq!(command[14], script::WITH_NCCL_CONF);
        assert_eq!(
            command[16..].join(" "),
            "/opt/nccl-tests/build/all_reduce_perf -b 33554432 -e 8589934592 -f 2 -g 1"
        );
    }

    #[test]
    fn a_volcano_job_has_the_fields_of_v1alpha1_and_ends_with_its_launcher() {
        let job = &objects(CollectiveLibrary::Nccl, &options("volcano"))[0];
        assert_eq!((&job["apiVersion"], &job["kind"]), (&json!("batch.volcano.sh/v1alpha1"), &json!("Job")));
        let spec = &job["spec"];
        let fields = [
            "schedulerName",
            "minAvailable",
            "volumes",
            "tasks",
            "policies",
            "plugins",
            "queue",
            "maxRetry",
            "ttlSecondsAfterFinished",
            "priorityClassName",
            "minSuccess",
        ];
        assert_fields(spec, &fields);
        assert_eq!((&spec["minAvailable"], &spec["plugins"]), (&json!(3), &json!({"ssh": [], "svc": []})));
        for task in spec["tasks"].as_array().unwrap() {
            assert_fields(
                task,
                &[
                    "name",
                    "replicas",
                    "minAvailable",
                    "template",
                    "policies",
                    "topologyPolicy",
                    "maxRetry",
                    "dependsOn",
                ],
            );
        }
        let (launcher, worker) = (&spec["tasks"][0], &spec["tasks"][1]);
        assert_eq!(launcher["policies"], json!([{"event": "TaskCompleted", "action": "CompleteJob"}]));
        assert_worker(&worker["template"]["metadata"], &worker["template"]["spec"]);
        // The svc plugin names the file after the task.
        let command = words(&launcher["template"]["spec"]["containers"][0]["command"]);
        assert!(command[2].starts_with("hosts=$(cat /etc/volcano/worker.host)\n"), "{}", command[2]);
        assert_eq!(worker["name"], "worker");
        assert!(words(&worker["template"]["spec"]["containers"][0]["command"])[2].contains("sshd -D"));
    }

    #[test]
    fn plain_pods_have_names_in_the_dns_and_a_key_pair() {
        let all = objects(CollectiveLibrary::Nccl, &options("pods"));
        let kinds: Vec<String> = all
            .iter()
            .map(|object| format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', ""))
            .collect();
        assert_eq!(kinds, ["Service nccl-1", "Pod nccl-1-0", "Pod nccl-1-1", "Pod nccl-1-launcher"]);
        assert_eq!(all[0]["spec"]["selector"], all[1]["metadata"]["labels"]);
        for (number, pod) in all[1..3].iter().enumerate() {
            assert_fields(pod, &["apiVersion", "kind", "metadata", "spec"]);
            assert_worker(&pod["metadata"], &pod["spec"]);
            assert_eq!(
                (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
                (&json!(format!("nccl-1-{number}")), &json!("nccl-1"))
            );
            assert_eq!(pod["metadata"]["namespace"], "bench");
        }
        let launcher = &all[3]["spec"];
        assert!(launcher["containers"][0]["resources"].is_null(), "the launcher has no GPU");
        assert!(
            words(&launcher["containers"][0]["command"])[2]
                .starts_with("hosts='nccl-1-0.nccl-1 nccl-1-1.nccl-1'\n")
        );
        for pod in &all[1..] {
            let mount = json!({"name": "ssh", "mountPath": "/etc/silkrail-ssh", "readOnly": true});
            assert!(
                pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap().contains(&mount),
                "{pod}"
            );
        }
    }

    #[test]
    fn hccl_has_npus_and_mpich_and_a_variable_of_the_user_is_kept() {
        let all = objects(CollectiveLibrary::Hccl, &options("mpijob"));
        assert_eq!(all[0]["spec"]["mpiImplementation"], "MPICH");
        let text = manifest(&plan(CollectiveLibrary::Hccl), &options("mpijob"));
        assert!(text.contains("huawei.com/Ascend910: 8") && !text.contains("NCCL_NET"), "{text}");
        let mut own = plan(CollectiveLibrary::Nccl);
        own.environment.push("NCCL_NET=Socket".parse().unwrap());
        let text = manifest(&own, &options("volcano"));
        assert!(text.contains("NCCL_NET=Socket") && !text.contains("NCCL_NET=IB"), "{text}");
        own.environment = vec!["NCCL_NET_GDR_LEVEL=PHB".parse().unwrap()];
        assert!(manifest(&own, &options("volcano")).contains("NCCL_NET=IB"), "another variable");
        let text = manifest(&plan(CollectiveLibrary::Hccl), &options("pods"));
        assert!(text.contains("exec mpirun -hosts \"$slots\"") && text.contains("$host:8"), "{text}");
    }

    #[test]
    fn options_of_mpirun_precede_the_program() {
        let mut plan = plan(CollectiveLibrary::Nccl);
        plan.mpirun_options =
            ["--mca", "btl_tcp_if_include", "eth0"].map(|word| word.parse().unwrap()).to_vec();
        let command = plan.command();
        assert!(
            command.contains(" --mca btl_tcp_if_include eth0 /opt/nccl-tests/build/all_reduce_perf "),
            "{command}"
        );
        for kind in ["mpijob", "volcano", "pods"] {
            let value = yaml::documents(&manifest(&plan, &options(kind))).unwrap();
            let text = serde_json::to_string(&value).unwrap();
            assert!(
                text.contains(r#""--mca","btl_tcp_if_include","eth0","-x","NCCL_NET=IB","/bin/sh""#),
                "{text}"
            );
        }
    }
}
