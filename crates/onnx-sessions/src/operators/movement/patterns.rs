//! Patterns as RE2 reads them, in the words of Rust's patterns.

/// The pattern where digits, words and spaces are those of ASCII, and where brackets and doubled signs in a class of
/// characters stand for themselves.
pub(super) fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    // The number of characters of the class that is open.
    let mut in_class: Option<usize> = None;
    let mut last = ' ';
    while let Some(char) = chars.next() {
        let begins = in_class == Some(0);
        match (char, in_class) {
            ('\\', _) => match chars.next() {
                Some(escaped) => match ascii(escaped) {
                    Some(class) => out.push_str(class),
                    None => out.extend(['\\', escaped]),
                },
                None => out.push('\\'),
            },
            ('[', None) => {
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                in_class = Some(0);
                continue;
            }
            (']', Some(_)) if !begins => {
                out.push(']');
                in_class = None;
            }
            ('[', Some(_)) if chars.peek() == Some(&':') => {
                // A class with a name, such as `[:alpha:]`.
                out.push('[');
                for named in chars.by_ref() {
                    out.push(named);
                    if named == ']' {
                        break;
                    }
                }
            }
            ('[' | ']' | '&' | '~', Some(_)) => out.extend(['\\', char]),
            ('-', Some(_)) if last == '-' => out.push_str("\\-"),
            _ => out.push(char),
        }
        last = char;
        in_class = in_class.map(|count| count + 1);
    }
    out
}

/// What an escaped letter stands for where it means characters of ASCII.
fn ascii(escaped: char) -> Option<&'static str> {
    Some(match escaped {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'b' => "(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))",
        'B' => "(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))",
        _ => return None,
    })
}
