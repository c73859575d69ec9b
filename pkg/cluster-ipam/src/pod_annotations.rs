//! The annotations of pods and namespaces that select pools, with Spiderpool's names and formats.

use std::{collections::BTreeMap, net::IpAddr};

use ipam::{ListedPools, PodPoolLists, PoolListSource, PoolRoute};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

const POOLS: &str = "ipam.spidernet.io/ippool";
const POOLS_OF_INTERFACES: &str = "ipam.spidernet.io/ippools";
const ROUTES: &str = "ipam.spidernet.io/routes";
const SUBNETS: [&str; 2] = ["ipam.spidernet.io/subnet", "ipam.spidernet.io/subnets"];
const DEFAULT_IPV4: &str = "ipam.spidernet.io/default-ipv4-ippool";
const DEFAULT_IPV6: &str = "ipam.spidernet.io/default-ipv6-ippool";
/// Multus's annotation with the networks of a pod.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// The annotation of a static pod's object with the UID that the kubelet passes to plugins.
pub(crate) const STATIC_UID: &str = "kubernetes.io/config.mirror";
/// The number of characters of an invalid annotation that an error contains.
const MAX_SHOWN: usize = 200;

/// Whether an annotation of a pod is used.
pub(crate) fn is_used(annotation: &str) -> bool {
    [POOLS, POOLS_OF_INTERFACES, ROUTES, NETWORKS, STATIC_UID].contains(&annotation)
        || SUBNETS.contains(&annotation)
}

/// The annotations of an object.
pub(crate) type Annotations = BTreeMap<String, String>;

/// An annotation cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation} of the {object}: {problem}")]
pub(crate) struct InvalidAnnotation {
    object: &'static str,
    annotation: &'static str,
    problem: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolsValue {
    ipv4: Option<Vec<String>>,
    ipv6: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceValue {
    interface: Option<String>,
    ipv4: Option<Vec<String>>,
    ipv6: Option<Vec<String>>,
    #[serde(alias = "cleanGateway")]
    cleangateway: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteValue {
    dst: String,
    gw: String,
}

/// Returns the lists of pools for a pod: those of the first of these annotations: `ippools` and `ippool` of the pod, and those of
/// its namespace.
///
/// # Errors
/// The annotation that is not valid.
pub(crate) fn pool_lists(
    pod: &Annotations,
    namespace: &Annotations,
) -> Result<PodPoolLists, InvalidAnnotation> {
    for annotation in SUBNETS {
        if pod.contains_key(annotation) {
            let problem = "SpiderSubnet objects are not supported; list pools in ipam.spidernet.io/ippools";
            return Err(InvalidAnnotation { object: "pod", annotation, problem: problem.to_owned() });
        }
    }
    if let Some(interfaces) = of_interfaces(pod)? {
        return Ok(PodPoolLists::OfInterfaces(interfaces));
    }
    if let Some(pools) = of_pod(pod)? {
        return Ok(PodPoolLists::OfPod { source: PoolListSource::Pod, pools });
    }
    let of = |annotation| Ok(value::<Vec<String>>("namespace", namespace, annotation)?.unwrap_or_default());
    let pools = ListedPools { ipv4: of(DEFAULT_IPV4)?, ipv6: of(DEFAULT_IPV6)?, clean_gateway: false };
    Ok(match pools.ipv4.is_empty() && pools.ipv6.is_empty() {
        true => PodPoolLists::OfNetwork,
        false => PodPoolLists::OfPod { source: PoolListSource::Namespace, pools },
    })
}

/// Returns the routes of a pod.
///
/// # Errors
/// If the annotation is not valid.
pub(crate) fn routes(pod: &Annotations) -> Result<Vec<PoolRoute>, InvalidAnnotation> {
    let values: Vec<RouteValue> = value("pod", pod, ROUTES)?.unwrap_or_default();
    let route = |RouteValue { dst, gw }: RouteValue| {
        let parsed = dst.parse::<ipnetwork::IpNetwork>().ok().zip(gw.parse::<IpAddr>().ok());
        let parsed = parsed.filter(|(to, gateway)| dst.contains('/') && to.is_ipv4() == gateway.is_ipv4());
        let (dst, gw) = parsed.ok_or_else(|| InvalidAnnotation {
            object: "pod",
            annotation: ROUTES,
            problem: format!(
                "expected a destination like 10.1.0.0/16 and a gateway of its family, found dst {dst:?} and gw {gw:?}"
            ),
        })?;
        Ok(PoolRoute { dst, gw })
    };
    values.into_iter().map(route).collect()
}

fn of_pod(pod: &Annotations) -> Result<Option<ListedPools>, InvalidAnnotation> {
    let Some(PoolsValue { ipv4, ipv6 }) = value("pod", pod, POOLS)? else { return Ok(None) };
    let (ipv4, ipv6) = (ipv4.unwrap_or_default(), ipv6.unwrap_or_default());
    refuse_empty(POOLS, &ipv4, &ipv6)?;
    Ok(Some(ListedPools { ipv4, ipv6, clean_gateway: false }))
}

fn of_interfaces(pod: &Annotations) -> Result<Option<BTreeMap<String, ListedPools>>, InvalidAnnotation> {
    let wrong =
        |problem: String| InvalidAnnotation { object: "pod", annotation: POOLS_OF_INTERFACES, problem };
    let Some(values) = value::<Vec<InterfaceValue>>("pod", pod, POOLS_OF_INTERFACES)? else {
        return Ok(None);
    };
    let is_named = |value: &&InterfaceValue| value.interface.as_ref().is_some_and(|name| !name.is_empty());
    let named = values.iter().filter(is_named).count();
    if named != 0 && named != values.len() {
        return Err(wrong("expected \"interface\" in all elements or in none, found it in some".to_owned()));
    }
    let in_order = if named == 0 { interfaces_in_order(pod.get(NETWORKS), values.len()) } else { Vec::new() };
    let mut interfaces = BTreeMap::new();
    for (index, InterfaceValue { interface, ipv4, ipv6, cleangateway }) in values.into_iter().enumerate() {
        let (ipv4, ipv6) = (ipv4.unwrap_or_default(), ipv6.unwrap_or_default());
        refuse_empty(POOLS_OF_INTERFACES, &ipv4, &ipv6)?;
        let name = in_order.get(index).cloned().or(interface).unwrap_or_default();
        let pools = ListedPools { ipv4, ipv6, clean_gateway: cleangateway.unwrap_or_default() };
        if interfaces.insert(name.clone(), pools).is_some() {
            return Err(wrong(format!("interface {name} is listed twice; remove one")));
        }
    }
    if interfaces.is_empty() {
        return Err(wrong("the list is empty; remove the annotation".to_owned()));
    }
    Ok(Some(interfaces))
}

fn refuse_empty(annotation: &'static str, ipv4: &[String], ipv6: &[String]) -> Result<(), InvalidAnnotation> {
    if !ipv4.is_empty() || !ipv6.is_empty() {
        return Ok(());
    }
    let problem = "expected pools in \"ipv4\" or \"ipv6\", found none".to_owned();
    Err(InvalidAnnotation { object: "pod", annotation, problem })
}

/// Returns the names of the first interfaces of a pod: `eth0`, then those that the annotation of Multus gives, or `net1`, `net2`, ….
fn interfaces_in_order(networks: Option<&String>, count: usize) -> Vec<String> {
    let networks = networks.map(|text| interfaces_of_networks(text)).unwrap_or_default();
    let name = |index: usize| match index.checked_sub(1) {
        None => "eth0".to_owned(),
        Some(at) => networks.get(at).cloned().flatten().unwrap_or_else(|| format!("net{index}")),
    };
    (0..count).map(name).collect()
}

/// Returns the name that the annotation of Multus gives to the interface of each network. The annotation is a JSON list or
/// `namespace/network@interface, …`.
fn interfaces_of_networks(text: &str) -> Vec<Option<String>> {
    match serde_json::from_str::<Vec<Value>>(text) {
        Ok(list) => list.iter().map(|network| named(network["interface"].as_str()?)).collect(),
        Err(_) => text.split(',').map(|network| named(network.split_once('@')?.1.trim())).collect(),
    }
}

fn named(interface: &str) -> Option<String> {
    (!interface.is_empty()).then(|| interface.to_owned())
}

fn value<T: DeserializeOwned>(
    object: &'static str,
    annotations: &Annotations,
    annotation: &'static str,
) -> Result<Option<T>, InvalidAnnotation> {
    let Some(text) = annotations.get(annotation) else { return Ok(None) };
    let wrong = |error: serde_json::Error| InvalidAnnotation {
        object,
        annotation,
        problem: format!("{error}, found {}", text.chars().take(MAX_SHOWN).collect::<String>()),
    };
    serde_json::from_str(text).map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(of: &[(&str, &str)]) -> Annotations {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn listed(ipv4: &[&str], ipv6: &[&str]) -> ListedPools {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ListedPools { ipv4: owned(ipv4), ipv6: owned(ipv6), clean_gateway: false }
    }

    fn of_pod(of: &[(&str, &str)]) -> Result<PodPoolLists, InvalidAnnotation> {
        pool_lists(&annotations(of), &Annotations::new())
    }

    fn interfaces(lists: PodPoolLists) -> Vec<String> {
        match lists {
            PodPoolLists::OfInterfaces(interfaces) => interfaces.into_keys().collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ipam_case_061_annotations_of_the_pod_come_before_those_of_the_namespace() {
        let ippool = (POOLS, r#"{"ipv4":["p"],"ipv6":["p6"]}"#);
        let ippools = (POOLS_OF_INTERFACES, r#"[{"interface":"net1","ipv4":["i"]}]"#);
        let namespace = annotations(&[(DEFAULT_IPV4, r#"["n"]"#)]);
        let of = |pod: &[(&str, &str)]| pool_lists(&annotations(pod), &namespace).unwrap();
        assert_eq!(interfaces(of(&[ippool, ippools])), ["net1"]);
        assert_eq!(
            of(&[ippool]),
            PodPoolLists::OfPod { source: PoolListSource::Pod, pools: listed(&["p"], &["p6"]) }
        );
        assert_eq!(
            of(&[]),
            PodPoolLists::OfPod { source: PoolListSource::Namespace, pools: listed(&["n"], &[]) }
        );
        assert_eq!(of_pod(&[]).unwrap(), PodPoolLists::OfNetwork);
        for (annotations_of, expected) in [
            (&[(DEFAULT_IPV6, r#"["n6"]"#)][..], listed(&[], &["n6"])),
            (&[(DEFAULT_IPV4, r#"["n"]"#), (DEFAULT_IPV6, r#"["n6"]"#)], listed(&["n"], &["n6"])),
        ] {
            let lists = pool_lists(&Annotations::new(), &annotations(annotations_of)).unwrap();
            assert_eq!(lists, PodPoolLists::OfPod { source: PoolListSource::Namespace, pools: expected });
        }
        let empty = annotations(&[(DEFAULT_IPV4, "[]")]);
        assert_eq!(pool_lists(&Annotations::new(), &empty).unwrap(), PodPoolLists::OfNetwork);
        let six = of(&[(POOLS, r#"{"ipv6":["p6"]}"#)]);
        let source = PoolListSource::Pod;
        assert_eq!(six, PodPoolLists::OfPod { source, pools: listed(&[], &["p6"]) });
        for name in [POOLS, POOLS_OF_INTERFACES, ROUTES, NETWORKS, STATIC_UID, SUBNETS[0], SUBNETS[1]] {
            assert!(is_used(name), "{name}");
        }
        assert!(!is_used(DEFAULT_IPV4) && !is_used("other"));
    }

    #[test]
    fn ipam_case_059_without_names_elements_are_for_interfaces_in_order() {
        let three = r#"[{"ipv4":["a"],"ipv6":null},{"ipv4":["b"],"cleangateway":true},{"ipv6":["c"]}]"#;
        let names = |networks: &str| {
            interfaces(of_pod(&[(POOLS_OF_INTERFACES, three), (NETWORKS, networks)]).unwrap())
        };
        assert_eq!(interfaces(of_pod(&[(POOLS_OF_INTERFACES, three)]).unwrap()), ["eth0", "net1", "net2"]);
        assert_eq!(names("kube-system/a@rail0, b"), ["eth0", "net2", "rail0"]);
        assert_eq!(names(r#"[{"name":"a"},{"name":"b","interface":"rail1"}]"#), ["eth0", "net1", "rail1"]);
        assert_eq!(names(r#"[{"name":"a","interface":""},{"name":"b"}]"#), ["eth0", "net1", "net2"]);
        let PodPoolLists::OfInterfaces(found) = of_pod(&[(POOLS_OF_INTERFACES, three)]).unwrap() else {
            panic!()
        };
        let named =
            r#"[{"interface":"net3","ipv4":["a"],"cleanGateway":true},{"interface":"net1","ipv4":["b"]}]"#;
        let PodPoolLists::OfInterfaces(by_name) =
            of_pod(&[(POOLS_OF_INTERFACES, named), (NETWORKS, "a@x,b@y")]).unwrap()
        else {
            panic!()
        };
        assert!(
            by_name["net3"].clean_gateway && !by_name["net1"].clean_gateway && by_name["net1"].ipv4 == ["b"]
        );
        assert!(
            !found["eth0"].clean_gateway
                && found["net1"].clean_gateway
                && found["net1"].ipv4 == ["b"]
                && found["net2"].ipv6 == ["c"]
        );
    }

    #[test]
    fn ipam_case_060_invalid_annotations_are_refused_with_their_name() {
        for (annotation, text, problem) in [
            (
                POOLS_OF_INTERFACES,
                r#"[{"interface":"net1","ipv4":["a"]},{"ipv4":["b"]}]"#,
                "in all elements or in none",
            ),
            (
                POOLS_OF_INTERFACES,
                r#"[{"interface":"n","ipv4":["a"]},{"interface":"n","ipv4":["b"]}]"#,
                "interface n is listed twice",
            ),
            (POOLS_OF_INTERFACES, "[]", "the list is empty"),
            (POOLS_OF_INTERFACES, r#"[{"interface":"net1"}]"#, "found none"),
            (POOLS_OF_INTERFACES, r#"{"ipv4":["a"]}"#, "invalid type: map"),
            (POOLS, r#"{"ipv4":["a"],"ip6":["b"]}"#, "unknown field `ip6`"),
            (POOLS, "{}", "found none"),
            (POOLS, "rail0", "found rail0"),
            (SUBNETS[0], "{}", "SpiderSubnet objects are not supported"),
            (SUBNETS[1], "[]", "SpiderSubnet objects are not supported"),
            (POOLS, r#"{"ipv4":[],"ipv6":[]}"#, "found none"),
            (
                POOLS_OF_INTERFACES,
                r#"[{"interface":"n","ipv4":["a"]},{"interface":"","ipv4":["b"]}]"#,
                "or in none",
            ),
            (POOLS_OF_INTERFACES, r#"[{"interface":"n","ipv4":["a"]},{"interface":"m"}]"#, "found none"),
        ] {
            let error = of_pod(&[(annotation, text)]).unwrap_err().to_string();
            let is_right = error.starts_with(&format!("annotation {annotation} of the pod: "));
            assert!(is_right && error.contains(problem), "{error}");
        }
        let error = pool_lists(&Annotations::new(), &annotations(&[(DEFAULT_IPV6, "a")])).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("annotation ipam.spidernet.io/default-ipv6-ippool of the namespace: "),
            "{error}"
        );
    }

    #[test]
    fn routes_have_a_destination_and_a_gateway_of_its_family() {
        let of = |text: &str| routes(&annotations(&[(ROUTES, text)]));
        let found = of(r#"[{"dst":"10.1.0.0/16","gw":"10.0.0.1"},{"dst":"::/0","gw":"fd00::1"}]"#).unwrap();
        let texts: Vec<_> = found.iter().map(|route| format!("{} {}", route.dst, route.gw)).collect();
        assert_eq!(texts, ["10.1.0.0/16 10.0.0.1", "::/0 fd00::1"]);
        for wrong in [
            r#"[{"dst":"10.1.0.0/16","gw":"fd00::1"}]"#,
            r#"[{"dst":"10.1.0.0","gw":"10.0.0.1"}]"#,
            r#"[{"dst":"10.1.0.0/16"}]"#,
            "{}",
        ] {
            let error = of(wrong).unwrap_err().to_string();
            assert!(error.contains("annotation ipam.spidernet.io/routes of the pod: "), "{error}");
        }
        assert_eq!(routes(&Annotations::new()).unwrap(), []);
    }
}
