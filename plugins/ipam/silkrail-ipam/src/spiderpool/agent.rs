//! The agent of Spiderpool: its HTTP API on a Unix socket (`/v1`, as its OpenAPI document defines it).

use std::{fmt, io, path::PathBuf, time::Duration};

use cni::{AddResult, CallContext, IpConfig, ResultRoute};
use identifiers::Attachment;
use ipnetwork::IpNetwork;
use plugin_runtime::{Error, Node};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::warn;

use crate::{
    agent_socket,
    error::IpamError,
    spiderpool::http::{self, HttpResponse},
};

/// The timeout of an assignment. The agent retries its own requests to the API server meanwhile.
const ASSIGN_TIMEOUT: Duration = Duration::from_secs(90);
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// The agent, and what an ADD asks of it.
#[derive(Debug)]
pub(crate) struct SpiderpoolAgent {
    socket: PathBuf,
    /// The keys of a request that depend on the configuration only.
    options: Value,
}

/// The addresses of an attachment. The agent identifies them by these values.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentAddress {
    socket: PathBuf,
    attachment: Attachment,
    netns: String,
    namespace: String,
    pod: String,
    uid: String,
}

impl SpiderpoolAgent {
    /// Parses the configuration.
    ///
    /// # Errors
    /// The key of an invalid value.
    pub(crate) fn of(common: &CallContext<'_>) -> Result<Self, Error> {
        let fields = common.conf.fields();
        let Some(ipam) = fields.object("ipam")? else {
            return Ok(Self { socket: agent_socket::path(common)?, options: json!({}) });
        };
        let options = json!({
            "defaultIPv4IPPool": ipam.texts("default_ipv4_ippool")?,
            "defaultIPv6IPPool": ipam.texts("default_ipv6_ippool")?,
            "cleanGateway": ipam.flag("clean_gateway")?.unwrap_or(false),
            "matchMasterSubnet": ipam.flag("match_master_subnet")?.unwrap_or(false),
        });
        Ok(Self { socket: agent_socket::path(common)?, options })
    }

    /// Has the agent assign addresses to an attachment, or return those that it has.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn assign(&self, node: &Node, address: &AgentAddress) -> Result<AddResult, Error> {
        let mut body = address.body();
        if let (Some(body), Some(options)) = (body.as_object_mut(), self.options.as_object()) {
            body.extend(options.clone());
        }
        let deadline = node.budget.until("Spiderpool's agent", ASSIGN_TIMEOUT);
        let response = http::request(&self.socket, "POST", "/v1/ipam/ip", &body.to_string(), deadline.at());
        let HttpResponse { status, body } = response.map_err(|error| unreachable(&self.socket, &error))?;
        if status != 200 {
            return Err(IpamError::Agent(format!(
                "spiderpool IP allocation error: [POST /ipam/ip][{status}] {}",
                message(&body)
            ))
            .into());
        }
        let ifname = address.attachment.ifname.as_str();
        parse(&body, ifname)
            .map_err(|problem| IpamError::Agent(format!("Spiderpool's agent: {problem}")).into())
    }

    /// Checks that the agent answers.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn check_health(&self, node: &Node) -> Result<(), Error> {
        let deadline = node.budget.until("Spiderpool's agent", HEALTH_TIMEOUT);
        match http::request(&self.socket, "GET", "/v1/ipam/healthy", "", deadline.at()) {
            Ok(HttpResponse { status: 200, .. }) => Ok(()),
            Ok(HttpResponse { status, body }) => {
                let text = format!(
                    "unhealthy spiderpool-agent backend, failed to check: [{status}] {}",
                    message(&body)
                );
                Err(IpamError::AgentUnavailable(text).into())
            }
            Err(error) => Err(unreachable(&self.socket, &error)),
        }
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pod {}/{}), assigned by Spiderpool", self.attachment, self.namespace, self.pod)
    }
}

impl AgentAddress {
    /// Returns the values of an attachment.
    ///
    /// # Errors
    /// If `CNI_ARGS` does not identify the pod.
    pub(crate) fn of(common: &CallContext<'_>, attachment: &Attachment, netns: &str) -> Result<Self, Error> {
        let arg = |name: &'static str| {
            let value = common.args.get(name).filter(|value| !value.is_empty());
            value.map(str::to_owned).ok_or(IpamError::NoPod(name))
        };
        Ok(Self {
            socket: agent_socket::path(common)?,
            attachment: attachment.clone(),
            netns: netns.to_owned(),
            namespace: arg("K8S_POD_NAMESPACE")?,
            pod: arg("K8S_POD_NAME")?,
            uid: arg("K8S_POD_UID")?,
        })
    }

    /// Has the agent release the addresses. Succeeds if there is no agent: Spiderpool's controller releases the addresses of pods
    /// that are gone.
    ///
    /// # Errors
    /// If the agent does not answer in time.
    pub(crate) fn release(&self, node: &Node) -> Result<(), Error> {
        let deadline = node.budget.until("Spiderpool's agent", RELEASE_TIMEOUT);
        let response =
            http::request(&self.socket, "DELETE", "/v1/ipam/ip", &self.body().to_string(), deadline.at());
        match response {
            Ok(HttpResponse { status: 200, .. }) => {}
            Ok(HttpResponse { status, body }) => {
                warn!(status, message = message(&body), attachment = %self.attachment, "Spiderpool's agent did not release the addresses; its controller does");
            }
            Err(error) => {
                let socket = self.socket.display();
                warn!(%socket, %error, attachment = %self.attachment, "Spiderpool's agent cannot be reached; its controller releases the addresses");
            }
        }
        Ok(())
    }

    fn body(&self) -> Value {
        json!({
            "containerID": self.attachment.container_id.as_str(),
            "ifName": self.attachment.ifname.as_str(),
            "netNamespace": self.netns,
            "podNamespace": self.namespace,
            "podName": self.pod,
            "podUID": self.uid,
        })
    }
}

fn unreachable(socket: &std::path::Path, error: &io::Error) -> Error {
    let text = format!(
        "unhealthy spiderpool-agent backend, failed to check: {}: {error}; is Spiderpool's agent running on this node? Try again later",
        socket.display()
    );
    IpamError::AgentUnavailable(text).into()
}

/// Returns the message of an error: a JSON string, or whatever the agent has sent.
fn message(body: &str) -> String {
    serde_json::from_str(body).unwrap_or_else(|_| body.trim().to_owned())
}

/// Returns the result for an interface. A response contains the addresses of all interfaces of the pod.
fn parse(body: &str, ifname: &str) -> Result<AddResult, String> {
    let response: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let list = |key: &str| response[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut result = AddResult::default();
    for ip in list("ips").iter().filter(|ip| ip["nic"] == ifname) {
        let address = text(ip, "address");
        let address: IpNetwork = address
            .parse()
            .map_err(|_| format!("ips.address: expected an address like 10.0.0.5/24, found {address:?}"))?;
        let gateway = match text(ip, "gateway") {
            none if none.is_empty() => None,
            gateway => Some(
                gateway
                    .parse()
                    .map_err(|_| format!("ips.gateway: expected an address, found {gateway:?}"))?,
            ),
        };
        result.ips.push(IpConfig { address, gateway, interface: None });
    }
    if result.ips.is_empty() {
        return Err(format!("no Interface {ifname} IP allocation found"));
    }
    for route in list("routes").iter().filter(|route| route["ifName"] == ifname) {
        let (dst, gw) = (text(route, "dst"), text(route, "gw"));
        let invalid = || format!("routes: expected a destination and a gateway, found {dst:?} and {gw:?}");
        let route =
            ResultRoute::new(dst.parse().map_err(|_| invalid())?, Some(gw.parse().map_err(|_| invalid())?));
        result.routes.push(route);
    }
    let dns = &response["dns"];
    let texts = |key: &str| -> Vec<String> {
        dns[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    };
    result.dns = cni::Dns {
        nameservers: texts("nameservers"),
        domain: dns["domain"].as_str().filter(|domain| !domain.is_empty()).map(str::to_owned),
        search: texts("search"),
        options: texts("options"),
    };
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &str = r#"{
        "ips": [
            {"version": 4, "address": "10.16.1.7/24", "nic": "net1", "gateway": "10.16.1.1", "ipPool": "rail1", "vlan": 0},
            {"version": 6, "address": "fd00::7/64", "nic": "net1", "gateway": "", "ipPool": "rail1-v6"},
            {"version": 4, "address": "10.17.1.7/24", "nic": "net2", "gateway": "10.17.1.1", "ipPool": "rail2"}
        ],
        "routes": [
            {"ifName": "net1", "dst": "10.16.0.0/12", "gw": "10.16.1.1"},
            {"ifName": "net2", "dst": "0.0.0.0/0", "gw": "10.17.1.1"}
        ],
        "dns": {"nameservers": ["10.0.0.2"], "domain": "", "search": ["example.com"]}
    }"#;

    #[test]
    fn ipam_case_084_only_the_addresses_of_the_interface_are_returned() {
        let result = parse(RESPONSE, "net1").unwrap();
        let ips: Vec<_> = result.ips.iter().map(|ip| ip.address.to_string()).collect();
        assert_eq!(ips, ["10.16.1.7/24", "fd00::7/64"]);
        assert_eq!(result.ips[1].gateway, None);
        let routes: Vec<_> = result.routes.iter().map(|route| route.dst.to_string()).collect();
        assert_eq!(routes, ["10.16.0.0/12"]);
        assert_eq!((result.dns.nameservers, result.dns.domain), (vec!["10.0.0.2".to_owned()], None));
        assert_eq!(parse(RESPONSE, "net3").unwrap_err(), "no Interface net3 IP allocation found");
    }

    #[test]
    fn responses_that_are_not_as_defined_are_errors() {
        for bad in [
            "",
            "[]",
            r#"{"ips": [{"nic": "net1", "address": "x"}]}"#,
            r#"{"ips": [{"nic": "net1", "address": "10.0.0.1/24", "gateway": "x"}]}"#,
            r#"{"ips": [{"nic": "net1", "address": "10.0.0.1/24"}], "routes": [{"ifName": "net1", "dst": "x", "gw": "10.0.0.1"}]}"#,
        ] {
            assert!(parse(bad, "net1").is_err(), "{bad}");
        }
        assert_eq!(message("\"no IPPool available\"\n"), "no IPPool available");
        assert_eq!(message("plain\n"), "plain");
    }
}
