//! A page of strips: drawings on one axis of time, below the sentences that say what they show.
//!
//! It is a single file without scripts and without anything from elsewhere, as the page about a run is. What is drawn
//! and how it is named comes from the caller.

use super::chart::{WIDTH, drawing};
use super::{STYLE, escaped, row, table};
use std::fmt::Write;

/// Height of a strip, in the units of its drawing.
const HEIGHT: f64 = 100.0;

/// Values by bin, as one area, one set of bars or one line.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// Its name in the key.
    pub name: String,
    /// Its colour: `#rrggbb`.
    pub colour: &'static str,
    /// A value for each bin; none where nothing was measured.
    pub values: Vec<Option<f64>>,
    /// It stands on the layers before it, not on the axis.
    pub is_stacked: bool,
}

/// One drawing.
#[derive(Clone, Debug, Default)]
pub struct Strip {
    /// What it shows, with the unit.
    pub caption: String,
    /// The unit at the axis.
    pub unit: &'static str,
    /// The largest value of the axis; the largest value that is drawn where there is none.
    pub max: Option<f64>,
    /// The layers, from the back to the front.
    pub layers: Vec<Layer>,
    /// A line across all bins, with its name.
    pub line: Option<(f64, String)>,
    /// Why nothing is drawn.
    pub absent: Option<String>,
}

/// Strips over one stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Its id on the page.
    pub id: String,
    /// Its heading.
    pub heading: String,
    /// A sentence below the heading.
    pub note: String,
    /// Begin and end, in milliseconds.
    pub span_ms: (u64, u64),
    /// Stretches of time that are marked, in milliseconds.
    pub marked_ms: Vec<(u64, u64)>,
    /// The strips, from the top down.
    pub strips: Vec<Strip>,
}

/// A table with a heading.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Its heading.
    pub heading: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows: a name, then a text for each further column.
    pub rows: Vec<Vec<String>>,
}

/// All that the page shows.
#[derive(Clone, Debug, Default)]
pub struct StripPage {
    /// Its title.
    pub title: String,
    /// What it is about, below the title.
    pub origin: String,
    /// The sentences at the top.
    pub diagnosis: Vec<String>,
    /// Panels, from the top down.
    pub panels: Vec<Panel>,
    /// Tables below the panels.
    pub tables: Vec<Figures>,
    /// What was read, and what was not: names and texts.
    pub notes: Vec<(String, String)>,
}

impl StripPage {
    /// The page.
    #[must_use]
    pub fn html(&self) -> String {
        let mut h = String::from(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
        );
        let (title, origin) = (escaped(&self.title), escaped(&self.origin));
        let version = env!("CARGO_PKG_VERSION");
        let _ = write!(
            h,
            "<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>\
             <p class=\"of\">{origin} · Gabion {version}</p>"
        );
        for sentence in &self.diagnosis {
            let _ = write!(h, "<p class=\"diagnosis\">{}</p>", escaped(sentence));
        }
        h.push_str("<nav>");
        for panel in &self.panels {
            let (id, heading) = (escaped(&panel.id), escaped(&panel.heading));
            let _ = write!(h, "<a href=\"#{id}\">{heading}</a>");
        }
        h.push_str("</nav>");
        self.panels.iter().for_each(|panel| panel.write(&mut h));
        self.tables.iter().for_each(|figures| figures.write(&mut h));
        h.push_str("<h2 id=\"read\">What was read, and what was not</h2><table><tbody>");
        for (name, text) in &self.notes {
            let (name, text) = (escaped(name), escaped(text));
            let _ = write!(
                h,
                "<tr><td class=\"w\"><span>{name}</span></td><td class=\"w\"><span>{text}</span></td></tr>"
            );
        }
        h.push_str("</tbody></table></body></html>\n");
        h
    }
}

impl Figures {
    fn write(&self, h: &mut String) {
        let _ = write!(h, "<h2>{}</h2>", escaped(&self.heading));
        let names: Vec<String> = self.columns.iter().map(|name| escaped(name)).collect();
        let columns: Vec<(&str, &str)> = names
            .iter()
            .enumerate()
            .map(|(at, name)| (name.as_str(), if at == 0 { "" } else { "n" }))
            .collect();
        table(&columns, h);
        for cells in &self.rows {
            let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
            row("", &columns, &cells, h);
        }
        h.push_str("</tbody></table>");
    }
}

impl Panel {
    fn write(&self, h: &mut String) {
        let (id, heading) = (escaped(&self.id), escaped(&self.heading));
        let _ = write!(h, "<h2 id=\"{id}\">{heading}</h2>");
        if !self.note.is_empty() {
            let _ = write!(h, "<p class=\"none\">{}</p>", escaped(&self.note));
        }
        let axis = self.axis();
        for strip in &self.strips {
            strip.write(self, h);
            if strip.absent.is_none() {
                h.push_str(&axis);
            }
        }
    }

    /// The moments below a strip.
    fn axis(&self) -> String {
        let (from, to) = self.span_ms;
        let mut h = String::from("<div class=\"x strip\">");
        for (at, class) in
            [(0.0, ""), (0.25, " class=\"m\""), (0.5, ""), (0.75, " class=\"m\""), (1.0, "")]
        {
            let ms = from as f64 + to.saturating_sub(from) as f64 * at;
            let _ = write!(h, "<span{class}>{:.3} s</span>", ms / 1000.0);
        }
        h.push_str("</div>");
        h
    }

    /// A moment as a place on the axis.
    fn place(&self, ms: u64) -> f64 {
        let (from, to) = self.span_ms;
        let span = to.saturating_sub(from).max(1) as f64;
        (ms.clamp(from, to.max(from)) - from) as f64 / span * WIDTH
    }
}

impl Strip {
    fn write(&self, panel: &Panel, h: &mut String) {
        let caption = escaped(&self.caption);
        if let Some(why) = &self.absent {
            let _ = write!(h, "<p class=\"none\">{caption}: {}</p>", escaped(why));
            return;
        }
        let max = self.max.unwrap_or_else(|| self.largest()).max(1e-9);
        let mut body = String::new();
        for (from, to) in &panel.marked_ms {
            let (x, end) = (panel.place(*from), panel.place(*to));
            if end > x {
                let _ = write!(
                    body,
                    "<rect x=\"{x:.1}\" y=\"0\" width=\"{:.1}\" height=\"{HEIGHT}\" fill=\"#8882\"/>",
                    end - x
                );
            }
        }
        let mut below: Vec<f64> = Vec::new();
        for layer in &self.layers {
            if !layer.is_stacked {
                below.clear();
            }
            below.resize(layer.values.len().max(below.len()), 0.0);
            area(layer, &mut below, max, &mut body);
        }
        if let Some((value, _)) = &self.line {
            let y = height(*value, max);
            let _ = write!(
                body,
                "<path class=\"g\" stroke-dasharray=\"4 3\" d=\"M0 {y:.1}H{WIDTH}\"/>"
            );
        }
        let _ = write!(h, "<figure class=\"strip\"><figcaption>{caption}");
        let line = self.line.iter().map(|(_, name)| ("currentColor", name.as_str()));
        let layers = self.layers.iter().map(|layer| (layer.colour, layer.name.as_str()));
        for (colour, name) in layers.chain(line).filter(|(_, name)| !name.is_empty()) {
            let name = escaped(name);
            let _ = write!(h, " <i class=\"key\" style=\"background:{colour}\"></i>{name}");
        }
        let unit = escaped(self.unit);
        let _ = write!(
            h,
            "</figcaption><div class=\"plot strip\"><div class=\"y\"><span style=\"top:8%\">{} {unit}</span>\
             <span style=\"top:92%\">0</span></div>{}</div></figure>",
            short(max),
            drawing(HEIGHT, &self.caption, &body)
        );
    }

    /// The largest value that is drawn.
    fn largest(&self) -> f64 {
        let mut below: Vec<f64> = Vec::new();
        let mut largest = self.line.as_ref().map_or(0.0, |(value, _)| *value);
        for layer in &self.layers {
            if !layer.is_stacked {
                below.clear();
            }
            below.resize(layer.values.len().max(below.len()), 0.0);
            for (sum, value) in below.iter_mut().zip(&layer.values) {
                *sum += value.unwrap_or(0.0).max(0.0);
                largest = largest.max(*sum);
            }
        }
        largest
    }
}

/// A number of three digits or so.
fn short(value: f64) -> String {
    match value {
        v if v >= 10_000.0 => super::grouped(v.round() as u64),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A value as a place on the vertical axis.
fn height(value: f64, max: f64) -> f64 {
    HEIGHT - (value / max).clamp(0.0, 1.0) * (HEIGHT - 2.0)
}

/// Draws a layer on what is below it, and adds it to that. Bins next to each other with the same height are one piece.
fn area(layer: &Layer, below: &mut [f64], max: f64, body: &mut String) {
    let bins = layer.values.len().max(1) as f64;
    let x = |bin: usize| bin as f64 / bins * WIDTH;
    let mut path = String::new();
    let mut begun: Option<(usize, String, String)> = None;
    let end = |begun: &mut Option<(usize, String, String)>, at: usize, path: &mut String| {
        if let Some((from, top, bottom)) = begun.take() {
            let _ = write!(path, "M{:.1} {bottom}V{top}H{:.1}V{bottom}Z", x(from), x(at));
        }
    };
    for (bin, value) in layer.values.iter().enumerate() {
        let value = value.filter(|v| v.is_finite()).unwrap_or(0.0).max(0.0);
        let Some(sum) = below.get_mut(bin) else { continue };
        let bottom = format!("{:.1}", height(*sum, max));
        *sum += value;
        let top = format!("{:.1}", height(*sum, max));
        let is_same = begun.as_ref().is_some_and(|(_, t, b)| *t == top && *b == bottom);
        if is_same {
            continue;
        }
        end(&mut begun, bin, &mut path);
        if top != bottom {
            begun = Some((bin, top, bottom));
        }
    }
    end(&mut begun, layer.values.len(), &mut path);
    if !path.is_empty() {
        let _ = write!(body, "<path fill=\"{}\" d=\"{path}\"/>", layer.colour);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(values: &[f64], is_stacked: bool) -> Layer {
        Layer {
            name: "in <time>".to_owned(),
            colour: "#123456",
            values: values.iter().map(|v| Some(*v)).collect(),
            is_stacked,
        }
    }

    fn page(strip: Strip) -> String {
        let panel = Panel {
            id: "all".to_owned(),
            heading: "All".to_owned(),
            span_ms: (0, 1000),
            marked_ms: vec![(250, 500)],
            strips: vec![strip],
            ..Panel::default()
        };
        let page = StripPage {
            title: "A & B".to_owned(),
            diagnosis: vec!["CPU1: <script>".to_owned()],
            panels: vec![panel],
            ..StripPage::default()
        };
        page.html()
    }

    #[test]
    fn layers_stand_on_each_other_and_equal_bins_are_one_piece() {
        let layers =
            vec![layer(&[50.0, 50.0, 0.0, 0.0], false), layer(&[50.0, 0.0, 0.0, 0.0], true)];
        let html = page(Strip { layers, max: Some(100.0), ..Strip::default() });
        assert!(html.contains("d=\"M0.0 100.0V51.0H500.0V100.0Z\""), "{html}");
        assert!(html.contains("d=\"M0.0 51.0V2.0H250.0V51.0Z\""), "{html}");
        assert!(html.contains("<rect x=\"250.0\" y=\"0\" width=\"250.0\""), "{html}");
    }

    #[test]
    fn texts_are_escaped_and_nothing_is_loaded() {
        let html = page(Strip { layers: vec![layer(&[1.0], false)], ..Strip::default() });
        assert!(html.contains("A &amp; B") && html.contains("CPU1: &lt;script&gt;"), "{html}");
        assert!(html.contains("in &lt;time&gt;") && !html.contains("<script"), "{html}");
        assert!(!html.contains("http:") && !html.contains("https:") && !html.contains("url("));
    }

    #[test]
    fn what_is_not_measured_is_named() {
        let absent = Some("no instrument".to_owned());
        let html = page(Strip { caption: "Drops".to_owned(), absent, ..Strip::default() });
        assert!(html.contains("Drops: no instrument") && !html.contains("<svg"), "{html}");
    }

    #[test]
    fn values_that_are_no_numbers_draw_nothing() {
        let strip = Strip {
            layers: vec![layer(&[f64::NAN, f64::INFINITY, -1.0], false)],
            ..Strip::default()
        };
        let html = page(strip);
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
    }
}
