//! Rules of iptables, as `iptables-save` prints them. Those that iptables keeps in nftables are read as such.

use super::filter_rules::{Condition, FilterRule, FilterTable, Transport, Verdict};

/// Returns the chains of the table `filter`.
pub(crate) fn table(text: &str) -> FilterTable {
    let mut table = FilterTable { name: "iptables filter".to_owned(), ..FilterTable::default() };
    let mut is_filter = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            is_filter = name == "filter";
        } else if let Some(chain) = line.strip_prefix(':').filter(|_| is_filter) {
            let mut words = chain.split(' ');
            let (name, policy) = (words.next().unwrap_or_default(), words.next());
            let chain = table.chains.entry(name.to_owned()).or_default();
            (chain.is_hooked, chain.drops) = (name == "INPUT", policy == Some("DROP"));
        } else if let Some(rest) = line.strip_prefix("-A ").filter(|_| is_filter) {
            let (chain, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let rule = rule(&words(rest), format!("iptables filter: {line}"));
            table.chains.entry(chain.to_owned()).or_default().rules.push(rule);
        }
    }
    table
}

/// Splits at blanks outside quotes.
fn words(text: &str) -> Vec<&str> {
    let mut in_quotes = false;
    text.split(|c| {
        in_quotes ^= c == '"';
        c == ' ' && !in_quotes
    })
    .filter(|word| !word.is_empty())
    .collect()
}

fn rule(words: &[&str], place: String) -> FilterRule {
    let (mut conditions, mut verdict) = (Vec::new(), Verdict::Continue);
    let (mut negated, mut rest) = (false, words.iter().copied().peekable());
    while let Some(word) = rest.next() {
        let mut value = || rest.next().unwrap_or_default();
        match word {
            "!" => {
                negated = true;
                continue;
            }
            "-p" => conditions.push(protocol(value(), negated)),
            "-i" => match value() {
                // The packet comes from another host.
                "lo" => conditions.push(Condition::Always(negated)),
                _ => conditions.push(Condition::Unknown),
            },
            "--dport" | "--dports" => conditions.push(ports(value(), negated)),
            "--ctstate" | "--state" => {
                let has_new = value().split(',').any(|state| state == "NEW");
                conditions.push(Condition::Always(has_new != negated));
            }
            "--comment" => drop(value()),
            // These demand nothing without their options.
            "-m" => match value() {
                "tcp" | "udp" | "conntrack" | "state" | "multiport" | "comment" => {}
                _ => conditions.push(Condition::Unknown),
            },
            // What follows are the options of the target.
            "-j" | "-g" => {
                verdict = target(word, value());
                break;
            }
            option if option.starts_with('-') => {
                conditions.push(Condition::Unknown);
            }
            // The value of an option that is not known.
            _ => {}
        }
        negated = false;
    }
    FilterRule { conditions, verdict, place }
}

fn protocol(name: &str, negated: bool) -> Condition {
    let any_of = match name {
        "tcp" => vec![Transport::Tcp],
        "udp" => vec![Transport::Udp],
        "all" => return Condition::Always(!negated),
        _ => Vec::new(),
    };
    Condition::Protocol { any_of, negated }
}

fn ports(list: &str, negated: bool) -> Condition {
    let range = |text: &str| {
        let (first, last) = text.split_once(':').unwrap_or((text, text));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    ranges.map_or(Condition::Unknown, |ranges| Condition::Port { transport: None, ranges, negated })
}

fn target(option: &str, name: &str) -> Verdict {
    match (option, name) {
        ("-g", chain) => Verdict::Goto(chain.to_owned()),
        (_, "ACCEPT") => Verdict::Accept,
        (_, "DROP" | "REJECT") => Verdict::Drop,
        (_, "RETURN") => Verdict::Return,
        (_, "LOG" | "NFLOG" | "MARK" | "CONNMARK") => Verdict::Continue,
        // A chain of the table, or a target that is not known, which is no chain.
        (_, chain) => Verdict::Jump(chain.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::filter_rules::FirstPacket, *};

    fn drops(rules: &str, transport: Transport, port: u16) -> Option<String> {
        let text = format!(
            "*nat\n:INPUT DROP [0:0]\nCOMMIT\n*filter\n:INPUT DROP [0:0]\n:OUTPUT DROP [0:0]\n:more - [0:0]\n{rules}\nCOMMIT\n"
        );
        table(&text).drops(FirstPacket { transport, port })
    }

    #[test]
    fn rules_are_judged_in_their_order() {
        use Transport::{Tcp, Udp};
        let usual = "-A INPUT -i lo -j ACCEPT\n\
                     -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
                     -A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n\
                     -A INPUT -p udp -m multiport --dports 1,2,4000:5000 -m comment --comment \"a -j DROP b\" -j ACCEPT";
        assert_eq!(drops(usual, Tcp, 22), None);
        assert_eq!(drops(usual, Udp, 4791), None);
        assert_eq!(drops(usual, Tcp, 4791).as_deref(), Some("iptables filter INPUT: policy drop"));
        for may_pass in [
            "-A INPUT -s 10.0.0.0/8 -p tcp -j ACCEPT",
            "-A INPUT -i eth0 -j ACCEPT",
            "-A INPUT -j more\n-A more -p tcp -j ACCEPT",
            "-A INPUT -j UNKNOWN",
            "-A INPUT -m socket -j ACCEPT",
            "-A INPUT ! -p udp -j ACCEPT",
            "-A INPUT ! -i lo -m conntrack --ctstate NEW -j ACCEPT",
        ] {
            assert_eq!(drops(may_pass, Tcp, 18_515), None, "{may_pass}");
        }
        let named = drops("-A INPUT -p tcp -j more\n-A more -j REJECT --reject-with tcp-reset", Tcp, 18_515);
        assert_eq!(named.as_deref(), Some("iptables filter: -A more -j REJECT --reject-with tcp-reset"));
        assert!(
            drops("-A INPUT -m set --match-set friends src -j DROP\n-A INPUT -j ACCEPT", Tcp, 18_515)
                .is_none()
        );
    }
}
