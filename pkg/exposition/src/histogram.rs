//! A histogram.

/// Numbers of observations by their size, and their sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// The number of observations up to each bound and above the former one; the last one is for those above all bounds.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// Creates a histogram without observations. The bounds ascend.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Adds an observation. One that is not a number is skipped.
    pub fn observe(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// Returns the number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the observations.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Returns each bound with the number of observations up to it; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(&self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exposition, ExpositionFormat, LabelSet, MetricType};

    #[test]
    fn a_value_on_a_bound_belongs_to_its_bucket() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 7.0, f64::NAN].into_iter().for_each(|value| histogram.observe(value));
        let cumulative: Vec<_> = histogram.cumulative().collect();
        assert_eq!(cumulative, [(1.0, 2), (2.0, 3), (f64::INFINITY, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (4, 10.0));
    }

    #[test]
    fn a_histogram_is_encoded_as_prometheus_reads_it() {
        let mut histogram = Histogram::new(&[0.000_001, 0.5]);
        histogram.observe(0.25);
        let mut exposition = Exposition::default();
        let family = exposition.family("x_seconds", MetricType::Histogram, "Times.");
        family.add_histogram(&LabelSet::of([("a", "b")]), &histogram);
        let expected = "# HELP x_seconds Times.\n# TYPE x_seconds histogram\n\
                        x_seconds_bucket{a=\"b\",le=\"0.000001\"} 0\n\
                        x_seconds_bucket{a=\"b\",le=\"0.5\"} 1\n\
                        x_seconds_bucket{a=\"b\",le=\"+Inf\"} 1\n\
                        x_seconds_sum{a=\"b\"} 0.25\nx_seconds_count{a=\"b\"} 1\n";
        assert_eq!(exposition.encode(ExpositionFormat::Text), expected);
        // As part of others, and with another one in its family.
        let text = |exposition: &Exposition| exposition.encode(ExpositionFormat::Text);
        let mut whole = Exposition::default();
        whole.replace(exposition.clone());
        assert_eq!(text(&whole), expected);
        whole.append(exposition.clone());
        let series = |text: &str| text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(series(&text(&whole)), [series(expected), series(expected)].concat());
        whole.retain(|name| name != "x_seconds");
        assert_eq!(text(&whole), "");
        whole.append(exposition);
        assert_eq!(text(&whole), expected);
    }
}
