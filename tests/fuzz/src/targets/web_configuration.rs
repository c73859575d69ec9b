//! silkraild's web configuration, and the credentials of its clients.

use webconfig::{BasicCredentials, WebConfigFile};

/// Text of the file, or the value of an `Authorization` header.
pub(super) fn run(input: &[u8]) {
    // A password is never printed.
    if let Some(login) = BasicCredentials::from_header(input) {
        assert!(format!("{login:?}").ends_with(", .. }"), "{login:?}");
    }
    let Ok(text) = str::from_utf8(input) else { return };
    if let Err(wrong) = WebConfigFile::parse(text) {
        let lines = text.lines().count().max(1) as u64;
        assert!((1..=lines + 1).contains(&wrong.line()), "line {} of {lines}", wrong.line());
        assert!(!wrong.why().is_empty() && !wrong.why().contains('\n'), "{:?}", wrong.why());
    }
}
