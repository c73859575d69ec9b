//! What a call printed, and the state after it, without what is random or counts.

use serde_json::{Map, Value, json};
use testkit::{Answer, Call, Observe};

use super::{case, place::Place};

/// Keys whose values differ from run to run. The kernel looks for duplicates of an address in the background.
const RANDOM: [&str; 8] = [
    "ifindex",
    "link_index",
    "link_netnsid",
    "stats",
    "stats64",
    "tentative",
    "valid_life_time",
    "preferred_life_time",
];

/// Records a call.
pub(super) fn after(answer: &Answer, call: &Call, place: &Place<'_>) -> Value {
    let pod = state(place.pod, "net1");
    let node = state(place.node, place.master);
    let mac = pod["link"]["net1"]["address"].as_str().map(str::to_owned);
    let sandbox = place.pod.path().display().to_string();
    let mut recorded = json!({"printed": case::printed(answer), "pod": pod, "node": node}).to_string();
    recorded = recorded.replace(&sandbox, "<netns>");
    let host_mac = place.node.link(place.master).map(|link| link["address"].as_str().unwrap().to_owned());
    for (mac, name) in [(host_mac, "master"), (mac, "pod")] {
        let Some(mac) = mac.filter(|mac| !was_given(call, mac)) else { continue };
        recorded = recorded.replace(&mac, &format!("<mac of the {name}>"));
    }
    serde_json::from_str(&recorded).unwrap()
}

/// Whether the configuration or the environment has this MAC address.
fn was_given(call: &Call, mac: &str) -> bool {
    let conf = String::from_utf8_lossy(call.sent()).to_lowercase();
    conf.contains(mac) || call.var("CNI_ARGS").to_lowercase().contains(mac)
}

/// Whether the kernel assigns this address to every link, or makes a route for it, in the background.
fn is_automatic(address: &str) -> bool {
    address.starts_with("fe80:") || address.starts_with("ff00:")
}

/// Whether the kernel makes this route in the background, also for an IPv6 address of the plugin
/// (`addrconf_dad_work`, net/ipv6/addrconf.c).
fn is_automatic_route(route: &Value) -> bool {
    let to = text(route, "dst");
    is_automatic(&to) || (to.contains(':') && text(route, "table") == "local")
}

/// The links of a namespace with their addresses, its routes and rules, and the sysctls of one link.
fn state(place: &impl Observe, link: &str) -> Value {
    let lists = place.ip_batch(&["link show", "address show", "route show table all", "rule show"]);
    let rules6 = place.ip6_batch(&["rule show"]).remove(0);
    let routes: Vec<_> = lists[2].iter().filter(|route| !is_automatic_route(route)).cloned().collect();
    let mut links = keyed(&lists[0], link_name);
    for with_addresses in &lists[1] {
        links[link_name(with_addresses)]["addresses"] = addresses(with_addresses);
    }
    if let Some(link_settings) = links.get_mut(link) {
        link_settings["sysctl"] =
            json!({"ipv4": sysctls(place, "ipv4", link), "ipv6": sysctls(place, "ipv6", link)});
    }
    json!({
        "link": links,
        "route": keyed(&routes, route),
        "rule": keyed(&[&lists[3][..], &rules6[..]].concat(), |rule| rule.to_string()),
    })
}

/// The items by their keys; a second item of the same key is `KEY (2)`.
fn keyed(list: &[Value], key: fn(&Value) -> String) -> Value {
    let mut items = Map::new();
    for item in list {
        let key = key(item);
        let count = 1 + items.keys().filter(|other| other.split(" (").next() == Some(&key)).count();
        let name = if count == 1 { key } else { format!("{key} ({count})") };
        items.insert(name, without_random(item));
    }
    Value::Object(items)
}

fn addresses(link: &Value) -> Value {
    let of = |info: &Value| (format!("{}/{}", text(info, "local"), info["prefixlen"]), without_random(info));
    let infos = link["addr_info"].as_array().into_iter().flatten();
    Value::Object(infos.filter(|info| !is_automatic(&text(info, "local"))).map(of).collect())
}

/// The name of a link. Go creates a link under a name of `veth` and eight random digits.
fn link_name(link: &Value) -> String {
    let name = text(link, "ifname");
    let random = name.strip_prefix("veth").is_some_and(|digits| digits.len() == 8);
    if random { "<random name>".to_owned() } else { name }
}

fn route(route: &Value) -> String {
    let table = route["table"].as_str().unwrap_or("main");
    format!("{} {} dev {} table {table}", text(route, "type"), text(route, "dst"), text(route, "dev"))
}

fn text(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}

fn without_random(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(keys) = item.as_object_mut() {
        keys.retain(|key, _| !RANDOM.contains(&key.as_str()));
    }
    item
}

/// The settings of a link below `/proc/sys/net`. Some cannot be read.
fn sysctls(place: &impl Observe, family: &str, link: &str) -> Value {
    let dir = format!("/proc/sys/net/{family}/conf/{link}");
    let listed = place.run("sh", &["-c", "cd \"$0\" && grep -s '' * || true", &dir]);
    let settings = listed.lines().filter_map(|line| line.split_once(':'));
    Value::Object(settings.map(|(name, value)| (name.to_owned(), json!(value))).collect())
}
