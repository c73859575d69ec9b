//! Objects as users write them: manifests, lists of manifests and bare pool specifications.

use serde_json::{Map, Value};

use crate::{
    InvalidPool, Pool, Problem, Range,
    spec::{Spec, mismatch},
};

/// The API group of the kinds read here.
const GROUP: &str = "spiderpool.spidernet.io/";

/// What one document says.
#[derive(Debug)]
pub(crate) enum Object {
    /// A pool.
    Pool(Box<Pool>),
    /// Addresses that no pool gives out.
    Reserved(Vec<Range>),
    /// Something else, and why it is left alone.
    Ignored(String),
}

/// What a document says; a list says several things. An error's key is relative to the document.
pub(crate) fn read(document: &Value) -> Result<Vec<Object>, InvalidPool> {
    let Value::Object(map) = document else {
        return Ok(vec![Object::Ignored("it is no mapping".to_owned())]);
    };
    let spec = Spec(map);
    match spec.text("kind")? {
        Some("SpiderIPPool") => manifest_pool(spec).map(|pool| vec![Object::Pool(pool)]),
        Some("SpiderReservedIP") => reserved(spec).map(|ranges| vec![Object::Reserved(ranges)]),
        Some("List" | "SpiderIPPoolList" | "SpiderReservedIPList") => items(spec),
        Some(kind) => {
            Ok(vec![Object::Ignored(format!("kind {kind:?} is no SpiderIPPool or SpiderReservedIP"))])
        }
        None if map.contains_key("subnet") => bare_pool(spec).map(|pool| vec![Object::Pool(pool)]),
        None => Ok(vec![Object::Ignored("it has neither kind nor subnet".to_owned())]),
    }
}

fn items(list: Spec<'_>) -> Result<Vec<Object>, InvalidPool> {
    let mut objects = Vec::new();
    for (index, item) in list.list("items")?.iter().enumerate() {
        if item.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List")) {
            return Err(mismatch(format!("items[{index}].kind"), "an object that is no list", item));
        }
        let found = read(item)
            .map_err(|error| InvalidPool { key: format!("items[{index}].{}", error.key), ..error })?;
        objects.extend(found);
    }
    Ok(objects)
}

/// The pool of a `SpiderIPPool`; its status is nobody's business.
fn manifest_pool(object: Spec<'_>) -> Result<Box<Pool>, InvalidPool> {
    check_group(object)?;
    let metadata = object.object("metadata")?.ok_or_else(|| Problem::Missing.at("metadata.name"))?;
    let below =
        |prefix: &str, error: InvalidPool| InvalidPool { key: format!("{prefix}.{}", error.key), ..error };
    let name = metadata.text("name").map_err(|error| below("metadata", error))?;
    let name = name.ok_or_else(|| Problem::Missing.at("metadata.name"))?;
    let name = name.parse().map_err(|error| Problem::Name(error).at("metadata.name"))?;
    let spec = object.object("spec")?.ok_or_else(|| Problem::Missing.at("spec"))?;
    let pool = Pool::from_spec(name, spec).map_err(|error| below("spec", error))?;
    let terminating = metadata.value("deletionTimestamp").is_some();
    Ok(Box::new(Pool { terminating, ..pool }))
}

/// A specification without the object around it.
fn bare_pool(spec: Spec<'_>) -> Result<Box<Pool>, InvalidPool> {
    let name = match spec.object("metadata")? {
        Some(metadata) => metadata.text("name")?,
        None => spec.text("name")?,
    };
    let name = name.ok_or_else(|| Problem::Missing.at("name"))?;
    let name = name.parse().map_err(|error| Problem::Name(error).at("name"))?;
    Pool::from_spec(name, spec).map(Box::new)
}

fn reserved(object: Spec<'_>) -> Result<Vec<Range>, InvalidPool> {
    check_group(object)?;
    let spec = object.object("spec")?.ok_or_else(|| Problem::Missing.at("spec"))?;
    let mut ranges = Vec::new();
    for (index, text) in spec.texts("ips")?.into_iter().enumerate() {
        ranges.push(text.parse().map_err(|error| Problem::Range(error).at(format!("spec.ips[{index}]")))?);
    }
    Ok(ranges)
}

/// A kind of ours in another group is a typing error: to ignore it could free reserved addresses.
fn check_group(object: Spec<'_>) -> Result<(), InvalidPool> {
    match object.text("apiVersion")? {
        Some(version) if version.starts_with(GROUP) => Ok(()),
        Some(version) => Err(mismatch("apiVersion", "spiderpool.spidernet.io/v2beta1", version)),
        None => Err(Problem::Missing.at("apiVersion")),
    }
}

/// What a pool in a plugin's configuration may be: an object.
pub(crate) fn inline_object(item: &Value) -> Result<&Map<String, Value>, InvalidPool> {
    item.as_object().ok_or_else(|| mismatch("pool", "an object", item))
}
