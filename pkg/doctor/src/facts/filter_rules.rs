//! Rules of a packet filter, and whether they surely drop a packet.
//!
//! A condition that is not known counts for both: a rule that may accept a packet accepts it, and one that may drop it does not.

use std::collections::BTreeMap;

use serde::Serialize;

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// The first packet of a connection from another host, over IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstPacket {
    pub(crate) transport: Transport,
    pub(crate) port: u16,
}

/// What a rule demands of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// One of these protocols; others than TCP and UDP are not listed.
    Protocol { any_of: Vec<Transport>, negated: bool },
    /// A destination port in one of these ranges, of a protocol if it is `Some`.
    Port { transport: Option<Transport>, ranges: Vec<(u16, u16)>, negated: bool },
    /// A known answer, whatever the port is.
    Always(bool),
    /// Anything else.
    Unknown,
}

/// What a rule does with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    Drop,
    Return,
    Jump(String),
    Goto(String),
    /// The next rule follows.
    Continue,
    /// It is not known.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilterRule {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) verdict: Verdict,
    /// Where it is, for a person.
    pub(crate) place: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilterChain {
    /// Whether the kernel calls it for packets that arrive.
    pub(crate) is_hooked: bool,
    /// Whether its policy is to drop.
    pub(crate) drops: bool,
    pub(crate) rules: Vec<FilterRule>,
}

/// The chains of a table, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilterTable {
    pub(crate) name: String,
    pub(crate) chains: BTreeMap<String, FilterChain>,
}

/// Chains that call each other more deeply are not followed: the kernel has a limit of 16.
const MAX_DEPTH: usize = 16;
/// The number of rules that are looked at for a packet. More calls of large chains are not followed.
const MAX_STEPS: usize = 100_000;

/// Whether a condition holds; `None` if that is not known.
type Answer = Option<bool>;

/// The end of a chain.
enum ChainEnd {
    /// The packet is surely dropped, here.
    Dropped(String),
    /// The packet may be accepted.
    MayPass,
    /// The chain that called it continues.
    Returned,
}

impl FilterTable {
    /// Returns the place at which a packet is surely dropped.
    pub(crate) fn drops(&self, packet: FirstPacket) -> Option<String> {
        let hooked = self.chains.iter().filter(|(_, chain)| chain.is_hooked);
        hooked.into_iter().find_map(|(name, chain)| {
            let mut steps = MAX_STEPS;
            match self.end(name, packet, 0, &mut steps) {
                ChainEnd::Dropped(place) => Some(place),
                ChainEnd::MayPass => None,
                ChainEnd::Returned => chain.drops.then(|| format!("{} {name}: policy drop", self.name)),
            }
        })
    }

    fn end(&self, name: &str, packet: FirstPacket, depth: usize, steps: &mut usize) -> ChainEnd {
        let Some(chain) = self.chains.get(name).filter(|_| depth < MAX_DEPTH) else {
            return ChainEnd::MayPass;
        };
        for rule in &chain.rules {
            let Some(left) = steps.checked_sub(1) else { return ChainEnd::MayPass };
            *steps = left;
            let Some(is_sure) = rule.applies(packet) else { continue };
            match &rule.verdict {
                Verdict::Accept | Verdict::Unknown => return ChainEnd::MayPass,
                Verdict::Drop if is_sure => return ChainEnd::Dropped(rule.place.clone()),
                Verdict::Return if is_sure => return ChainEnd::Returned,
                // The chain that called this one may accept what the rules below drop.
                Verdict::Return => return ChainEnd::MayPass,
                Verdict::Drop | Verdict::Continue => {}
                Verdict::Jump(target) | Verdict::Goto(target) => {
                    let is_goto = matches!(rule.verdict, Verdict::Goto(_));
                    match self.end(target, packet, depth + 1, steps) {
                        ChainEnd::MayPass => return ChainEnd::MayPass,
                        ChainEnd::Dropped(place) if is_sure => return ChainEnd::Dropped(place),
                        ChainEnd::Returned if is_goto && is_sure => return ChainEnd::Returned,
                        ChainEnd::Returned if is_goto => return ChainEnd::MayPass,
                        ChainEnd::Dropped(_) | ChainEnd::Returned => {}
                    }
                }
            }
        }
        ChainEnd::Returned
    }
}

impl FilterRule {
    /// Returns whether the rule surely applies to a packet; `None` if it surely does not.
    fn applies(&self, packet: FirstPacket) -> Option<bool> {
        let answers = self.conditions.iter().map(|condition| condition.holds(packet));
        let mut is_sure = true;
        for answer in answers {
            match answer {
                Some(true) => {}
                Some(false) => return None,
                None => is_sure = false,
            }
        }
        Some(is_sure)
    }
}

impl Condition {
    fn holds(&self, packet: FirstPacket) -> Answer {
        match self {
            Self::Protocol { any_of, negated } => Some(any_of.contains(&packet.transport) != *negated),
            Self::Port { transport: Some(other), .. } if *other != packet.transport => Some(false),
            Self::Port { ranges, negated, .. } => {
                let is_in = ranges.iter().any(|(first, last)| (*first..=*last).contains(&packet.port));
                Some(is_in != *negated)
            }
            Self::Always(answer) => Some(*answer),
            Self::Unknown => None,
        }
    }
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: FirstPacket = FirstPacket { transport: Transport::Tcp, port: 18_515 };

    fn rule(conditions: &[Condition], verdict: Verdict) -> FilterRule {
        FilterRule { conditions: conditions.to_vec(), verdict, place: "here".into() }
    }

    /// Returns whether an input chain with a policy, and a second chain, drop the packet.
    fn is_dropped(drops: bool, input: Vec<FilterRule>, second: Vec<FilterRule>) -> bool {
        let chains = [
            ("input".to_owned(), FilterChain { is_hooked: true, drops, rules: input }),
            ("second".to_owned(), FilterChain { rules: second, ..FilterChain::default() }),
        ];
        FilterTable { name: "t".into(), chains: chains.into() }.drops(PACKET).is_some()
    }

    #[test]
    fn only_what_is_surely_dropped_is_dropped() {
        use Condition::{Always, Unknown};
        let jump = || Verdict::Jump("second".into());
        let goto = || Verdict::Goto("second".into());
        assert!(!is_dropped(false, vec![], vec![]) && is_dropped(true, vec![], vec![]));
        for (conditions, verdict, second, with_policy_drop, with_policy_accept) in [
            (vec![], Verdict::Accept, vec![], false, false),
            (vec![Unknown], Verdict::Accept, vec![], false, false),
            (vec![Always(false)], Verdict::Accept, vec![], true, false),
            (vec![], Verdict::Drop, vec![], true, true),
            (vec![Unknown], Verdict::Drop, vec![], true, false),
            (vec![Always(true), Always(false)], Verdict::Drop, vec![], true, false),
            (vec![], Verdict::Unknown, vec![], false, false),
            (vec![], Verdict::Return, vec![], true, false),
            (vec![Unknown], Verdict::Return, vec![], false, false),
            (vec![], jump(), vec![rule(&[], Verdict::Drop)], true, true),
            (vec![Unknown], jump(), vec![rule(&[], Verdict::Drop)], true, false),
            (vec![], jump(), vec![rule(&[Unknown], Verdict::Accept)], false, false),
            (vec![Unknown], jump(), vec![rule(&[], Verdict::Accept)], false, false),
            (vec![], jump(), vec![rule(&[], Verdict::Return), rule(&[], Verdict::Accept)], true, false),
            (vec![Unknown], goto(), vec![], false, false),
            (vec![], goto(), vec![], true, false),
            (vec![], Verdict::Jump("none".into()), vec![], false, false),
            (vec![], jump(), vec![rule(&[], jump())], false, false),
        ] {
            let input = vec![rule(&conditions, verdict)];
            assert_eq!(
                is_dropped(true, input.clone(), second.clone()),
                with_policy_drop,
                "{input:?} {second:?}"
            );
            assert_eq!(
                is_dropped(false, input.clone(), second.clone()),
                with_policy_accept,
                "{input:?} {second:?}"
            );
        }
    }

    #[test]
    fn protocols_and_ports_are_compared() {
        use Transport::{Tcp, Udp};
        let port = |transport, ranges: &[(u16, u16)], negated| Condition::Port {
            transport,
            ranges: ranges.to_vec(),
            negated,
        };
        for (condition, holds) in [
            (port(Some(Tcp), &[(22, 22), (18_500, 18_600)], false), true),
            (port(Some(Tcp), &[(22, 22)], true), true),
            (port(Some(Tcp), &[(22, 22)], false), false),
            (port(Some(Udp), &[(18_515, 18_515)], false), false),
            (port(Some(Udp), &[(22, 22)], true), false),
            (port(None, &[(18_515, 18_515)], false), true),
            (Condition::Protocol { any_of: vec![Tcp, Udp], negated: false }, true),
            (Condition::Protocol { any_of: vec![Udp], negated: true }, true),
            (Condition::Protocol { any_of: vec![], negated: false }, false),
        ] {
            assert_eq!(condition.holds(PACKET), Some(holds), "{condition:?}");
        }
    }

    #[test]
    fn many_calls_end() {
        let calls =
            |target: &str| (0..50).map(|_| rule(&[], Verdict::Jump(target.into()))).collect::<Vec<_>>();
        let mut chains = BTreeMap::new();
        for number in 0..15 {
            chains.insert(
                format!("c{number}"),
                FilterChain { rules: calls(&format!("c{}", number + 1)), ..FilterChain::default() },
            );
        }
        chains.insert("c15".into(), FilterChain::default());
        chains.insert("input".into(), FilterChain { is_hooked: true, drops: true, rules: calls("c0") });
        assert_eq!(FilterTable { name: "t".into(), chains }.drops(PACKET), None);
    }
}
