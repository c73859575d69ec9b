//! The configuration keys `rail`, `defaultRoute` and `detectIPConflict`.

use cni::{CallContext, ConfObject, Error};
use ipnetwork::IpNetwork;
use plugin_runtime::ConflictDetection;

/// The routing of a pod's link beyond its addresses and routes.
#[derive(Debug, Clone, Default)]
pub struct PodRouting {
    /// `rail`: the link's addresses have a routing table of their own.
    pub rail: Option<RailConf>,
    /// `defaultRoute`: the pod's default route leads over the link.
    pub default_route: bool,
    /// `detectIPConflict`: whether the addresses are probed first.
    pub conflict_detection: ConflictDetection,
}

/// The value of `rail`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailConf {
    /// `rail.table`, the number of the routing table; `None` means one that is derived from the interface's name.
    pub table: Option<u32>,
    /// `rail.priority`, the priority of the rules.
    pub priority: u32,
    /// `rail.bypass`: destinations that are routed by the main table.
    pub bypass: Vec<IpNetwork>,
    /// `rail.acceptLocal`: whether packets with a source address of the pod itself are accepted (`accept_local`).
    pub accept_local: bool,
}

/// The default of `rail.table` is this number plus the one at the end of the interface's name: 1003 for `net3`.
const FIRST_TABLE: u32 = 1000;

/// The default of `rail.priority`. The rule of the local table has 0, that of the main table 32766.
const PRIORITY: u32 = 1000;

impl PodRouting {
    /// Reads a configuration.
    ///
    /// # Errors
    /// If a value is invalid; the message contains its key.
    pub fn of(common: &CallContext<'_>) -> Result<Self, Error> {
        let fields = common.conf.fields();
        let rail = match fields.value("rail") {
            None => None,
            Some(value) if value.is_boolean() => {
                fields.flag("rail")?.unwrap_or(false).then(RailConf::default)
            }
            Some(value) if value.is_object() => {
                fields.object("rail")?.as_ref().map(RailConf::of).transpose()?
            }
            Some(other) => return Err(fields.invalid("rail", "true, false or an object", other)),
        };
        let conflict_detection = match fields.flag("detectIPConflict")? {
            Some(true) => ConflictDetection::On,
            _ => ConflictDetection::Off,
        };
        Ok(Self { rail, default_route: fields.flag("defaultRoute")?.unwrap_or(false), conflict_detection })
    }
}

impl PodRouting {
    /// Refuses `detectIPConflict` for a plugin whose links do not receive the answers to ARP probes.
    ///
    /// # Errors
    /// If it is set.
    pub fn without_conflict_detection(self, plugin: &str) -> Result<Self, Error> {
        if self.conflict_detection == ConflictDetection::Off {
            return Ok(self);
        }
        let text = format!(
            "detectIPConflict: true is not supported by {plugin}, only by macvlan and sriov; remove it"
        );
        Err(Error::new(cni::ErrorCode::UNSUPPORTED_FIELD, text))
    }
}

impl Default for RailConf {
    fn default() -> Self {
        Self { table: None, priority: PRIORITY, bypass: Vec::new(), accept_local: false }
    }
}

impl RailConf {
    fn of(rail: &ConfObject<'_>) -> Result<Self, Error> {
        let table =
            number(rail, "table", "the number of a routing table: 1 to 252, or 256 and above", |number| {
                !(253..=255).contains(&number)
            })?;
        let priority =
            number(rail, "priority", "a number from 2 to 32765", |number| (2..32766).contains(&number))?;
        Ok(Self {
            table,
            priority: priority.unwrap_or(PRIORITY),
            bypass: bypass(rail)?,
            accept_local: rail.flag("acceptLocal")?.unwrap_or(false),
        })
    }

    /// Returns the number of the routing table for an interface of this name.
    pub(crate) fn table_of(&self, ifname: &str) -> u32 {
        self.table.unwrap_or_else(|| default_table(ifname))
    }
}

fn default_table(ifname: &str) -> u32 {
    let digits = ifname.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = digits.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    // Six digits at most: a name like `rail20261124` gets the first table, and may collide with another then.
    let number = digits.parse().ok().filter(|number| *number < 1_000_000).unwrap_or(0);
    FIRST_TABLE + number
}

fn number(
    rail: &ConfObject<'_>,
    key: &str,
    expected: &str,
    is_allowed: impl Fn(u32) -> bool,
) -> Result<Option<u32>, Error> {
    let Some(found) = rail.integer(key)? else { return Ok(None) };
    match u32::try_from(found) {
        Ok(number) if number > 0 && is_allowed(number) => Ok(Some(number)),
        _ => Err(rail.invalid(key, expected, found)),
    }
}

fn bypass(rail: &ConfObject<'_>) -> Result<Vec<IpNetwork>, Error> {
    let texts = rail.texts("bypass")?;
    let parse = |text: &String| {
        let network = text.parse::<IpNetwork>().ok().filter(|network| network.ip() == network.network());
        network.ok_or_else(|| rail.invalid("bypass", "subnets like \"10.96.0.0/12\"", format!("{text:?}")))
    };
    texts.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use cni::{CniArgs, NetConf};

    use super::*;

    #[test]
    fn the_table_is_derived_from_the_name_of_the_interface() {
        assert_eq!(
            ["net1", "net12", "r2d2-007", "eth", "0", "3x"].map(default_table),
            [1001, 1012, 1007, 1000, 1000, 1000]
        );
        assert_eq!(["r999999", "r1000000", "r99999999999"].map(default_table), [1_000_999, 1000, 1000]);
    }

    fn read(keys: &str) -> Result<PodRouting, Error> {
        let conf = NetConf::parse(format!(r#"{{"name": "rail", {keys}}}"#).as_bytes()).unwrap();
        PodRouting::of(&CallContext { conf, args: CniArgs::default(), cni_path: Vec::new(), stdin: &[] })
    }

    #[test]
    fn a_rail_has_a_table_and_a_priority_between_those_of_the_kernel() {
        for (key, allowed, refused) in [
            ("table", &[1_u32, 252, 256, u32::MAX][..], &[0, 253, 254, 255][..]),
            ("priority", &[2, 32765], &[0, 1, 32766, u32::MAX]),
        ] {
            for number in allowed {
                let rail = read(&format!(r#""rail": {{"{key}": {number}}}"#)).unwrap().rail.unwrap();
                let is = if key == "table" { rail.table } else { Some(rail.priority) };
                assert_eq!(is, Some(*number), "{key}");
            }
            for number in refused {
                assert!(read(&format!(r#""rail": {{"{key}": {number}}}"#)).is_err(), "{key} {number}");
            }
        }
    }

    #[test]
    fn an_empty_rail_has_the_defaults_and_a_false_one_is_none() {
        for keys in [r#""rail": {}"#, r#""rail": true"#] {
            assert_eq!(read(keys).unwrap().rail, Some(RailConf::default()), "{keys}");
        }
        for keys in [r#""rail": false"#, r#""rail": null, "defaultRoute": false, "detectIPConflict": false"#]
        {
            let routing = read(keys).unwrap();
            assert!(routing.rail.is_none() && !routing.default_route, "{keys}");
            assert!(routing.without_conflict_detection("ipvlan").is_ok(), "{keys}");
        }
        let all = read(
            r#""rail": {"bypass": ["10.96.0.0/12", "fd00::/64"], "acceptLocal": true}, "defaultRoute": true"#,
        );
        let all = all.unwrap();
        assert!(all.default_route && all.conflict_detection == ConflictDetection::Off);
        let rail = all.rail.unwrap();
        assert_eq!((rail.bypass.len(), rail.accept_local, rail.table_of("net3")), (2, true, 1003));
        let probed = read(r#""detectIPConflict": true"#).unwrap();
        assert_eq!(probed.conflict_detection, ConflictDetection::On);
        assert!(probed.without_conflict_detection("ipvlan").is_err());
    }
}
