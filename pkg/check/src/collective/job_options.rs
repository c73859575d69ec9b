//! How a plan runs in a cluster: the kind of the job, its image, its networks and its resources.

use std::str::FromStr;

use super::{Host, Image};
use crate::InvalidTestSpec;

/// The kind of the objects that run a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// An MPIJob of Kubeflow's MPI Operator.
    MpiJob,
    /// A Job of Volcano.
    Volcano,
    /// Pods with a headless Service, without any operator.
    Pods,
}

impl FromStr for JobKind {
    type Err = InvalidTestSpec;

    fn from_str(text: &str) -> Result<Self, InvalidTestSpec> {
        match text {
            "mpijob" => Ok(Self::MpiJob),
            "volcano" => Ok(Self::Volcano),
            "pods" => Ok(Self::Pods),
            _ => Err(InvalidTestSpec::new(text, "mpijob, volcano or pods")),
        }
    }
}

/// A network of Multus: `[NAMESPACE/]NAME[@INTERFACE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkName(String);

impl NetworkName {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NetworkName {
    type Err = InvalidTestSpec;

    fn from_str(text: &str) -> Result<Self, InvalidTestSpec> {
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphanumeric())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
        };
        let (network, interface) = text.split_once('@').unwrap_or((text, "net1"));
        let (namespace, name) = network.split_once('/').unwrap_or(("default", network));
        if text.len() < 256 && [namespace, name, interface].into_iter().all(is_name) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidTestSpec::new(
                text,
                "a network of Multus, like kube-system/rail0 or kube-system/rail0@net1",
            ))
        }
    }
}

/// An extended resource and its amount for each worker: `spidernet.io/mellanoxrdma=8`, or 1 without an amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceAmount {
    /// The name, for example `nvidia.com/gpu`.
    pub name: String,
    /// The amount.
    pub amount: u16,
}

impl FromStr for ResourceAmount {
    type Err = InvalidTestSpec;

    fn from_str(text: &str) -> Result<Self, InvalidTestSpec> {
        let invalid =
            || InvalidTestSpec::new(text, "a resource and its amount, like spidernet.io/mellanoxrdma=8");
        let (name, amount) = text.split_once('=').unwrap_or((text, "1"));
        let amount = amount.parse().ok().filter(|amount| (1..=1024).contains(amount)).ok_or_else(invalid)?;
        let (domain, resource) = name.split_once('/').ok_or_else(invalid)?;
        let is_part = |part: &str, more: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if name.len() < 256 && is_part(domain, ".-") && is_part(resource, "._-") {
            Ok(Self { name: name.to_owned(), amount })
        } else {
            Err(invalid())
        }
    }
}

/// How a plan runs in a cluster.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// The kind of the objects.
    pub kind: JobKind,
    /// The image of all containers: the test programs, MPI, and an SSH server and client.
    pub image: Image,
    /// The name of the objects.
    pub name: Host,
    /// The namespace of the objects; that of kubectl if it is `None`.
    pub namespace: Option<Host>,
    /// The additional networks of each worker: one for each rail. Empty if the cluster's default network has RDMA.
    pub networks: Vec<NetworkName>,
    /// The RDMA devices of each worker.
    pub rdma: Vec<ResourceAmount>,
    /// The resource of a GPU or NPU; that of the library's vendor if it is `None`.
    pub accelerator: Option<ResourceAmount>,
    /// The size of `/dev/shm` of each worker, in GiB. Processes of one node exchange data over it.
    pub shared_memory_gib: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_networks_and_resources_are_checked() {
        for good in ["rail0", "kube-system/rail0", "kube-system/rail0@net1"] {
            assert_eq!(good.parse::<NetworkName>().unwrap().as_str(), good);
        }
        for bad in ["", "a/b/c", "/a", "a@", "a b", "[{\"name\":\"a\"}]", "a,b", "-a"] {
            assert!(bad.parse::<NetworkName>().is_err(), "{bad:?}");
        }
        let amount = |text: &str| text.parse::<ResourceAmount>().unwrap().amount;
        assert_eq!((amount("rdma/hca"), amount("spidernet.io/mellanoxrdma=8")), (1, 8));
        for bad in ["", "gpu", "a/b=0", "a/b=-1", "a/b=x", "a/b c", "/b", "a/"] {
            assert!(bad.parse::<ResourceAmount>().is_err(), "{bad:?}");
        }
    }
}
