//! A table with aligned columns.

use std::io::{self, Write};

/// Prints `rows` under `head`, each column as wide as its widest cell; an empty cell is `-`.
pub(crate) fn print<const N: usize>(
    out: &mut dyn Write,
    head: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    line(out, &head.map(str::to_owned), &widths(head, rows))?;
    print_rows(out, head, rows)
}

/// Prints further rows of a table, without its head.
pub(crate) fn print_rows<const N: usize>(
    out: &mut dyn Write,
    head: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let widths = widths(head, rows);
    rows.iter().try_for_each(|row| line(out, row, &widths))
}

fn widths<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> [usize; N] {
    let mut widths = head.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    widths
}

fn line(out: &mut dyn Write, cells: &[String], widths: &[usize]) -> io::Result<()> {
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let cell = if cell.is_empty() { "-" } else { cell };
        text.push_str(&format!("{cell:width$}  "));
    }
    writeln!(out, "{}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut out = Vec::new();
        let rows = [["a".into(), "long cell".into(), "x".into()], ["".into(), "b".into(), "".into()]];
        print(&mut out, ["ONE", "TWO", "THREE"], &rows).unwrap();
        let expected = "ONE  TWO        THREE\na    long cell  x\n-    b          -\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
