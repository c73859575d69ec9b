//! Files of a bundle of `silkrail doctor`, with any content.

use doctor::bundle::{Redactor, redacted};

/// A secret in a separate line, after or before the content of the file.
const LINE: &str = "password=hunter2-plain";
const SECRET: &str = "hunter2-plain";
const MAC: &str = "52:54:00:aa:bb:cc";
const HOST: &str = "gpu-17.rack.example.com";

pub(super) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if text.contains(SECRET)
        || text.to_ascii_lowercase().contains(MAC)
        || text.to_ascii_lowercase().contains("gpu-17")
    {
        return;
    }
    for planted in [format!("{text}\n{LINE}\n"), format!("{LINE}\n{text}"), json(&text)] {
        assert!(!redacted(planted.as_bytes(), None).contains(SECRET), "{planted:?}");
    }
    let mut redactor = Redactor::of(&[HOST.to_owned()]);
    let planted = format!("{text}\n {MAC} {HOST} \n");
    let shown = redacted(planted.as_bytes(), Some(&mut redactor)).to_ascii_lowercase();
    assert!(!shown.contains(MAC) && !shown.contains(HOST), "{planted:?}");
}

/// The form of a delegate's configuration in a journal.
fn json(text: &str) -> String {
    let configuration = serde_json::json!({"text": text, "password": SECRET}).to_string();
    serde_json::json!({"text": text, "delegated": {"configuration": configuration}}).to_string()
}
