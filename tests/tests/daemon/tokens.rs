//! Tokens of the Kubernetes API, which decides who may read what.

use std::{process::Command, time::Instant};

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
    daemon.ask(request, &[("Authorization", &format!("Bearer {token}"))]).status
}

/// How many have gone by.
fn minutes(since: Instant) -> usize {
    usize::try_from(since.elapsed().as_secs() / 60).unwrap()
}

#[test]
fn who_has_a_token_that_the_api_lets_read_a_path_is_let_in_there() {
    let (node, api) = (DaemonFixture::new(), TokenApi::new());
    let daemon = serve(&node, &api);
    let answer = daemon.ask("GET /metrics", &[]);
    assert_eq!(
        (answer.status, answer.headers["www-authenticate"].as_str()),
        (401, "Bearer realm=\"silkraild\"")
    );
    assert_eq!(api.asked(), 0, "who says nothing is not asked about");
    assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200);
    assert_eq!(status(&daemon, "HEAD /metrics", "prometheus"), 200);
    assert_eq!(status(&daemon, "GET /api/v1/node", "prometheus"), 403);
    assert_eq!(status(&daemon, "GET /metrics", "another"), 401);
    // The probes' port asks nobody anything.
    assert_eq!(daemon.health("/healthz").status, 200);
}

#[test]
fn the_api_is_asked_once_and_nobody_new_is_let_in_while_it_does_not_answer() {
    let (node, api) = (DaemonFixture::new(), TokenApi::new());
    let daemon = serve(&node, &api);
    for _ in 0..10 {
        assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200);
        assert_eq!(status(&daemon, "GET /metrics", "another"), 401);
    }
    assert_eq!(api.asked(), 3, "two questions about one token, and one about the other");
    api.fail();
    assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200, "it is remembered");
    let answer = daemon.ask("GET /metrics", &[("Authorization", "Bearer new")]);
    assert_eq!(answer.status, 503);
    assert!(answer.headers.contains_key("retry-after"));
    for n in 0..20 {
        assert_eq!(status(&daemon, "GET /metrics", &format!("new-{n}")), 503);
    }
    assert_eq!(daemon.log().matches("TokenReview failed").count(), 1, "{}", daemon.log());
    assert!(!daemon.log().contains("Bearer new") && !answer.text().contains("new\n"), "no token is told");
}

#[test]
fn whatever_the_api_answers_is_one_line_a_minute_and_no_token_is_in_it() {
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
    wait_until("it has said so", || daemon.log().contains("TokenReview failed"));
    let log = daemon.log();
    let lines = log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).count();
    assert!((1..=1 + minutes(began)).contains(&lines), "{lines} lines: {log}");
    assert!(!log.contains("secret-"), "{log}");
}

#[test]
fn who_tries_tokens_has_the_api_asked_a_few_times_and_keeps_nobody_out_who_is_remembered() {
    let (node, api) = (DaemonFixture::new(), TokenApi::new());
    let daemon = serve(&node, &api);
    assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200);
    let (before, began) = (api.asked(), Instant::now());
    let (mut looked_at, mut sent_away) = (0, 0);
    for n in 0..1000 {
        let answer = daemon.ask("GET /metrics", &[("Authorization", &format!("Bearer wrong-{n}"))]);
        match answer.status {
            401 => looked_at += 1,
            429 => sent_away += usize::from(answer.headers.contains_key("retry-after")),
            other => panic!("{other}"),
        }
        if n % 100 == 99 {
            assert_eq!(status(&daemon, "GET /metrics", "prometheus"), 200, "after {n}");
        }
    }
    let asked = api.asked() - before;
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!(asked <= 30 + seconds / 5 + 1, "the API was asked {asked} times in {seconds} s");
    assert_eq!((looked_at, sent_away), (asked, 1000 - asked));
}

#[test]
fn tokens_are_not_taken_in_clear_text_nor_without_an_api() {
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
    let said = refused("0.0.0.0:0", api.kubeconfig().to_str().unwrap());
    assert!(said.contains("in clear text to 0.0.0.0:0") && said.contains("--web.config.file"), "{said}");
    assert!(refused("127.0.0.1:0", "").contains("no Kubernetes API is configured"));
    assert!(refused("127.0.0.1:0", "/nonexistent").contains("--web.token-review: KUBECONFIG"));
}
