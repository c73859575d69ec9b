//! TLS, clients' certificates and logins, as curl, openssl and Prometheus see them.

use std::{
    fs::{self, Permissions},
    io::{ErrorKind, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::json;
use silkrail_tests::{
    conf,
    daemon::{self, Daemon},
    pki::{self, OpensslCa},
    prometheus::Prometheus,
};
use testkit::wait_until;

use crate::DaemonFixture;

const TLS: &str = "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n";
const VERIFIED: &str = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n";

/// A certificate authority that has signed the daemon's certificate and a client's.
fn authority() -> OpensslCa {
    let authority = OpensslCa::new();
    authority.sign("tls", "silkraild");
    authority.sign("client", "prometheus");
    authority
}

fn users(password: &str, cost: u32) -> String {
    format!("basic_auth_users:\n  prometheus: {}\n", pki::hash(password, cost))
}

/// silkraild with a web configuration in the directory of the authority.
fn serve(node: &DaemonFixture, authority: &OpensslCa, text: &str) -> Daemon {
    authority.write("web.yaml", text);
    node.serve(&["--web.config.file", authority.path("web.yaml").to_str().unwrap()])
}

/// The result of curl: its exit status, the HTTP status, and the headers with the body.
fn curl(authority: &OpensslCa, url: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let got = Command::new("curl")
        .args([
            "--silent",
            "--include",
            "--max-time",
            "60",
            "--cacert",
            "ca.crt",
            "--write-out",
            "\n%{http_code}",
        ])
        .args(options)
        .arg(url)
        .current_dir(authority.directory())
        .output()
        .unwrap();
    let text = String::from_utf8(got.stdout).unwrap();
    let (text, status) = text.rsplit_once('\n').unwrap();
    (got.status.code(), status.to_owned(), text.to_owned())
}

fn status(authority: &OpensslCa, daemon: &Daemon, options: &[&str]) -> String {
    curl(authority, &format!("https://{}/metrics", daemon.address()), options).1
}

/// The output of `openssl s_client`.
fn s_client(address: SocketAddr, options: &[&str]) -> Output {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &address.to_string()]).args(options);
    client.stdin(Stdio::null()).output().unwrap()
}

const CLIENT: [&str; 4] = ["--cert", "client.crt", "--key", "client.key"];

#[test]
fn tls_is_1_2_or_newer_and_there_is_no_response_in_clear_text() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let daemon = serve(&node, &authority, TLS);
    let (code, status, text) = curl(&authority, &format!("https://{}/metrics", daemon.address()), &[]);
    assert_eq!((code, status.as_str()), (Some(0), "200"));
    assert!(text.contains("rdma_exporter_build_info"), "{text}");
    for (version, is_supported) in
        [("-tls1", false), ("-tls1_1", false), ("-tls1_2", true), ("-tls1_3", true)]
    {
        // Without -cipher, openssl would not offer the old versions.
        let output = s_client(daemon.address(), &[version, "-cipher", "ALL:@SECLEVEL=0"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.success(), is_supported, "{version}: {text}");
        assert_eq!(text.contains("Cipher is (NONE)"), !is_supported, "{version}: {text}");
        if !is_supported {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(why.contains("alert protocol version") || why.contains("handshake failure"), "{why}");
        }
    }
    let plain = curl(&authority, &format!("http://{}/metrics", daemon.address()), &[]);
    assert!(plain.0 != Some(0) && !plain.2.contains("rdma_"), "{plain:?}");
    let unknown = s_client(daemon.address(), &["-verify_return_error", "-CAfile", "/dev/null"]);
    assert!(!unknown.status.success(), "openssl verifies certificates");
    assert_eq!(daemon.health("/healthz").status, 200, "probes have neither certificates nor passwords");
}

#[test]
fn a_client_without_a_certificate_of_the_ca_is_rejected() {
    let (node, authority, other) = (DaemonFixture::new(), authority(), authority());
    other.sign("client", "prometheus");
    let sans = "  client_allowed_sans: [prometheus]\n";
    let daemon = serve(&node, &authority, &format!("{TLS}{VERIFIED}{sans}"));
    assert_eq!(status(&authority, &daemon, &CLIENT), "200");
    authority.sign("other", "grafana");
    let others = [other.path("client.crt"), other.path("client.key")].map(|path| path.display().to_string());
    for options in [
        &[][..],
        &["--cert", &others[0], "--key", &others[1]],
        &["--cert", "other.crt", "--key", "other.key"],
    ] {
        for path in ["/", "/metrics", "/api/v1/node", "/healthz"] {
            let url = format!("https://{}{path}", daemon.address());
            let (code, status, text) = curl(&authority, &url, options);
            assert!(
                code != Some(0) && status == "000" && text.is_empty(),
                "{options:?} {path}: {code:?} {text}"
            );
        }
    }
    assert_eq!(daemon.health("/readyz").status, 200);
}

#[test]
fn a_request_without_a_login_gets_401_for_every_path() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let daemon = serve(&node, &authority, &format!("{TLS}{}", users("secret", 5)));
    for path in ["/", "/metrics", "/api/v1/node", "/healthz", "/readyz", "/page/page.js", "/nothing"] {
        let url = format!("https://{}{path}", daemon.address());
        for options in [
            &[][..],
            &["--user", "prometheus:wrong"],
            &["--user", "unknown:secret"],
            &["--user", "prometheus:"],
        ] {
            let (_, status, text) = curl(&authority, &url, options);
            assert_eq!(status, "401", "{options:?} {path}");
            assert!(text.to_lowercase().contains("www-authenticate: basic realm="), "{text}");
            assert!(!text.contains("rdma_") && !text.contains("<html"), "{text}");
        }
        let expected = if path == "/nothing" { "404" } else { "200" };
        assert_eq!(curl(&authority, &url, &["--user", "prometheus:secret"]).1, expected, "{path}");
    }
    let bearer = ["--header", "Authorization: Bearer secret"];
    assert_eq!(status(&authority, &daemon, &bearer), "401");
    assert_eq!(daemon.health("/readyz").status, 200);
    assert!(!daemon.log().contains("secret"), "{}", daemon.log());
}

#[test]
fn configured_headers_are_sent_with_every_response() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let headers = "http_server_config:\n  headers:\n    Strict-Transport-Security: max-age=60\n    X-Frame-Options: deny\n";
    let daemon = serve(&node, &authority, &format!("{TLS}{headers}{}", users("secret", 4)));
    for options in [&[][..], &["--user", "prometheus:secret"]] {
        let (_, _, text) = curl(&authority, &format!("https://{}/", daemon.address()), options);
        let text = text.to_lowercase();
        assert!(
            text.contains("strict-transport-security: max-age=60") && text.contains("x-frame-options: deny")
        );
    }
}

#[test]
fn an_invalid_configuration_is_refused_at_start_with_its_line() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let path = authority.path("web.yaml");
    let start = |text: &str| {
        authority.write("web.yaml", text);
        let web = [
            "--listen",
            "127.0.0.1:0",
            "--health.listen",
            "127.0.0.1:0",
            "--web.config.file",
            path.to_str().unwrap(),
        ];
        let output = daemon::run(&[&node.options()[..], &web].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(!stderr.contains("serving"), "{stderr}");
        stderr
    };
    for (text, part) in [
        (TLS.replace("key_file", "keyfile"), "line 3: unknown field `keyfile`"),
        (TLS.replace("tls.crt", "none.crt"), "line 2: cert_file"),
        (TLS.replace("tls.key", "client.key"), "line 2: cert_file tls.crt: cannot be used with the key"),
        (format!("{TLS}  min_version: TLS10\n"), "line 4: \"TLS10\": expected TLS12 or TLS13"),
        (
            "basic_auth_users:\n  a: secret\n".into(),
            "line 2: the password of user \"a\" is not a bcrypt hash",
        ),
        (String::new(), "line 1: the file is empty"),
    ] {
        let stderr = start(&text);
        assert!(stderr.contains(&format!("{}: {part}", path.display())), "{stderr}");
    }
    fs::set_permissions(authority.path("tls.key"), Permissions::from_mode(0o644)).unwrap();
    let stderr = start(TLS);
    assert!(
        stderr.contains("line 3: key_file") && stderr.contains("others can read (mode 0644)"),
        "{stderr}"
    );
}

/// The subject of the server certificate.
fn subject(daemon: &Daemon) -> String {
    let stdout = String::from_utf8_lossy(&s_client(daemon.address(), &[]).stdout).into_owned();
    stdout.lines().find(|line| line.starts_with("subject=")).unwrap_or_default().to_owned()
}

#[test]
fn changes_are_applied_and_an_invalid_configuration_keeps_the_former() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let daemon = serve(&node, &authority, &format!("{TLS}{}", users("first", 4)));
    let with = |password: &str| status(&authority, &daemon, &["--user", &format!("prometheus:{password}")]);
    let last_reload = |password: &str| {
        let login = format!("prometheus:{password}");
        let (_, _, text) =
            curl(&authority, &format!("https://{}/metrics", daemon.address()), &["--user", &login]);
        text.lines().find_map(|line| {
            line.strip_prefix("rdma_exporter_web_config_last_reload_successful{node=\"lab\"} ")
                .map(str::to_owned)
        })
    };
    assert_eq!((with("first").as_str(), last_reload("first").as_deref()), ("200", Some("1")));
    authority.write("web.yaml", &format!("{TLS}{}", users("second", 4)));
    wait_until("the new password is accepted", || with("second") == "200");
    assert_eq!(with("first"), "401");
    authority.sign("tls", "renewed");
    wait_until("the new certificate is served", || subject(&daemon).contains("renewed"));
    let third = users("third", 4);
    for (invalid, part) in [
        ("", "line 1: the file is empty"),
        ("{}", "tls_server_config was removed"),
        (TLS, "basic_auth_users was removed"),
        (&format!("{TLS}  min_version: TLS11\n{third}"), "line 4: \"TLS11\""),
    ] {
        authority.write("web.yaml", invalid);
        daemon.wait_for_log(part);
        wait_until("the metric reports it", || last_reload("second").as_deref() == Some("0"));
        // Neither in clear text nor without a password.
        assert_eq!((with("second"), with("third")), ("200".into(), "401".into()), "{part}");
        assert_eq!(status(&authority, &daemon, &[]), "401", "{part}");
        let plain = curl(&authority, &format!("http://{}/metrics", daemon.address()), &[]);
        assert!(plain.0 != Some(0), "{part}");
    }
    thread::sleep(Duration::from_secs(12)); // it checks twice
    assert_eq!(daemon.log().matches("ERROR").count(), 4, "{}", daemon.log());
    authority.write("web.yaml", &format!("{TLS}{}", users("fourth", 4)));
    wait_until("the configuration is valid again", || last_reload("fourth").as_deref() == Some("1"));
}

#[test]
fn a_new_configuration_ends_the_connections_of_the_former() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let daemon = serve(&node, &authority, &users("first", 4));
    let mut client = TcpStream::connect(daemon.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // Like Prometheus, it keeps the connection.
    client.write_all(b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    std::io::Read::read_exact(&mut client, &mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
    authority.write("web.yaml", &users("second", 4));
    let rest = std::io::Read::read_to_end(&mut client, &mut Vec::new());
    assert!(rest.is_ok(), "it is still open: {rest:?}");
}

#[test]
fn no_change_removes_the_client_certificate_requirement() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let named = format!("{TLS}{VERIFIED}  client_allowed_sans: [prometheus]\n");
    let daemon = serve(&node, &authority, &named);
    let client = ["--cert", "client.crt", "--key", "client.key"];
    assert_eq!(status(&authority, &daemon, &client), "200");
    let if_given = VERIFIED.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven");
    for (invalid, removed) in [
        (TLS.to_owned(), "client_auth_type RequireAndVerifyClientCert was removed"),
        (format!("{TLS}{if_given}"), "client_auth_type RequireAndVerifyClientCert was removed"),
        (format!("{TLS}{VERIFIED}"), "client_allowed_sans was removed"),
    ] {
        let before = daemon.log().matches(removed).count();
        authority.write("web.yaml", &invalid);
        wait_until("it is refused", || daemon.log().matches(removed).count() > before || before > 0);
        assert_eq!(status(&authority, &daemon, &client), "200");
        assert_eq!(status(&authority, &daemon, &[]), "000", "no client without a certificate: {invalid}");
    }
}

/// Each wrong password takes time, on purpose; other clients do not wait for it.
#[test]
fn guessed_passwords_do_not_block_other_logins() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let daemon = serve(&node, &authority, &users("secret", 8));
    let (stop, tried) = (AtomicBool::new(false), AtomicBool::new(false));
    let attempt = || {
        let options = ["--interface", "127.0.0.2", "--user", "prometheus:guess", "--max-time", "20"];
        while !stop.load(Ordering::Relaxed) {
            let url = format!("http://{}/metrics", daemon.address());
            tried.fetch_or(curl(&authority, &url, &options).1 == "401", Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(attempt);
        }
        wait_until("a password is tried", || tried.load(Ordering::Relaxed));
        let right = ["--user", "prometheus:secret"];
        let url = format!("http://{}/metrics", daemon.address());
        for _ in 0..6 {
            assert_eq!(curl(&authority, &url, &right).1, "200");
            assert_eq!(daemon.health("/healthz").status, 200);
        }
        stop.store(true, Ordering::Relaxed);
    });
    daemon.wait_for_log("passwords are sent in clear text");
}

#[test]
fn a_client_that_does_not_finish_its_handshake_is_disconnected() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let daemon = serve(&node, &authority, TLS);
    let mut client = TcpStream::connect(daemon.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    let ended = std::io::Read::read(&mut client, &mut [0; 1]);
    let is_disconnected =
        ended.as_ref().map_or_else(|e| e.kind() != ErrorKind::WouldBlock, |read| *read == 0);
    assert!(is_disconnected, "{ended:?}");
}

#[test]
fn the_example_works_with_the_example_configuration_of_prometheus() {
    let (node, authority) = (DaemonFixture::new(), authority());
    let example = conf::text("silkraild/web.yaml");
    authority.write("web.yaml", &example);
    let web = authority.path("web.yaml");
    let start = [
        "--listen",
        "127.0.0.1:0",
        "--health.listen",
        "127.0.0.1:0",
        "--web.config.file",
        web.to_str().unwrap(),
    ];
    let refused = daemon::run(&[&node.options()[..], &start].concat());
    assert!(
        String::from_utf8(refused.stderr).unwrap().contains("is not a bcrypt hash; create one with htpasswd")
    );
    let daemon = serve(
        &node,
        &authority,
        &example.replace("made by htpasswd -nBC 10 prometheus", &pki::hash("secret", 5)),
    );

    let mut configuration = conf::yaml("prometheus/tls.yml").remove(0);
    let job = &mut configuration["scrape_configs"][0];
    assert_eq!((&job["job_name"], &job["honor_labels"]), (&json!("silkraild"), &json!(true)));
    authority.write("password", "secret");
    let at = |name: &str| json!(authority.path(name));
    job["tls_config"]["ca_file"] = at("ca.crt");
    job["tls_config"]["cert_file"] = at("client.crt");
    job["tls_config"]["key_file"] = at("client.key");
    job["basic_auth"]["password_file"] = at("password");
    job["static_configs"] = json!([{"targets": [daemon.address().to_string()]}]);
    let mut without = job.clone();
    without["job_name"] = json!("without-login");
    without.as_object_mut().unwrap().remove("basic_auth");
    configuration["scrape_configs"].as_array_mut().unwrap().push(without);
    configuration["global"] = json!({"scrape_interval": "1s"});
    let prometheus = Prometheus::with(&configuration);
    let up = |job: &str| prometheus.query(&format!("up{{job={job:?}}}")).first().map(|sample| sample.value);
    wait_until("it is scraped", || up("silkraild") == Some(1.0));
    wait_until("it is refused without a login", || up("without-login") == Some(0.0));
    let seen = prometheus.query("rdma_exporter_web_config_last_reload_successful");
    assert_eq!((seen.len(), seen[0].value), (1, 1.0));
}
