//! A browser without a screen.

use std::process::Command;

/// A page after some seconds of the browser's virtual time, which advances immediately if no request is in progress.
pub(crate) struct Page {
    /// The serialized DOM.
    pub(crate) html: String,
}

impl Page {
    pub(crate) fn open(url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let output = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3500", "--dump-dom"])
            // The one of a container has 64 MB.
            .arg("--disable-dev-shm-usage")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .output()
            .unwrap_or_else(|error| panic!("failed to run chromium: {error}; install the package chromium"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !output.stdout.is_empty(),
            "chromium: {}: {stderr}",
            output.status
        );
        Self { html: String::from_utf8(output.stdout).unwrap() }
    }

    /// Asserts that the page contains a text.
    pub(crate) fn says(&self, text: &str) {
        let all = text_of(&self.html);
        assert!(all.contains(text), "{text:?} is not in {all}");
    }

    pub(crate) fn title(&self) -> &str {
        let (_, rest) = self.html.split_once("<title>").unwrap();
        rest.split_once("</title>").unwrap().0
    }

    /// Asserts that the row with this header contains the texts.
    pub(crate) fn row(&self, header: &str, texts: &[&str]) {
        let row = self.rows().find(|row| row.split('|').nth(2) == Some(header));
        let row = row.unwrap_or_else(|| panic!("no row {header:?} in {:?}", self.rows().collect::<Vec<_>>()));
        for text in texts {
            assert!(row.contains(text), "{text:?} is not in {row}");
        }
    }

    pub(crate) fn has_row(&self, header: &str) -> bool {
        self.rows().any(|row| row.split('|').nth(2) == Some(header))
    }

    /// The texts of the tables' rows, with a bar between elements.
    fn rows(&self) -> impl Iterator<Item = String> {
        self.html.split("<tr").skip(1).map(|row| text_of(row.split("</tr>").next().unwrap_or_default()))
    }
}

/// The text between the tags, with one bar for all tags between two texts. No attribute of the page has a `>`.
fn text_of(html: &str) -> String {
    let mut all = String::new();
    for part in html.split('<') {
        let text = part.split_once('>').map_or("", |(_, text)| text).trim();
        if !text.is_empty() || all.is_empty() {
            all.push('|');
            all.push_str(text);
        }
    }
    all
}
