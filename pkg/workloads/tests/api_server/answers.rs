//! The responses of the fake API server.

use std::{convert::Infallible, sync::Arc};

use http_body_util::{BodyExt, Channel, Full, combinators::BoxBody};
use hyper::{Request, Response, body::Bytes, body::Incoming, header};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::world::{ApiFault, ApiObjects, partial};

type Body = BoxBody<Bytes, Infallible>;

pub(super) async fn to(
    request: &Request<Incoming>,
    state: &Arc<watch::Sender<ApiObjects>>,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    state.send_modify(|state| state.requests.push(request.uri().to_string()));
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = state.borrow().token.as_ref().map(|token| format!("Bearer {token}"));
    if token.is_some_and(|token| header(header::AUTHORIZATION) != token) {
        return status(401);
    }
    let fault = state.borrow().faults.iter().find(|(start, _)| path.starts_with(*start)).map(|(_, f)| *f);
    match fault {
        Some(ApiFault::Status(code)) => return status(code),
        Some(ApiFault::Hang) => std::future::pending().await,
        Some(ApiFault::Garbage) => return full_body(200, "<html>"),
        None => {}
    }
    let group = path.strip_prefix("/apis/").or(path.strip_prefix("/api/")).unwrap_or_default();
    if let Some(kinds) = state.borrow().groups.get(group) {
        return json(&json!({ "kind": "APIResourceList", "groupVersion": group, "resources": kinds }));
    }
    if path.starts_with("/apis/") && group.split('/').count() == 2 {
        return full_body(404, "404 page not found\n"); // not JSON
    }
    if !header(header::ACCEPT).contains("as=PartialObjectMetadata") {
        return status(406);
    }
    if path == "/api/v1/pods" {
        return pods(request.uri().query().unwrap_or_default(), state);
    }
    match state.borrow().objects.get(&path) {
        Some(metadata) => json(&partial(metadata)),
        None => status(404),
    }
}

fn pods(query: &str, state: &Arc<watch::Sender<ApiObjects>>) -> Response<Body> {
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let Some(node) = value("fieldSelector").and_then(|fields| fields.strip_prefix("spec.nodeName%3D")) else {
        return status(400);
    };
    if value("watch") == Some("true") {
        let from = value("resourceVersion").unwrap().parse().unwrap();
        return follow(node.to_owned(), from, state.subscribe());
    }
    let state = state.borrow();
    let items: Vec<Value> =
        state.pods.values().filter(|(on, _)| on == node).map(|(_, pod)| partial(pod)).collect();
    json(&json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": { "resourceVersion": state.version.to_string() },
        "items": items,
    }))
}

fn follow(node: String, mut from: u64, mut state: watch::Receiver<ApiObjects>) -> Response<Body> {
    let (mut body, channel) = Channel::new(16);
    let epoch = state.borrow().epoch;
    tokio::spawn(async move {
        loop {
            let (lines, gone) = {
                let state = state.borrow_and_update();
                if state.epoch != epoch {
                    return;
                }
                let new = state.events.iter().filter(|event| event.version > from);
                let lines: Vec<String> =
                    new.filter(|event| event.node == node).map(|event| event.text.clone()).collect();
                let gone = from < state.oldest;
                from = state.version;
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
            if state.changed().await.is_err() {
                return;
            }
        }
    });
    Response::new(channel.boxed())
}

fn failure(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
            "message": format!("the test returns {code}") })
}

fn status(code: u16) -> Response<Body> {
    full_body(code, &failure(code).to_string())
}

fn json(value: &Value) -> Response<Body> {
    full_body(200, &value.to_string())
}

fn full_body(code: u16, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::from(text.to_owned()).boxed());
    *response.status_mut() = code.try_into().unwrap();
    response
}
