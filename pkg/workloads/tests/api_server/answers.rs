//! What the server answers.

use std::{convert::Infallible, sync::Arc};

use http_body_util::{BodyExt, Channel, Full, combinators::BoxBody};
use hyper::{Request, Response, body::Bytes, body::Incoming, header};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::world::{ApiFault, ApiObjects, partial};

type Body = BoxBody<Bytes, Infallible>;

pub(super) async fn to(
    request: &Request<Incoming>,
    world: &Arc<watch::Sender<ApiObjects>>,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    world.send_modify(|world| world.asked.push(request.uri().to_string()));
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = world.borrow().token.as_ref().map(|token| format!("Bearer {token}"));
    if token.is_some_and(|token| header(header::AUTHORIZATION) != token) {
        return status(401);
    }
    let fault = world.borrow().faults.iter().find(|(start, _)| path.starts_with(*start)).map(|(_, f)| *f);
    match fault {
        Some(ApiFault::Status(code)) => return status(code),
        Some(ApiFault::Hang) => std::future::pending().await,
        Some(ApiFault::Garbage) => return whole(200, "<html>"),
        None => {}
    }
    let group = path.strip_prefix("/apis/").or(path.strip_prefix("/api/")).unwrap_or_default();
    if let Some(kinds) = world.borrow().groups.get(group) {
        return json(&json!({ "kind": "APIResourceList", "groupVersion": group, "resources": kinds }));
    }
    if path.starts_with("/apis/") && group.split('/').count() == 2 {
        return whole(404, "404 page not found\n"); // no JSON for once
    }
    if !header(header::ACCEPT).contains("as=PartialObjectMetadata") {
        return status(406);
    }
    if path == "/api/v1/pods" {
        return pods(request.uri().query().unwrap_or_default(), world);
    }
    match world.borrow().objects.get(&path) {
        Some(metadata) => json(&partial(metadata)),
        None => status(404),
    }
}

fn pods(query: &str, world: &Arc<watch::Sender<ApiObjects>>) -> Response<Body> {
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let Some(node) = value("fieldSelector").and_then(|fields| fields.strip_prefix("spec.nodeName%3D")) else {
        return status(400);
    };
    if value("watch") == Some("true") {
        let from = value("resourceVersion").unwrap().parse().unwrap();
        return follow(node.to_owned(), from, world.subscribe());
    }
    let world = world.borrow();
    let items: Vec<Value> =
        world.pods.values().filter(|(on, _)| on == node).map(|(_, pod)| partial(pod)).collect();
    json(&json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": { "resourceVersion": world.version.to_string() },
        "items": items,
    }))
}

fn follow(node: String, mut from: u64, mut world: watch::Receiver<ApiObjects>) -> Response<Body> {
    let (mut body, channel) = Channel::new(16);
    let epoch = world.borrow().epoch;
    tokio::spawn(async move {
        loop {
            let (lines, gone) = {
                let world = world.borrow_and_update();
                if world.epoch != epoch {
                    return;
                }
                let new = world.events.iter().filter(|event| event.version > from);
                let lines: Vec<String> =
                    new.filter(|event| event.node == node).map(|event| event.text.clone()).collect();
                let gone = from < world.oldest;
                from = world.version;
                (lines, gone)
            };
            if gone {
                let event = json!({ "type": "ERROR", "object": failure(410) });
                let _ = body.send_data(format!("{event}\n").into()).await;
                return;
            }
            for line in lines {
                if body.send_data(line.into()).await.is_err() {
                    return;
                }
            }
            if world.changed().await.is_err() {
                return;
            }
        }
    });
    Response::new(channel.boxed())
}

fn failure(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
            "message": format!("the test says {code}") })
}

fn status(code: u16) -> Response<Body> {
    whole(code, &failure(code).to_string())
}

fn json(value: &Value) -> Response<Body> {
    whole(200, &value.to_string())
}

fn whole(code: u16, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::from(text.to_owned()).boxed());
    *response.status_mut() = code.try_into().unwrap();
    response
}
