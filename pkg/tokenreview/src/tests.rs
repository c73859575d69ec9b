//! Reviews by an API server in this process.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{Arc, Mutex},
};

use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;

/// The requests that the API server got: the last part of the path, and the spec of the review.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// Returns a reviewer with an API server that responds with these statuses of reviews, or with errors.
fn reviewer(statuses: &[Result<Value, StatusCode>]) -> (TokenReviewer, Asked) {
    let asked = Asked::default();
    let (noted, statuses) = (asked.clone(), Arc::new(Mutex::new(VecDeque::from(statuses.to_vec()))));
    let service = service_fn(move |request: Request<Body>| {
        let (noted, status) = (noted.clone(), statuses.lock().unwrap().pop_front());
        async move {
            let what = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            let mut review: Value = serde_json::from_slice(&request.into_body().collect_bytes().await?)?;
            noted.lock().unwrap().push((what, review["spec"].clone()));
            let (code, body) = match status {
                None => return pending().await,
                Some(Err(code)) => {
                    (code, json!({"kind": "Status", "status": "Failure", "code": code.as_u16()}))
                }
                Some(Ok(status)) => {
                    review["status"] = status;
                    (StatusCode::CREATED, review)
                }
            };
            Ok::<_, BoxError>(
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes()))?,
            )
        }
    });
    (TokenReviewer::new(Client::new(service, "default")).unwrap(), asked)
}

fn user(authenticated: Value) -> Value {
    json!({"authenticated": authenticated, "user": {"username": "prometheus"}})
}

#[tokio::test]
async fn a_token_is_accepted_only_if_it_is_valid_and_its_user_can_get_the_path() {
    use AccessDecision::{Allowed, Forbidden, Unauthenticated};
    for (token, access, decision) in [
        (user(json!(true)), json!({"allowed": true}), Allowed),
        (user(json!(true)), json!({"allowed": false}), Forbidden),
        (user(json!(true)), json!(null), Forbidden),
        (user(json!(false)), json!({"allowed": true}), Unauthenticated),
        (user(json!(null)), json!({"allowed": true}), Unauthenticated),
        (json!({"authenticated": true}), json!({"allowed": true}), Unauthenticated),
        (json!(null), json!({"allowed": true}), Unauthenticated),
    ] {
        let (reviewer, asked) = reviewer(&[Ok(token.clone()), Ok(access)]);
        assert_eq!(reviewer.cached("t", "/metrics"), None);
        assert_eq!(reviewer.review("t", "/metrics").await.unwrap(), decision, "{token}");
        assert_eq!(reviewer.cached("t", "/metrics"), Some(decision));
        assert_eq!(reviewer.has_let_in("t", "/metrics"), decision == Allowed);
        assert_eq!(asked.lock().unwrap().len(), if decision == Unauthenticated { 1 } else { 2 });
    }
}

#[tokio::test]
async fn the_second_review_has_everything_that_the_first_one_found_out_about_the_user() {
    let found = json!({
        "username": "system:serviceaccount:monitoring:prometheus", "uid": "u-1",
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
    });
    let token = json!({"authenticated": true, "user": found});
    let (reviewer, asked) = reviewer(&[Ok(token), Ok(json!({"allowed": true}))]);
    reviewer.review("secret", "/api/v1/node").await.unwrap();
    let access = json!({
        "user": found["username"], "uid": found["uid"], "groups": found["groups"], "extra": found["extra"],
        "nonResourceAttributes": {"path": "/api/v1/node", "verb": "get"},
    });
    let expected = [
        ("tokenreviews".to_owned(), json!({"token": "secret"})),
        ("subjectaccessreviews".to_owned(), access),
    ];
    assert_eq!(*asked.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn without_a_response_there_is_no_decision_and_the_next_review_may_have_one() {
    let well = || [Ok(user(json!(true))), Ok(json!({"allowed": true}))];
    let failed = StatusCode::INTERNAL_SERVER_ERROR;
    for (failures, what) in [
        (vec![Err(failed)], "TokenReview"),
        (vec![Ok(user(json!(true))), Err(failed)], "SubjectAccessReview"),
    ] {
        let (reviewer, _) = reviewer(&[&failures[..], &well()].concat());
        let error = reviewer.review("t", "/metrics").await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{what} failed")) && error.contains("status 500"), "{error}");
        assert_eq!(reviewer.cached("t", "/metrics"), None);
        assert_eq!(reviewer.review("t", "/metrics").await.unwrap(), AccessDecision::Allowed);
    }
    for answers in [&well()[..0], &well()[..1]] {
        let (reviewer, _) = reviewer(answers);
        let began = tokio::time::Instant::now();
        assert!(matches!(reviewer.review("t", "/metrics").await, Err(Error::Timeout)));
        assert_eq!((began.elapsed(), reviewer.cached("t", "/metrics")), (REVIEW_TIMEOUT, None));
    }
}
