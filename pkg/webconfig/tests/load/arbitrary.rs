//! Arbitrary texts do not panic, and errors have one line.

use proptest::prelude::*;
use webconfig::{BasicCredentials, WebConfigFile};

/// Pieces of configurations. Random combinations get further in the parser than random characters.
const PIECES: [&str; 16] = [
    "tls_server_config:",
    "basic_auth_users:",
    "http_server_config:",
    "cert_file: ",
    "client_allowed_sans: ",
    "headers: ",
    "\n",
    "\n  ",
    "\n  - ",
    "{",
    "}",
    "[a, ",
    "]",
    "&a ",
    "*a",
    "!!binary \"",
];

fn is_read(text: &str) {
    if let Err(wrong) = WebConfigFile::parse(text) {
        assert!(!wrong.why().is_empty() && !wrong.why().contains('\n'), "{text:?}: {}", wrong.why());
        assert!(wrong.line() >= 1, "{text:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_reading_panic(text in any::<String>()) {
        is_read(&text);
    }

    #[test]
    fn no_pieces_make_reading_panic(pieces in prop::collection::vec(prop::sample::select(&PIECES), 0..40)) {
        is_read(&pieces.concat());
    }

    #[test]
    fn no_header_makes_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = BasicCredentials::from_header(&bytes);
        let _ = BasicCredentials::from_header(&[b"Basic ", &bytes[..]].concat());
    }
}
