//! The metrics and labels of a PromQL expression. This finds names only; promtool parses expressions.

/// A metric of an expression, with the labels of its matchers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) name: String,
    pub(crate) labels: Vec<String>,
}

/// Every `name{label="…"}`, and every bare name that is a metric name by its form.
pub(crate) fn selectors(expression: &str) -> Vec<Selector> {
    let code = without_strings(expression);
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(start) = rest.find(is_name) {
        rest = &rest[start..];
        let (name, after) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        rest = after;
        if let Some(inside) = after.strip_prefix('{') {
            let (matchers, after) = inside.split_once('}').expect("a selector ends");
            found.push(Selector { name: name.to_owned(), labels: labels(matchers) });
            rest = after;
        } else if name.starts_with("rdma_") || name.starts_with("silkrail_") || is_recorded(name) {
            found.push(Selector { name: name.to_owned(), labels: Vec::new() });
        }
    }
    found
}

/// The labels of every `word (…)`, such as `by (cluster, node)`.
pub(crate) fn lists(expression: &str, word: &str) -> Vec<Vec<String>> {
    let code = without_strings(expression);
    let start = format!("{word} (");
    let list = |(at, _): (usize, &str)| {
        let inside = &code[at + start.len()..];
        let (names, _) = inside.split_once(')').expect("a list ends");
        names.split(',').map(|name| name.trim().to_owned()).collect()
    };
    code.match_indices(&start).map(list).collect()
}

/// The expression with empty strings.
pub(crate) fn without_strings(expression: &str) -> String {
    expression.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

fn labels(matchers: &str) -> Vec<String> {
    let name = |matcher: &str| matcher.split(['=', '!']).next().unwrap_or_default().trim().to_owned();
    matchers.split(',').map(name).filter(|name| !name.is_empty()).collect()
}

/// Whether the name has the form `level:metric:operations`. `7d:1h` is the range of a subquery.
fn is_recorded(name: &str) -> bool {
    name.contains(':') && name.starts_with(|c: char| c.is_ascii_lowercase())
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

#[test]
fn the_selectors_of_an_expression_are_found() {
    let found =
        selectors(r#"sum by (node) (rate(rdma_a_total{job=~"rdma_x{",node!="n"}[5m:1m])) / rdma_b or up{}"#);
    let selector = |name: &str, labels: &[&str]| Selector {
        name: name.to_owned(),
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
    };
    let expected = [selector("rdma_a_total", &["job", "node"]), selector("rdma_b", &[]), selector("up", &[])];
    assert_eq!(found, expected);
    assert_eq!(lists("sum by (cluster, node) (x)", "by"), [["cluster", "node"]]);
}
