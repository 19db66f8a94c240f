//! A table of text with columns of even width.

/// Rows with their cells under each other. Columns of `words` begin at the left, those of numbers end at the right.
pub(super) fn text_table(rows: &[Vec<String>], words: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cell = |(column, cell): (usize, &String)| {
            let room = widths[column];
            match words.contains(&column) {
                true => format!("{cell:room$}"),
                false => format!("{cell:>room$}"),
            }
        };
        let line: Vec<String> = row.iter().enumerate().map(cell).collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}
