//! A plan as an MPIJob of the Kubeflow MPI Operator.

use std::fmt::Write;

use super::{CollectiveLibrary, CollectivePlan, Image};

/// Returns the extended resource name of a GPU or NPU.
fn resource(library: CollectiveLibrary) -> &'static str {
    match library {
        CollectiveLibrary::Nccl => "nvidia.com/gpu",
        CollectiveLibrary::Hccl => "huawei.com/Ascend910",
    }
}

/// Returns the manifest of an MPIJob (`kubeflow.org/v2beta1`) with one worker for each host of the plan. The scheduler
/// selects the nodes; pod anti-affinity puts each worker on a different one.
pub fn manifest(plan: &CollectivePlan, image: &Image, name: &super::Host) -> String {
    let (workers, slots) = (plan.hosts.len(), plan.per_node);
    let processes = plan.processes().to_string();
    let mut command: Vec<String> = match plan.library {
        CollectiveLibrary::Nccl => ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", &processes]
            .map(str::to_owned)
            .to_vec(),
        CollectiveLibrary::Hccl => ["mpirun", "-n", &processes].map(str::to_owned).to_vec(),
    };
    command.extend(plan.variables());
    command.extend(plan.program());
    // Every value is checked and quoted in a way that is valid JSON and YAML.
    let words: String = command.iter().fold(String::new(), |mut words, word| {
        let _ = write!(words, "\n            - {word:?}"); // writing to a String cannot fail
        words
    });
    let implementation = match plan.library {
        CollectiveLibrary::Nccl => "OpenMPI",
        CollectiveLibrary::Hccl => "MPICH",
    };
    let resource = resource(plan.library);
    format!(
        r#"apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: "{name}"
spec:
  slotsPerWorker: {slots}
  mpiImplementation: {implementation}
  runPolicy:
    cleanPodPolicy: Running
    backoffLimit: 0
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: launcher
            image: "{image}"
            command:{words}
    Worker:
      replicas: {workers}
      template:
        metadata:
          labels:
            silkrail-check: "{name}"
        spec:
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    silkrail-check: "{name}"
          containers:
          - name: worker
            image: "{image}"
            securityContext:
              capabilities:
                add: ["IPC_LOCK"]
            resources:
              limits:
                {resource}: {slots}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::plan::tests::plan;

    #[test]
    fn the_manifest_is_yaml_with_the_command_of_the_plan() {
        let image = "registry/nccl-tests:v2.13".parse().unwrap();
        let text = manifest(&plan(CollectiveLibrary::Nccl), &image, &"nccl-1".parse().unwrap());
        let value = yaml::documents(&text).unwrap().remove(0);
        assert_eq!(value["kind"], "MPIJob");
        let specs = &value["spec"]["mpiReplicaSpecs"];
        assert_eq!(specs["Worker"]["replicas"], 2);
        let worker = &specs["Worker"]["template"]["spec"]["containers"][0];
        assert_eq!(worker["resources"]["limits"]["nvidia.com/gpu"], 8);
        let command = specs["Launcher"]["template"]["spec"]["containers"][0]["command"].as_array().unwrap();
        let words: Vec<&str> = command.iter().map(|word| word.as_str().unwrap()).collect();
        let expected = "mpirun --allow-run-as-root --bind-to none -np 16 -x NCCL_IB_GID_INDEX=3 -x NCCL_IB_HCA=^mlx5_8 \
            /opt/nccl-tests/build/all_reduce_perf -b 33554432 -e 8589934592 -f 2 -g 1";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn the_manifest_for_hccl_requests_npus() {
        let text =
            manifest(&plan(CollectiveLibrary::Hccl), &"r/hccl".parse().unwrap(), &"hccl-1".parse().unwrap());
        let value = yaml::documents(&text).unwrap().remove(0);
        assert_eq!(value["spec"]["mpiImplementation"], "MPICH");
        assert!(text.contains("huawei.com/Ascend910: 8"), "{text}");
    }
}
