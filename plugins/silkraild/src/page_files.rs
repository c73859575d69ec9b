//! The files of the web page, which are embedded in the executable. The page loads no external resources.

/// The Content-Security-Policy of the page: it can load its own files and send requests to this server. Names come from
/// pods, so Trusted Types keep scripts from parsing text as HTML.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the page.
#[derive(Debug)]
pub(crate) struct PageFile {
    path: &'static str,
    /// The media type, for `Content-Type`.
    pub(crate) kind: &'static str,
    /// The content of the file.
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

static FILES: [PageFile; 12] = [
    PageFile { path: "/", kind: HTML, text: include_str!("../page/index.html") },
    PageFile { path: "/page/page.css", kind: STYLE, text: include_str!("../page/page.css") },
    PageFile { path: "/page/icon.svg", kind: IMAGE, text: include_str!("../page/icon.svg") },
    PageFile { path: "/page/page.js", kind: SCRIPT, text: include_str!("../page/page.js") },
    PageFile { path: "/page/devices.js", kind: SCRIPT, text: include_str!("../page/devices.js") },
    PageFile { path: "/page/pods.js", kind: SCRIPT, text: include_str!("../page/pods.js") },
    PageFile { path: "/page/chart.js", kind: SCRIPT, text: include_str!("../page/chart.js") },
    PageFile { path: "/page/tables.js", kind: SCRIPT, text: include_str!("../page/tables.js") },
    PageFile { path: "/page/problems.js", kind: SCRIPT, text: include_str!("../page/problems.js") },
    PageFile { path: "/page/history.js", kind: SCRIPT, text: include_str!("../page/history.js") },
    PageFile { path: "/page/text.js", kind: SCRIPT, text: include_str!("../page/text.js") },
    PageFile { path: "/page/dom.js", kind: SCRIPT, text: include_str!("../page/dom.js") },
];

impl PageFile {
    /// Returns the file that is served at a path.
    pub(crate) fn at(path: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.path == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A browser would report a missing file only in its console.
    #[test]
    fn every_file_that_another_names_exists() {
        let mut named = 0;
        for file in &FILES {
            for word in file.text.split(['"', '\'']) {
                let path = word.strip_prefix("./").map(|name| format!("/page/{name}"));
                let path = path.unwrap_or_else(|| word.to_owned());
                if path.starts_with("/page/") {
                    named += 1;
                    assert!(PageFile::at(&path).is_some(), "{} names {word}", file.path);
                }
            }
        }
        assert!(named >= FILES.len() - 1, "a file is not referenced by any other: {named}");
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_and_nothing_is_inline() {
        for file in &FILES {
            let text = file.text.replace("http://www.w3.org/", ""); // XML namespaces, which are not fetched
            for word in
                ["http://", "https://", "style=\"", "<style", "innerHTML", "insertAdjacentHTML", "eval("]
            {
                assert!(!text.contains(word), "{} has {word}", file.path);
            }
        }
        assert!(
            FILES[0].text.matches("<script").count()
                == FILES[0].text.matches("<script type=\"module\" src=").count()
        );
    }
}
