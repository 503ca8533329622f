//! Tables for people: plain columns under a line of names, numbers to the right.
//!
//! A table on a terminal is fitted to its width (long texts wrap); anywhere else a row is one line,
//! so that it can be searched and compared.

use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};
pub use gabion_record::thousands::thousands;

/// The alignment of the text of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// A table that is being filled.
#[derive(Debug)]
pub struct Table {
    grid: Grid,
    columns: usize,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING);
        grid.set_content_arrangement(ContentArrangement::Disabled);
        grid.set_header(columns.iter().map(|(name, _)| *name));
        for (at, (_, align)) in columns.iter().enumerate() {
            if let Some(column) = grid.column_mut(at) {
                let side = match align {
                    Align::Left => CellAlignment::Left,
                    Align::Right => CellAlignment::Right,
                };
                column.set_cell_alignment(side);
                column.set_padding((if at == 0 { 2 } else { 0 }, 2));
            }
        }
        Table { grid, columns: columns.len() }
    }

    /// Adds a row. What would break the table (line ends, control characters) is replaced.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let clean = |s: S| -> String {
            s.as_ref().chars().map(|c| if c.is_control() { '.' } else { c }).collect()
        };
        self.grid.add_row(cells.into_iter().take(self.columns).map(clean));
    }

    /// The table as text, each line ended. `width`: columns of the terminal, if it is one; it is fitted to those,
    /// and to no fewer than 60.
    pub fn render(mut self, width: Option<u16>) -> String {
        if let Some(width) = width {
            self.grid.set_width(width.max(COLUMNS_LEAST));
            self.grid.set_content_arrangement(ContentArrangement::Dynamic);
        }
        let mut text = String::new();
        for line in self.grid.to_string().lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Columns that every table has: with fewer, columns of numbers would be cut.
const COLUMNS_LEAST: u16 = 60;

/// Columns of the terminal that standard output is, if it is one and says so.
pub fn terminal_columns() -> Option<u16> {
    Grid::new().width().filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_are_whole() {
        let mut t = Table::new(&[("sid", Align::Right), ("message", Align::Left)]);
        t.row(["7", "a\nb"]);
        t.row(["1234", "longer text"]);
        assert_eq!(t.render(None), "   sid  message\n     7  a.b\n  1234  longer text\n");
    }

    /// A row of long texts and numbers, with a word that is longer than its column.
    #[test]
    fn tables_fit_into_sixty_columns_and_more() {
        let right = Align::Right;
        let columns = [
            ("alerts", right),
            ("sid", right),
            ("severity", right),
            ("action", Align::Left),
            ("message", Align::Left),
        ];
        for width in 60..=140 {
            let mut t = Table::new(&columns);
            t.row([
                "1,166,893",
                "4294967295",
                "1",
                "allowed",
                "ET INFO a name that nobody has room for in one line of a terminal",
            ]);
            t.row(["1", "2", "3", "drop", &"unbroken".repeat(30)]);
            let text = t.render(Some(width));
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(longest <= usize::from(width), "{width}: {longest}\n{text}");
            assert!(text.contains("1,166,893") && text.contains("4294967295"), "{width}:\n{text}");
        }
    }

    #[test]
    fn thousands_are_apart() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_166_893, "1,166,893")] {
            assert_eq!(thousands(n), text);
        }
    }
}
