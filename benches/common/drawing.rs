//! Pictures of numbers: bars beside each other, and lines that grow, as SVG for light and dark pages.

use std::fmt::Write as _;

/// Readable on white and on black.
const TEXT: &str = "#7d7d7d";
const GRID: &str = "#808080";
const COLOURS: [&str; 6] = [
    "#d9822b", "#4a90d9", "#3aa76d", "#b565c9", "#c94f4f", "#8a8a3a",
];

/// A picture that is as high as what is drawn into it.
pub(crate) struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

/// Bars: a group of them for each row, a colour for each of the series.
pub(crate) struct Bars<'a> {
    pub(crate) title: &'a str,
    pub(crate) series: &'a [String],
    /// Label, and a number for each of the series that has one.
    pub(crate) rows: &'a [(String, Vec<Option<f64>>)],
}

/// Lines over a range; both axes are logarithmic.
pub(crate) struct Lines<'a> {
    pub(crate) title: &'a str,
    pub(crate) across: &'a str,
    pub(crate) series: &'a [(String, Vec<(f64, f64)>)],
}

impl Drawing {
    pub(crate) fn new(width: f64) -> Self {
        Self {
            width,
            height: 8.0,
            body: String::new(),
        }
    }

    pub(crate) fn svg(&self) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\">\n{}</svg>\n",
            self.body
        )
    }

    /// Bars on a logarithmic scale, one group below the other.
    pub(crate) fn bars(&mut self, bars: &Bars<'_>) {
        let all = || {
            bars.rows
                .iter()
                .flat_map(|(_, numbers)| numbers.iter().flatten())
        };
        let (low, high) = decades(all().copied());
        let (left, right) = (250.0, self.width - 60.0);
        let across = |number: f64| left + (right - left) * part(number, low, high);
        self.title(bars.title);
        let mut place = 8.0;
        for (number, name) in bars.series.iter().enumerate() {
            let y = self.height;
            let colour = COLOURS[number % COLOURS.len()];
            self.rect(place, y, 10.0, 10.0, colour);
            self.text(place + 14.0, y + 9.5, "start", name);
            place += 30.0 + 7.0 * name.chars().count() as f64;
        }
        self.height += 20.0;
        let top = self.height;
        for (label, numbers) in bars.rows {
            let shown = numbers.iter().flatten().count() as f64;
            let middle = self.height + shown * BAR / 2.0;
            self.text(left - 8.0, middle + 4.0, "end", label);
            for (series, number) in numbers.iter().enumerate() {
                let Some(number) = *number else { continue };
                let (end, y) = (across(number), self.height);
                self.rect(
                    left,
                    y,
                    (end - left).max(1.0),
                    BAR - 2.0,
                    COLOURS[series % COLOURS.len()],
                );
                self.small(end + 4.0, y + BAR - 3.5, "start", &short(number));
                self.height += BAR;
            }
            self.height += 7.0;
        }
        for number in powers(low, high) {
            let x = across(number);
            self.line(x, top - 4.0, x, self.height);
            self.text(x, self.height + 12.0, "middle", &short(number));
        }
        self.height += 30.0;
    }

    pub(crate) fn lines(&mut self, lines: &Lines<'_>) {
        let points = || lines.series.iter().flat_map(|(_, points)| points);
        let (first, last) = decades(points().map(|(x, _)| *x));
        let (low, high) = decades(points().map(|(_, y)| *y));
        let (left, right) = (60.0, self.width - 230.0);
        self.title(lines.title);
        let (top, bottom) = (self.height, self.height + 190.0);
        let across = |x: f64| left + (right - left) * part(x, first, last);
        let up = |y: f64| bottom - (bottom - top) * part(y, low, high);
        for x in powers(first, last) {
            self.line(across(x), top, across(x), bottom);
            self.text(across(x), bottom + 14.0, "middle", &short(x));
        }
        for y in powers(low, high) {
            self.line(left, up(y), right, up(y));
            self.text(left - 6.0, up(y) + 4.0, "end", &short(y));
        }
        for (number, (name, points)) in lines.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let places: Vec<String> = points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", across(*x), up(*y)))
                .collect();
            let _ = writeln!(
                self.body,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                places.join(" ")
            );
            let y = top + 6.0 + 18.0 * number as f64;
            self.rect(right + 14.0, y, 10.0, 10.0, colour);
            self.text(right + 28.0, y + 9.5, "start", name);
        }
        self.text((left + right) / 2.0, bottom + 30.0, "middle", lines.across);
        self.height = bottom + 48.0;
    }

    fn title(&mut self, title: &str) {
        let y = self.height + 14.0;
        let _ = writeln!(
            self.body,
            "<text x=\"8\" y=\"{y}\" fill=\"{TEXT}\" font-size=\"14\" font-weight=\"bold\">{title}</text>"
        );
        self.height += 26.0;
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{TEXT}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    fn small(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{TEXT}\" font-size=\"9\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        );
    }

    fn line(&mut self, x: f64, y: f64, to_x: f64, to_y: f64) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" stroke=\"{GRID}\" stroke-opacity=\"0.35\"/>"
        );
    }
}

const BAR: f64 = 11.0;

/// The powers of ten between which all of them lie.
fn decades(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let known = numbers.filter(|number| *number > 0.0);
    let ends = known.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), number| {
        (low.min(number), high.max(number))
    });
    let (low, high) = (ends.0.min(ends.1).log10().floor(), ends.1.log10().ceil());
    (low, high.max(low + 1.0))
}

fn powers(low: f64, high: f64) -> Vec<f64> {
    (low as i32..=high as i32)
        .map(|power| 10_f64.powi(power))
        .collect()
}

fn part(number: f64, low: f64, high: f64) -> f64 {
    ((number.max(1e-9).log10() - low) / (high - low)).clamp(0.0, 1.0)
}

fn short(number: f64) -> String {
    let (number, unit) = match number {
        thousands if thousands >= 999.5 => (thousands / 1000.0, "k"),
        few => (few, ""),
    };
    let digits = match number {
        tens if tens >= 9.95 => 0,
        ones if ones >= 0.095 => 1,
        hundredths if hundredths >= 0.0095 => 2,
        _ => 3,
    };
    let text = format!("{number:.digits$}");
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}
