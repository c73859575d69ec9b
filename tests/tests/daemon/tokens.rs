//! Tokens of the Kubernetes API, which authenticates and authorizes clients.

use std::{ops::RangeInclusive, process::Command, time::Instant};

use silkrail_tests::{
    daemon::{self, Daemon},
    token_api::TokenApi,
};
use testkit::wait_until;

use crate::DaemonFixture;

fn serve(node: &DaemonFixture, api: &TokenApi) -> Daemon {
    let mut command = Command::new(daemon::executable());
    command.env_remove("KUBERNETES_SERVICE_HOST").env("KUBECONFIG", api.kubeconfig());
    command.args(node.options()).args(["--kubernetes", "off", "--web.token-review"]);
    let daemon = Daemon::spawn(&mut command);
    wait_until("it has collected", || daemon.health("/readyz").status == 200);
    daemon
}

fn status(daemon: &Daemon, request: &str, token: &str) -> u16 {
    daemon.request(request, &[("Authorization", &format!("Bearer {token}"))]).status
}

/// How often something may have happened since then that happens at most once in this number of seconds.
fn at_most(every: u64, since: Instant) -> RangeInclusive<usize> {
    1..=1 + usize::try_from(since.elapsed().as_secs() / every).unwrap()
}

#[test]
fn a_token_is_accepted_for_the_paths_that_the_api_allows() {
    let (node, api) = (DaemonFixture::new(), TokenApi::new());
    let daemon = serve(&node, &api);
    let answer = daemon.request("GET /metrics", &[]);
    assert_eq!(
        (answer.status, answer.headers["www-authenticate"].as_str()),
        (401, "Bearer realm=\"silkraild\"")
    );
    assert_eq!(api.asked(), 0, "a request without a token needs no query");
    assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200);
    assert_eq!(status(&daemon, "HEAD /metrics", "prometheus"), 200);
    assert_eq!(status(&daemon, "GET /api/v1/node", "prometheus"), 403);
    assert_eq!(status(&daemon, "GET /metrics", "another"), 401);
    // The probe port needs no token.
    assert_eq!(daemon.health("/healthz").status, 200);
}

#[test]
fn the_api_is_queried_once_and_no_new_token_is_accepted_while_it_fails() {
    let (node, api) = (DaemonFixture::new(), TokenApi::new());
    let (daemon, began) = (serve(&node, &api), Instant::now());
    for _ in 0..10 {
        assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200);
        assert_eq!(status(&daemon, "GET /metrics", "another"), 401);
    }
    let [known, unknown] = ["prometheus", "another"].map(|token| api.reviews(token));
    assert!(
        at_most(60, began).contains(&known) && at_most(10, began).contains(&unknown),
        "{known} {unknown}"
    );
    assert_eq!(api.asked(), 2 * known + unknown, "two queries about one token, and one about the other");
    api.fail();
    assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200, "the result is cached");
    let answer = daemon.request("GET /metrics", &[("Authorization", "Bearer new")]);
    assert_eq!(answer.status, 503);
    assert!(answer.headers.contains_key("retry-after"));
    for n in 0..20 {
        assert_eq!(status(&daemon, "GET /metrics", &format!("new-{n}")), 503);
    }
    let log = daemon.wait_for_log("TokenReview failed");
    assert!(at_most(60, began).contains(&log.matches("TokenReview failed").count()), "{log}");
    assert!(
        !log.contains("Bearer new") && !answer.text().contains("new\n"),
        "no token is logged or returned"
    );
}

#[test]
fn errors_of_the_api_are_logged_once_a_minute_and_without_tokens() {
    let (node, api) = (DaemonFixture::new(), TokenApi::new());
    let (daemon, began) = (serve(&node, &api), Instant::now());
    let refused = |what: &str| {
        for n in 0..5 {
            assert_eq!(status(&daemon, "GET /metrics", &format!("secret-{what}-{n}")), 503);
        }
    };
    api.echo(201);
    refused("echoed");
    api.echo(500);
    refused("refused");
    api.fail();
    refused("not-answered");
    let log = daemon.wait_for_log("TokenReview failed");
    let lines = log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).count();
    assert!(at_most(60, began).contains(&lines), "{lines} lines: {log}");
    assert!(!log.contains("secret-"), "{log}");
}

#[test]
fn guessed_tokens_are_rate_limited_and_do_not_affect_cached_ones() {
    let (node, api) = (DaemonFixture::new(), TokenApi::new());
    let daemon = serve(&node, &api);
    assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200);
    let began = Instant::now();
    let (mut reviewed, mut rate_limited) = (0, 0);
    for n in 0..1000 {
        let answer = daemon.request("GET /metrics", &[("Authorization", &format!("Bearer wrong-{n}"))]);
        match answer.status {
            401 => reviewed += 1,
            429 => rate_limited += usize::from(answer.headers.contains_key("retry-after")),
            other => panic!("{other}"),
        }
        if n % 100 == 99 {
            assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200, "after {n}");
        }
    }
    let queries = api.reviews("wrong-");
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!(queries <= 30 + seconds / 5 + 1, "{queries} queries in {seconds} s");
    assert_eq!((reviewed, rate_limited), (queries, 1000 - queries));
}

#[test]
fn token_review_is_refused_in_clear_text_and_without_an_api() {
    let node = DaemonFixture::new();
    let refused = |listen: &str, kubeconfig: &str| {
        let mut command = Command::new(daemon::executable());
        command.env_remove("KUBERNETES_SERVICE_HOST").env("KUBECONFIG", kubeconfig);
        command.args(node.options()).args(["--kubernetes", "off", "--web.token-review"]);
        let output = command.args(["--listen", listen, "--health.listen", "127.0.0.1:0"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let api = TokenApi::new();
    let stderr = refused("0.0.0.0:0", api.kubeconfig().to_str().unwrap());
    assert!(
        stderr.contains("in clear text to 0.0.0.0:0") && stderr.contains("--web.config.file"),
        "{stderr}"
    );
    assert!(refused("127.0.0.1:0", "").contains("no Kubernetes API is configured"));
    assert!(refused("127.0.0.1:0", "/nonexistent").contains("--web.token-review: KUBECONFIG"));
}
