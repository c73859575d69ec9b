//! The pools of a pod according to its Kubernetes objects. `silkraild ipam` writes them to a file for each pod of the node.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::{Map, Value, json};

use crate::{InvalidPool, InvalidValue, PoolListSource, PoolRoute, spec::SpecReader};

/// What the objects of a pod and of its namespace say about pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodPools {
    /// The pod as `namespace/name`.
    pub pod: String,
    /// The error of an invalid annotation: the pod gets no address.
    pub problem: Option<String>,
    /// The lists of pools.
    pub lists: PodPoolLists,
    /// The routes of `ipam.spidernet.io/routes`.
    pub routes: Vec<PoolRoute>,
    /// The names of the pools whose label selectors select the pod.
    pub selected_by: SelectingPools,
    /// Whether the pod is created again under the same name and then keeps its addresses.
    pub is_stable: bool,
    /// The addresses that are reserved for the pod, by interface.
    pub reserved: BTreeMap<String, Vec<ReservedAddress>>,
    /// The interfaces whose reservations belong to an object that is gone, so that they would be deleted.
    pub outdated: Vec<String>,
}

/// An address that is reserved for an interface of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedAddress {
    /// The name of the pool.
    pub pool: String,
    /// The address.
    pub address: IpAddr,
}

/// The lists of pools of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PodPoolLists {
    /// No annotation lists pools: those of the network's configuration are used.
    #[default]
    OfNetwork,
    /// For all interfaces.
    OfPod {
        /// The annotation.
        source: PoolListSource,
        /// The pools.
        pools: ListedPools,
    },
    /// For each interface by its name.
    OfInterfaces(BTreeMap<String, ListedPools>),
}

/// The pools of an interface: names and patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedPools {
    /// The IPv4 pools.
    pub ipv4: Vec<String>,
    /// The IPv6 pools.
    pub ipv6: Vec<String>,
    /// Whether the interface gets no default route.
    pub clean_gateway: bool,
}

/// The names of pools that select a pod by labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectingPools {
    /// Those with `podAffinity`.
    pub pod_affinity: Vec<String>,
    /// Those with `namespaceAffinity`.
    pub namespace_affinity: Vec<String>,
}

/// An interface has no pools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodPoolsError {
    /// An annotation is invalid.
    #[error("wrong input, {0}")]
    Annotation(String),
    /// The annotation lists other interfaces only.
    #[error(
        "wrong input, annotation ipam.spidernet.io/ippools of the pod has no pools for interface {ifname}; it has them for {}",
        .interfaces.join(", ")
    )]
    NoInterface {
        /// The name of the interface.
        ifname: String,
        /// The names of the interfaces that it lists.
        interfaces: Vec<String>,
    },
}

impl PodPools {
    /// Returns the name of the file of a pod; `None` if its UID is not safe in a file name.
    pub fn file_name(uid: &str) -> Option<String> {
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_uid = (1..=64).contains(&uid.len()) && uid.bytes().all(is_safe);
        is_uid.then(|| format!("{uid}.json"))
    }

    /// Returns the pools that annotations list for an interface, with the annotation; `None` if they list none.
    ///
    /// # Errors
    /// If an annotation is invalid or lists other interfaces only.
    pub fn of_interface(
        &self,
        ifname: &str,
    ) -> Result<Option<(PoolListSource, &ListedPools)>, PodPoolsError> {
        if let Some(problem) = &self.problem {
            return Err(PodPoolsError::Annotation(problem.clone()));
        }
        match &self.lists {
            PodPoolLists::OfNetwork => Ok(None),
            PodPoolLists::OfPod { source, pools } => Ok(Some((*source, pools))),
            PodPoolLists::OfInterfaces(interfaces) => match interfaces.get(ifname) {
                Some(pools) => Ok(Some((PoolListSource::PodInterfaces, pools))),
                None => Err(PodPoolsError::NoInterface {
                    ifname: ifname.to_owned(),
                    interfaces: interfaces.keys().cloned().collect(),
                }),
            },
        }
    }

    /// Returns the routes over gateways of a subnet that contains this address.
    pub fn routes_in(&self, subnet: ipnetwork::IpNetwork) -> impl Iterator<Item = &PoolRoute> {
        self.routes.iter().filter(move |route| subnet.contains(route.gw))
    }

    /// Returns the content of the file.
    pub fn to_json(&self) -> Value {
        let routes = self.routes.iter().map(|route| json!([route.dst.to_string(), route.gw.to_string()]));
        let mut object = json!({
            "pod": self.pod,
            "routes": routes.collect::<Vec<_>>(),
            "podAffinity": self.selected_by.pod_affinity,
            "namespaceAffinity": self.selected_by.namespace_affinity,
        });
        if let Some(problem) = &self.problem {
            object["problem"] = json!(problem);
        }
        if self.is_stable {
            object["stable"] = json!(true);
            let reserved = self.reserved.iter();
            let reserved = reserved.map(|(name, all)| (name.clone(), ReservedAddress::list_to_json(all)));
            object["reserved"] = Value::Object(reserved.collect());
            object["outdated"] = json!(self.outdated);
        }
        match &self.lists {
            PodPoolLists::OfNetwork => {}
            PodPoolLists::OfPod { source, pools } => {
                object["source"] = json!(source.file_value());
                object["pools"] = pools.to_json();
            }
            PodPoolLists::OfInterfaces(interfaces) => {
                let pools = interfaces.iter().map(|(name, pools)| (name.clone(), pools.to_json()));
                object["interfaces"] = Value::Object(pools.collect());
            }
        }
        object
    }

    /// Parses the content of the file.
    ///
    /// # Errors
    /// The key of a value that is not valid.
    pub fn from_json(value: &Value) -> Result<Self, InvalidPool> {
        let object = value.as_object().ok_or_else(|| {
            InvalidValue::Type { expected: "an object", found: value.to_string() }.at("pod")
        })?;
        let file = SpecReader(object);
        let texts = |key: &str| Ok(file.texts(key)?.into_iter().map(str::to_owned).collect::<Vec<_>>());
        let lists = match (file.object("interfaces")?, file.object("pools")?) {
            (Some(SpecReader(interfaces)), _) => PodPoolLists::OfInterfaces(listed_by_interface(interfaces)?),
            (None, Some(pools)) => PodPoolLists::OfPod {
                source: PoolListSource::from_file_value(file.text("source")?.unwrap_or_default()),
                pools: ListedPools::read(pools)?,
            },
            (None, None) => PodPoolLists::OfNetwork,
        };
        Ok(Self {
            pod: file.text("pod")?.unwrap_or_default().to_owned(),
            problem: file.text("problem")?.map(str::to_owned),
            lists,
            routes: file.list("routes")?.iter().map(route).collect::<Result<_, _>>()?,
            selected_by: SelectingPools {
                pod_affinity: texts("podAffinity")?,
                namespace_affinity: texts("namespaceAffinity")?,
            },
            is_stable: file.flag("stable")?,
            reserved: match file.object("reserved")? {
                None => BTreeMap::new(),
                Some(interfaces) => reserved_by_interface(interfaces)?,
            },
            outdated: texts("outdated")?,
        })
    }
}

impl ReservedAddress {
    /// Returns the JSON form of a list.
    pub(crate) fn list_to_json(list: &[Self]) -> Value {
        list.iter().map(|one| json!({"pool": one.pool, "address": one.address.to_string()})).collect()
    }

    fn read(value: &Value) -> Result<Self, InvalidPool> {
        let invalid = || {
            InvalidValue::Type { expected: "a pool and an address", found: value.to_string() }.at("reserved")
        };
        let object = SpecReader(value.as_object().ok_or_else(invalid)?);
        let pool = object.text("pool")?.ok_or_else(invalid)?.to_owned();
        Ok(Self { pool, address: object.parsed("address", "an address")?.ok_or_else(invalid)? })
    }
}

impl ListedPools {
    fn to_json(&self) -> Value {
        json!({"ipv4": self.ipv4, "ipv6": self.ipv6, "cleanGateway": self.clean_gateway})
    }

    fn read(pools: SpecReader<'_>) -> Result<Self, InvalidPool> {
        let texts = |key: &str| Ok(pools.texts(key)?.into_iter().map(str::to_owned).collect());
        Ok(Self { ipv4: texts("ipv4")?, ipv6: texts("ipv6")?, clean_gateway: pools.flag("cleanGateway")? })
    }
}

fn listed_by_interface(
    interfaces: &Map<String, Value>,
) -> Result<BTreeMap<String, ListedPools>, InvalidPool> {
    let file = SpecReader(interfaces);
    let pools = |name: &String| {
        let pools = file.object(name)?.map(ListedPools::read).transpose()?;
        Ok((name.clone(), pools.unwrap_or_default()))
    };
    interfaces.keys().map(pools).collect()
}

fn reserved_by_interface(
    interfaces: SpecReader<'_>,
) -> Result<BTreeMap<String, Vec<ReservedAddress>>, InvalidPool> {
    let reserved = |name: &String| {
        let list = interfaces.list(name)?.iter().map(ReservedAddress::read).collect::<Result<_, _>>()?;
        Ok((name.clone(), list))
    };
    interfaces.0.keys().map(reserved).collect()
}

fn route(pair: &Value) -> Result<PoolRoute, InvalidPool> {
    let text = |index: usize| pair.get(index).and_then(Value::as_str).unwrap_or_default();
    let gateway: Option<IpAddr> = text(1).parse().ok();
    match (text(0).parse(), gateway) {
        (Ok(dst), Some(gw)) => Ok(PoolRoute { dst, gw }),
        _ => Err(InvalidValue::Type { expected: "a destination and a gateway", found: pair.to_string() }
            .at("routes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(ipv4: &[&str]) -> ListedPools {
        ListedPools { ipv4: ipv4.iter().map(|name| (*name).to_owned()).collect(), ..ListedPools::default() }
    }

    fn read_back(pools: &PodPools) -> PodPools {
        PodPools::from_json(&serde_json::from_str(&pools.to_json().to_string()).unwrap()).unwrap()
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let reserved = ReservedAddress { pool: "a".to_owned(), address: "10.0.0.5".parse().unwrap() };
        let route = PoolRoute { dst: "10.1.0.0/16".parse().unwrap(), gw: "10.0.0.1".parse().unwrap() };
        let all = PodPools {
            pod: "ai/web-0".to_owned(),
            problem: Some("p".to_owned()),
            lists: PodPoolLists::OfPod { source: PoolListSource::Namespace, pools: listed(&["a", "b*"]) },
            routes: vec![route],
            selected_by: SelectingPools {
                pod_affinity: vec!["c".to_owned()],
                namespace_affinity: vec!["d".to_owned()],
            },
            is_stable: true,
            reserved: BTreeMap::from([("net1".to_owned(), vec![reserved])]),
            outdated: vec!["net1".to_owned()],
        };
        assert_eq!(read_back(&all), all);
        let clean = ListedPools { clean_gateway: true, ipv6: vec!["six".to_owned()], ..listed(&[]) };
        let interfaces = BTreeMap::from([("net1".to_owned(), listed(&["a"])), ("net2".to_owned(), clean)]);
        let of_interfaces = PodPools { lists: PodPoolLists::OfInterfaces(interfaces), ..PodPools::default() };
        assert_eq!(read_back(&of_interfaces), of_interfaces);
        assert_eq!(read_back(&PodPools::default()), PodPools::default());
    }

    #[test]
    fn a_uid_that_is_safe_in_a_file_name_names_the_file() {
        let longest = "f".repeat(64);
        for uid in ["91ab", "5F3e-0", longest.as_str()] {
            assert_eq!(PodPools::file_name(uid), Some(format!("{uid}.json")));
        }
        for uid in ["", "../a", "a.b", "a b", &(longest + "f")] {
            assert_eq!(PodPools::file_name(uid), None, "{uid}");
        }
    }

    #[test]
    fn the_routes_of_a_subnet_are_those_over_its_gateways() {
        let route = |dst: &str, gw: &str| PoolRoute { dst: dst.parse().unwrap(), gw: gw.parse().unwrap() };
        let (one, two) = (route("10.8.0.0/16", "10.0.0.1"), route("10.0.0.0/24", "10.0.1.1"));
        let pools = PodPools { routes: vec![one, two, route("fd01::/64", "fd00::1")], ..PodPools::default() };
        let of = |subnet: &str| pools.routes_in(subnet.parse().unwrap()).collect::<Vec<_>>();
        assert_eq!((of("10.0.0.0/24"), of("10.0.0.0/16")), (vec![&one], vec![&one, &two]));
    }

    #[test]
    fn an_invalid_file_is_refused_with_its_key() {
        for (value, key) in [
            (json!(["a"]), "pod: expected an object"),
            (json!({"pools": {"ipv4": ["a", 1]}}), "ipv4[1]: expected a string"),
            (json!({"routes": [["10.0.0.0/8"]]}), "routes: expected a destination"),
            (json!({"interfaces": {"net1": 1}}), "net1: expected an object"),
            (json!({"reserved": {"net1": [{"pool": "a"}]}}), "reserved: expected a pool and an address"),
        ] {
            let error = PodPools::from_json(&value).unwrap_err().to_string();
            assert!(error.starts_with(key), "{error}");
        }
    }

    #[test]
    fn ipam_case_058_an_interface_that_the_annotation_does_not_list_is_named() {
        let interfaces =
            BTreeMap::from([("net1".to_owned(), listed(&["a"])), ("net3".to_owned(), listed(&[]))]);
        let pools = PodPools { lists: PodPoolLists::OfInterfaces(interfaces), ..PodPools::default() };
        let (source, found) = pools.of_interface("net1").unwrap().unwrap();
        assert_eq!((source, found), (PoolListSource::PodInterfaces, &listed(&["a"])));
        let error = pools.of_interface("net2").unwrap_err().to_string();
        assert_eq!(
            error,
            "wrong input, annotation ipam.spidernet.io/ippools of the pod has no pools for interface net2; it has them for net1, net3"
        );
        let invalid = PodPools { problem: Some("annotation x: y".to_owned()), ..PodPools::default() };
        assert_eq!(invalid.of_interface("net1").unwrap_err().to_string(), "wrong input, annotation x: y");
    }
}
