//! Rules of nftables, as `nft -j` prints them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::filter_rules::{Condition, FilterChain, FilterRule, FilterTable, Transport, Verdict};

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NftTable {
    pub(crate) family: String,
    pub(crate) name: String,
}

/// Returns the tables with a chain that may drop IPv4 packets that arrive, from `nft -j list chains`.
pub(crate) fn filtering_tables(listing: &Value) -> Vec<NftTable> {
    let chains = objects(listing, "chain").filter(|chain| is_hooked(chain));
    let mut tables: Vec<_> =
        chains.map(|chain| NftTable { family: text(chain, "family"), name: text(chain, "table") }).collect();
    tables.retain(|table| matches!(table.family.as_str(), "ip" | "inet"));
    tables.sort();
    tables.dedup();
    tables
}

/// Returns the chains of a table, from `nft -j list table FAMILY NAME`.
pub(crate) fn table(table: &NftTable, listing: &Value) -> FilterTable {
    let name = format!("nftables {} {}", table.family, table.name);
    let chains = objects(listing, "chain").map(|chain| {
        let drops = chain["policy"] == "drop";
        (text(chain, "name"), FilterChain { is_hooked: is_hooked(chain), drops, rules: Vec::new() })
    });
    let mut chains: BTreeMap<String, FilterChain> = chains.collect();
    for rule in objects(listing, "rule") {
        let chain = text(rule, "chain");
        let place = format!("{name} {chain}: rule with handle {}", rule["handle"]);
        let rules =
            rule["expr"].as_array().map_or(Vec::new(), |statements| of_statements(statements, &place));
        if let Some(chain) = chains.get_mut(&chain) {
            chain.rules.extend(rules);
        }
    }
    FilterTable { name, chains }
}

fn objects<'a>(listing: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    listing["nftables"].as_array().into_iter().flatten().filter_map(move |object| object.get(kind))
}

fn text(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}

fn is_hooked(chain: &Value) -> bool {
    chain["type"] == "filter" && matches!(chain["hook"].as_str(), Some("input" | "prerouting"))
}

/// Returns the rules that a list of statements stands for: one for each verdict in it.
fn of_statements(statements: &[Value], place: &str) -> Vec<FilterRule> {
    let (mut conditions, mut rules) = (Vec::new(), Vec::new());
    let rule = |conditions: &Vec<Condition>, verdict| FilterRule {
        conditions: conditions.clone(),
        verdict,
        place: place.to_owned(),
    };
    for statement in statements {
        let Some((kind, value)) = statement.as_object().and_then(|object| object.iter().next()) else {
            continue;
        };
        match kind.as_str() {
            "match" => conditions.push(condition(value)),
            "counter" | "log" | "mangle" | "notrack" => {}
            "xt" if value["type"] == "match" && value["name"] == "comment" => {}
            "limit" | "quota" | "xt" if value["type"] != "target" => conditions.push(Condition::Unknown),
            "xt" => rules.push(rule(&conditions, extension(value))),
            "vmap" => rules.extend(verdict_map(value).into_iter().map(|(condition, verdict)| {
                let mut all = conditions.clone();
                all.push(condition);
                rule(&all, verdict)
            })),
            _ => rules.push(rule(&conditions, verdict(kind, value))),
        }
    }
    rules
}

/// Returns the verdict of a target of iptables.
fn extension(value: &Value) -> Verdict {
    match value["name"].as_str() {
        Some("REJECT") => Verdict::Drop,
        Some("LOG" | "NFLOG" | "MARK" | "CONNMARK") => Verdict::Continue,
        _ => Verdict::Unknown,
    }
}

fn verdict(kind: &str, value: &Value) -> Verdict {
    match kind {
        "accept" => Verdict::Accept,
        "drop" | "reject" => Verdict::Drop,
        "return" => Verdict::Return,
        "jump" => Verdict::Jump(text(value, "target")),
        "goto" => Verdict::Goto(text(value, "target")),
        "continue" => Verdict::Continue,
        _ => Verdict::Unknown,
    }
}

/// Returns the entries of a map from values to verdicts. What its keys are is only known of states.
fn verdict_map(map: &Value) -> Vec<(Condition, Verdict)> {
    let Some(entries) = map["data"]["set"].as_array() else {
        return vec![(Condition::Unknown, Verdict::Unknown)];
    };
    let is_state = map["key"]["ct"]["key"] == "state";
    let entry = |entry: &Value| {
        let condition =
            if is_state { Condition::Always(has_word(&entry[0], "new")) } else { Condition::Unknown };
        let found = entry[1].as_object().and_then(|verdicts| verdicts.iter().next());
        (condition, found.map_or(Verdict::Unknown, |(kind, value)| verdict(kind, value)))
    };
    entries.iter().map(entry).collect()
}

fn condition(value: &Value) -> Condition {
    let negated = match value["op"].as_str() {
        Some("==" | "in") => false,
        Some("!=") => true,
        _ => return Condition::Unknown,
    };
    let (left, right) = (&value["left"], &value["right"]);
    let payload = &left["payload"];
    match (payload["protocol"].as_str(), payload["field"].as_str()) {
        (Some(protocol @ ("tcp" | "udp" | "th")), Some("dport")) => {
            let transport = transport(protocol);
            return ranges(right).map_or(Condition::Unknown, |ranges| Condition::Port {
                transport,
                ranges,
                negated,
            });
        }
        (Some("ip"), Some("protocol")) => return protocols(right, negated),
        // A packet of another protocol never has the field.
        (Some("icmp" | "icmpv6" | "ip6" | "arp" | "sctp" | "dccp"), _) => return Condition::Always(false),
        _ => {}
    }
    match (left["meta"]["key"].as_str(), left["ct"]["key"].as_str()) {
        (Some("l4proto"), _) => protocols(right, negated),
        (Some("nfproto"), _) => match right.as_str() {
            Some("ipv4") => Condition::Always(!negated),
            Some("ipv6") => Condition::Always(negated),
            _ => Condition::Unknown,
        },
        // The packet comes from another host.
        (Some("iif" | "iifname"), _) if right == "lo" => Condition::Always(negated),
        (_, Some("state")) if is_words(right) => Condition::Always(has_word(right, "new") != negated),
        _ => Condition::Unknown,
    }
}

fn transport(name: &str) -> Option<Transport> {
    match name {
        "tcp" => Some(Transport::Tcp),
        "udp" => Some(Transport::Udp),
        _ => None,
    }
}

/// Returns the elements of a value: of a set, of a list, or itself.
fn elements(value: &Value) -> Vec<&Value> {
    match value["set"].as_array().or(value.as_array()) {
        Some(elements) => elements.iter().collect(),
        None => vec![value],
    }
}

fn is_words(value: &Value) -> bool {
    elements(value).iter().all(|element| element.as_str().is_some_and(|word| !word.starts_with('@')))
}

fn has_word(value: &Value, word: &str) -> bool {
    elements(value).iter().any(|element| *element == word)
}

fn protocols(value: &Value, negated: bool) -> Condition {
    if !is_words(value) {
        // A number, or a named set.
        return Condition::Unknown;
    }
    let any_of = elements(value).iter().filter_map(|element| transport(element.as_str()?)).collect();
    Condition::Protocol { any_of, negated }
}

/// Returns the ranges of ports of a value; `None` if it is a named set, or anything else.
fn ranges(value: &Value) -> Option<Vec<(u16, u16)>> {
    let port = |value: &Value| u16::try_from(value.as_u64()?).ok();
    let range = |element: &Value| match element["range"].as_array() {
        Some(ends) => Some((port(ends.first()?)?, port(ends.get(1)?)?)),
        None => port(element).map(|port| (port, port)),
    };
    elements(value).into_iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::filter_rules::FirstPacket, *};

    fn chain(name: &str, hooked: bool, policy: &str) -> Value {
        match hooked {
            true => {
                json!({"chain": {"family": "inet", "table": "filter", "name": name, "handle": 1, "type": "filter",
                "hook": "input", "prio": 0, "policy": policy}})
            }
            false => json!({"chain": {"family": "inet", "table": "filter", "name": name, "handle": 2}}),
        }
    }

    fn rule(chain: &str, statements: Value) -> Value {
        json!({"rule": {"family": "inet", "table": "filter", "chain": chain, "handle": 4, "expr": statements}})
    }

    fn port(protocol: &str, right: Value) -> Value {
        json!({"match": {"op": "==", "left": {"payload": {"protocol": protocol, "field": "dport"}}, "right": right}})
    }

    fn drops(objects: Vec<Value>, transport: Transport, port: u16) -> Option<String> {
        let listing = json!({"nftables": objects});
        let tables = filtering_tables(&listing);
        assert_eq!(tables, [NftTable { family: "inet".into(), name: "filter".into() }]);
        table(&tables[0], &listing).drops(FirstPacket { transport, port })
    }

    /// The statements are those that nft 1.0.6 prints.
    fn usual(more: Vec<Value>) -> Vec<Value> {
        let accept = json!({"accept": null});
        let mut all = vec![
            chain("input", true, "drop"),
            chain("more", false, ""),
            rule(
                "input",
                json!([{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}, accept]),
            ),
            rule(
                "input",
                json!([{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "lo"}}, accept]),
            ),
            rule(
                "input",
                json!([{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "protocol"}}, "right": "icmp"}}, accept]),
            ),
            rule(
                "input",
                json!([
                {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": {"set": ["tcp", "udp"]}}}, port("th", json!(53)), accept]),
            ),
            rule(
                "input",
                json!([port("tcp", json!({"set": [22, {"range": [9000, 9100]}]})), {"counter": {"packets": 0}}, accept]),
            ),
        ];
        all.extend(more);
        all
    }

    #[test]
    fn a_port_that_no_rule_accepts_is_dropped_by_the_policy() {
        use Transport::{Tcp, Udp};
        let dropped = |transport, port| drops(usual(vec![]), transport, port);
        assert_eq!(dropped(Tcp, 18_515).as_deref(), Some("nftables inet filter input: policy drop"));
        assert!(dropped(Udp, 4791).is_some());
        for (transport, port) in [(Tcp, 22), (Tcp, 9050), (Udp, 53), (Tcp, 53)] {
            assert_eq!(dropped(transport, port), None, "{port}");
        }
    }

    #[test]
    fn what_may_be_accepted_is_not_dropped() {
        let accept = json!({"accept": null});
        for statements in [
            json!([{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": {"prefix": {"addr": "10.0.0.0", "len": 8}}}}, accept]),
            json!([{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}}, accept]),
            json!([port("tcp", json!("@allowed")), accept]),
            json!([{"xt": {"type": "match", "name": "multiport"}}, accept]),
            json!([{"limit": {"rate": 5, "burst": 5, "per": "second"}}, accept]),
            json!([{"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [["new", {"accept": null}], ["invalid", {"drop": null}]]}}}]),
            json!([{"vmap": {"key": {"payload": {"protocol": "tcp", "field": "dport"}}, "data": {"set": [[1, {"accept": null}]]}}}]),
            json!([{"jump": {"target": "unknown"}}]),
            json!([{"xt": {"type": "target", "name": "SET"}}]),
            json!([{"queue": null}]),
        ] {
            let found = drops(usual(vec![rule("input", statements.clone())]), Transport::Tcp, 18_515);
            assert_eq!(found, None, "{statements}");
        }
    }

    #[test]
    fn a_rule_that_drops_is_named() {
        let reject =
            |place: &str| rule(place, json!([{"reject": {"type": "icmpx", "expr": "port-unreachable"}}]));
        let iptables =
            rule("input", json!([{"counter": {"packets": 0}}, {"xt": {"type": "target", "name": "REJECT"}}]));
        let state = json!([{"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [["established", {"accept": null}]]}}}]);
        for more in [
            vec![reject("input")],
            vec![iptables],
            vec![rule("input", state), reject("input")],
            vec![rule("input", json!([{"jump": {"target": "more"}}])), reject("more")],
            vec![rule(
                "input",
                json!([{"match": {"op": "!=", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 443}}, {"drop": null}]),
            )],
            vec![rule(
                "input",
                json!([{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}, {"drop": null}]),
            )],
        ] {
            let found = drops(usual(more.clone()), Transport::Tcp, 18_515);
            assert!(
                found.as_ref().is_some_and(|place| place.contains("rule with handle 4")),
                "{found:?} {more:?}"
            );
        }
    }
}
