//! Parses the objects of pool files: manifests, lists of manifests and bare pool specifications.

use serde_json::{Map, Value};

use crate::{
    InvalidPool, InvalidValue, IpRange, Pool, keys,
    spec::{SpecReader, mismatch},
    status,
};

/// The API group of Spiderpool's kinds.
const GROUP: &str = "spiderpool.spidernet.io/";

/// The kinds of all versions of Spiderpool.
const KINDS: [&str; 7] = [
    "SpiderIPPool",
    "SpiderReservedIP",
    "SpiderSubnet",
    "SpiderEndpoint",
    "SpiderMultusConfig",
    "SpiderCoordinator",
    "SpiderClaimParameter",
];

/// A parsed object of a document.
#[derive(Debug)]
pub(crate) enum PoolDocument {
    /// A pool.
    Pool(Box<Pool>),
    /// Addresses that are excluded from all pools.
    Reserved(Vec<IpRange>),
    /// Another object, with the reason why it is ignored.
    Ignored(String),
}

/// Parses a document, which may be a list of objects. The key of an error is relative to the document.
pub(crate) fn read(document: &Value) -> Result<Vec<PoolDocument>, InvalidPool> {
    let Value::Object(map) = document else {
        return Ok(vec![PoolDocument::Ignored("not a mapping".to_owned())]);
    };
    let spec = SpecReader(map);
    match spec.text("kind")? {
        Some("SpiderIPPool") => manifest_pool(spec).map(|pool| vec![PoolDocument::Pool(pool)]),
        Some("SpiderReservedIP") => reserved(spec).map(|ranges| vec![PoolDocument::Reserved(ranges)]),
        Some("List" | "SpiderIPPoolList" | "SpiderReservedIPList") => items(spec),
        Some(kind) => {
            check_kind(spec, kind)?;
            Ok(vec![PoolDocument::Ignored(format!("kind {kind:?} is not SpiderIPPool or SpiderReservedIP"))])
        }
        None if is_bare(map) => bare_pool(spec).map(|pool| vec![PoolDocument::Pool(pool)]),
        None if is_ours(spec)? => Err(InvalidValue::Missing.at("kind")),
        None => Ok(vec![PoolDocument::Ignored("neither kind nor subnet is set".to_owned())]),
    }
}

/// Whether an object is a pool's specification without an object around it. One key that is similar to one of a pool is
/// enough, because it may be mistyped.
fn is_bare(map: &Map<String, Value>) -> bool {
    !map.contains_key("spec") && map.keys().any(|key| keys::nearest(key, keys::POOL.into_iter()).is_some())
}

fn is_ours(object: SpecReader<'_>) -> Result<bool, InvalidPool> {
    Ok(object.text("apiVersion")?.is_some_and(|version| version.starts_with(GROUP)))
}

/// Refuses an unknown kind of Spiderpool's API group: it is mistyped and may be a reservation.
fn check_kind(object: SpecReader<'_>, kind: &str) -> Result<(), InvalidPool> {
    let known = |kind: &str| {
        KINDS.contains(&kind) || kind.strip_suffix("List").is_some_and(|kind| KINDS.contains(&kind))
    };
    if is_ours(object)? && !known(kind) {
        return Err(mismatch("kind", "SpiderIPPool or SpiderReservedIP", kind));
    }
    Ok(())
}

fn items(list: SpecReader<'_>) -> Result<Vec<PoolDocument>, InvalidPool> {
    let mut objects = Vec::new();
    for (index, item) in list.list("items")?.iter().enumerate() {
        if item.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List")) {
            return Err(mismatch(format!("items[{index}].kind"), "an object that is not a list", item));
        }
        let found = read(item)
            .map_err(|error| InvalidPool { key: format!("items[{index}].{}", error.key), ..error })?;
        objects.extend(found);
    }
    Ok(objects)
}

/// Parses a `SpiderIPPool`. The addresses that its status lists as allocated are excluded.
fn manifest_pool(object: SpecReader<'_>) -> Result<Box<Pool>, InvalidPool> {
    check_group(object)?;
    keys::check(object.0, &[&keys::OBJECT])?;
    let metadata = object.object("metadata")?.ok_or_else(|| InvalidValue::Missing.at("metadata.name"))?;
    let below =
        |prefix: &str, error: InvalidPool| InvalidPool { key: format!("{prefix}.{}", error.key), ..error };
    let name = metadata.text("name").map_err(|error| below("metadata", error))?;
    let name = name.ok_or_else(|| InvalidValue::Missing.at("metadata.name"))?;
    let name = name.parse().map_err(|error| InvalidValue::Name(error).at("metadata.name"))?;
    let spec = object.object("spec")?.ok_or_else(|| InvalidValue::Missing.at("spec"))?;
    keys::check(spec.0, &[&keys::POOL]).map_err(|error| below("spec", error))?;
    let mut pool = Pool::from_spec(name, spec).map_err(|error| below("spec", error))?;
    pool.terminating = metadata.value("deletionTimestamp").is_some();
    pool.exclude_allocated(status::allocated(object)?);
    Ok(Box::new(pool))
}

/// Parses a pool's specification without an object around it.
fn bare_pool(spec: SpecReader<'_>) -> Result<Box<Pool>, InvalidPool> {
    keys::check(spec.0, &[&keys::POOL, &keys::BARE])?;
    let name = match spec.object("metadata")? {
        Some(metadata) => metadata.text("name")?,
        None => spec.text("name")?,
    };
    let name = name.ok_or_else(|| InvalidValue::Missing.at("name"))?;
    let name = name.parse().map_err(|error| InvalidValue::Name(error).at("name"))?;
    Pool::from_spec(name, spec).map(Box::new)
}

fn reserved(object: SpecReader<'_>) -> Result<Vec<IpRange>, InvalidPool> {
    check_group(object)?;
    keys::check(object.0, &[&keys::OBJECT])?;
    let spec = object.object("spec")?.ok_or_else(|| InvalidValue::Missing.at("spec"))?;
    keys::check(spec.0, &[&keys::RESERVED])
        .map_err(|error| InvalidPool { key: format!("spec.{}", error.key), ..error })?;
    let mut ranges = Vec::new();
    for (index, text) in spec.texts("ips")?.into_iter().enumerate() {
        ranges
            .push(text.parse().map_err(|error| InvalidValue::Range(error).at(format!("spec.ips[{index}]")))?);
    }
    Ok(ranges)
}

/// Refuses a Spiderpool kind of another API group. It is mistyped, and ignoring it could free reserved addresses.
fn check_group(object: SpecReader<'_>) -> Result<(), InvalidPool> {
    match object.text("apiVersion")? {
        Some(version) if version.starts_with(GROUP) => Ok(()),
        Some(version) => Err(mismatch("apiVersion", "spiderpool.spidernet.io/v2beta1", version)),
        None => Err(InvalidValue::Missing.at("apiVersion")),
    }
}

/// Parses a pool of a plugin's configuration: a manifest or a bare specification.
pub(crate) fn read_inline(item: &Value) -> Result<Vec<PoolDocument>, InvalidPool> {
    let object = item.as_object().ok_or_else(|| mismatch("pool", "an object", item))?;
    match object.get("kind") {
        Some(_) => read(item),
        None if object.contains_key("spec") => Err(InvalidValue::Missing.at("kind")),
        None => bare_pool(SpecReader(object)).map(|pool| vec![PoolDocument::Pool(pool)]),
    }
}
