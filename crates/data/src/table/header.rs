//! Whether the first line of a table names its columns.

use crate::cell_values::number;
use crate::columns::Columns;
use std::path::Path;

/// Lines after the first one that are looked at.
pub(crate) const SAMPLE: usize = 200;

/// Whether the first line names columns, in a file that goes on with these lines. `wanted` are names that are looked
/// for.
///
/// It does where it has the wanted names, or usual names of a text and a label; where a column of numbers begins with a
/// word; and where it has words alone, of which none comes again as a value of its column.
pub(crate) fn is_header(first: &[String], sample: &[Vec<String>], wanted: &[&str]) -> bool {
    let has = |name: &&str| first.iter().any(|cell| cell.trim() == *name);
    let is_number_of_column = |name: &&str| name.parse().is_ok_and(|number: usize| number > 0);
    if !wanted.is_empty() && wanted.iter().all(has) && !wanted.iter().all(is_number_of_column) {
        return true;
    }
    // Columns that are called by numbers have no names, unless the first line counts them.
    if !wanted.is_empty() && wanted.iter().all(is_number_of_column) && !wanted.iter().all(has) {
        return false;
    }
    if Columns::default().named(Path::new(""), 1, first, true).is_ok() {
        return true;
    }
    let column = |at: usize| sample.iter().filter_map(move |row| row.get(at)).map(|cell| cell.trim());
    let are_numbers = |at: usize| {
        let mut cells = column(at)
            .filter(|cell| !crate::cell_values::is_missing(cell))
            .peekable();
        cells.peek().is_some() && cells.all(|cell| number(cell).is_some())
    };
    let is_word = |at: usize| number(&first[at]).is_none() && !first[at].trim().is_empty();
    if (0..first.len()).any(|at| is_word(at) && are_numbers(at)) {
        return true;
    }
    if first.iter().any(|cell| number(cell).is_some()) {
        return are_counted(first);
    }
    let comes_again = |at: usize| column(at).any(|cell| cell == first[at].trim());
    let are_different = (0..first.len()).all(|at| !first[..at].contains(&first[at]));
    are_different && !(0..first.len()).any(comes_again)
}

/// Whether cells are the numbers from 0 or 1 on, as pandas names columns without names, apart from empty cells.
fn are_counted(cells: &[String]) -> bool {
    let own: Vec<&str> = cells
        .iter()
        .map(|cell| cell.trim())
        .filter(|cell| !cell.is_empty())
        .collect();
    let from = |start: usize| {
        own.iter()
            .enumerate()
            .all(|(at, cell)| *cell == (start + at).to_string())
    };
    own.len() > 2 && (from(0) || from(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(first: &str, sample: &[&str]) -> bool {
        let cells = |line: &str| line.split(',').map(str::to_string).collect::<Vec<String>>();
        let sample: Vec<Vec<String>> = sample.iter().map(|line| cells(line)).collect();
        is_header(&cells(first), &sample, &[])
    }

    #[test]
    fn names_are_told_from_values() {
        assert!(found("age,city", &["3,Rome", "4,Oslo"]));
        assert!(found("city,colour", &["Rome,red", "Oslo,red"]));
        assert!(found("text,label", &["text,label"]));
        assert!(found("0,1,2,3", &["5,1,4,9", "0,1,7,7"]));
        assert!(found(",a,2019", &["0,1,4", "1,1,7"]));
        assert!(!found("Rome,red", &["Oslo,red", "Rome,blue"]));
        assert!(!found("3,Rome", &["4,Oslo"]));
        assert!(!found("1.5,2.5", &["3,4"]));
        assert!(!found("a,a", &["b,c"]));
        let cells = |cells: &[&str]| cells.iter().map(|cell| cell.to_string()).collect::<Vec<_>>();
        assert!(is_header(&cells(&["Oslo", "red"]), &[], &["red", "Oslo"]));
        // A wanted number may be a value.
        assert!(!is_header(&cells(&["1.5", "2"]), &[cells(&["3.5", "1"])], &["2"]));
        assert!(!is_header(&cells(&["Oslo", "red"]), &[], &["1", "2"]));
        assert!(is_header(
            &cells(&["1", "2", "3"]),
            &[cells(&["5", "6", "7"])],
            &["1", "2"]
        ));
    }
}
