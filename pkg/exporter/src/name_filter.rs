//! Filters for names: of devices and of metrics.

/// Selects names by patterns such as `mlx5_*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameFilter {
    /// Patterns of names to include; all names if empty.
    pub include: Vec<String>,
    /// Patterns of names to exclude; they take precedence.
    pub exclude: Vec<String>,
}

impl NameFilter {
    /// Whether a name is selected.
    pub fn has(&self, name: &str) -> bool {
        let matches = |pattern: &String| matches(pattern, name);
        (self.include.is_empty() || self.include.iter().any(matches)) && !self.exclude.iter().any(matches)
    }
}

/// Whether a name matches a pattern, in which each `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let Some((last, middle)) = parts.split_last() else { return true };
    for part in middle {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("mlx5_0", "mlx5_0", true),
            ("mlx5_0", "mlx5_01", false),
            ("mlx5_*", "mlx5_12", true),
            ("*", "", true),
            ("*_bond_*", "mlx5_bond_0", true),
            ("m*5*0", "mlx5_0", true),
            ("m*5*1", "mlx5_0", false),
            ("*0", "mlx5_00", true),
            ("ab*ba", "aba", false),
            ("rxe*", "mlx5_0", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn exclude_takes_precedence_over_include() {
        let filter = NameFilter { include: vec!["mlx5_*".into()], exclude: vec!["mlx5_1".into()] };
        assert!(filter.has("mlx5_0") && !filter.has("mlx5_1") && !filter.has("rxe0"));
        assert!(NameFilter::default().has("anything"));
    }
}
