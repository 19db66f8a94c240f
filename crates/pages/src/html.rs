//! Pieces of HTML: texts, tables, numbers as people read them.

use crate::plot::escaped;

/// A number with three digits: `0.12`, `1235`, `2.14`.
pub fn rough(value: f64) -> String {
    let power = 10f64.powi(2 - value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32);
    number(if value.abs() < 1000.0 && power.is_finite() {
        (value * power).round() / power
    } else {
        value.round()
    })
}

/// A number with five digits: `0.12346`, `1234.6`, `1.2346e-7`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value != 0.0 && !(1e-4..1e7).contains(&size) {
        let text = format!("{value:.4e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", trimmed(digits));
    }
    let power = if value == 0.0 { 0 } else { size.log10().floor() as i32 };
    let digits = usize::try_from(4 - power).unwrap_or(0);
    let text = format!("{value:.digits$}");
    trimmed(&text).to_string()
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

/// A table that can be scrolled where it is too wide: a heading for each row and for each column of cells, and in the
/// `corner` what the rows are, of texts.
pub fn table(caption: &str, corner: &str, heads: &[String], rows: &[(String, Vec<String>)]) -> String {
    let cell = |text: &String| format!("<td>{}</td>", escaped(text));
    let head = |text: &str| format!("<th scope=\"col\">{}</th>", escaped(text));
    let row = |(name, cells): &(String, Vec<String>)| {
        let cells: String = cells.iter().map(cell).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escaped(name))
    };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption>\n\
         <thead><tr>{1}{2}</tr></thead>\n<tbody>\n{3}</tbody></table></div>\n",
        escaped(caption),
        head(corner),
        heads.iter().map(|text| head(text)).collect::<String>(),
        rows.iter().map(row).collect::<String>()
    )
}

/// A remark.
pub fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>\n", escaped(text))
}

/// Something that is folded away.
pub fn folded(summary: &str, inside: &str) -> String {
    format!("<details><summary>{}</summary>\n{inside}</details>\n", escaped(summary))
}

/// A section of the page with its heading; nothing where there is nothing to show.
pub fn section(id: &str, title: &str, inside: &str) -> String {
    if inside.is_empty() {
        return String::new();
    }
    format!(
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n{inside}</section>\n",
        escaped(title)
    )
}

/// Figures beside each other; nothing where there are none.
pub fn grid(figures: &str) -> String {
    if figures.is_empty() {
        String::new()
    } else {
        format!("<div class=\"figures\">\n{figures}</div>\n")
    }
}

/// A self-contained page: the name of its type, its title, notes at its top, and its sections.
pub fn document(kind: &str, title: &str, notes: &[String], sections: &str) -> String {
    let notes: String = notes
        .iter()
        .map(|note| format!("<li>{}</li>\n", escaped(note)))
        .collect();
    let notes = if notes.is_empty() {
        notes
    } else {
        format!("<ul class=\"problems\" aria-label=\"Notes\">\n{notes}</ul>\n")
    };
    let parts = [
        ("{{title}}", escaped(title)),
        ("{{version}}", env!("CARGO_PKG_VERSION").to_string()),
        ("{{style}}", include_str!("page.css").to_string()),
        ("{{kind}}", escaped(kind)),
        ("{{heading}}", escaped(title)),
        ("{{problems}}", notes),
        ("{{sections}}", sections.to_string()),
        ("{{script}}", include_str!("page.js").to_string()),
    ];
    // Each place is searched for after the one before, so that the text of a part is not mistaken for a place.
    let (mut html, mut rest) = (String::new(), include_str!("page.html"));
    for (place, part) in parts {
        if let Some((before, after)) = rest.split_once(place) {
            html += before;
            html += &part;
            rest = after;
        }
    }
    html + rest
}

/// JSON that may stand within a script element: no end of the element can be in it.
pub(crate) fn script_json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_digits() {
        let shown = [
            0.0, 1.0, 0.123456, 1234.56, 123456.7, -2.5, 1.5e-7, 0.00012345, 2e9, 9.99999,
        ]
        .map(number);
        assert_eq!(
            shown,
            [
                "0",
                "1",
                "0.12346",
                "1234.6",
                "123457",
                "-2.5",
                "1.5e-7",
                "0.00012345",
                "2e9",
                "10"
            ]
        );
    }

    #[test]
    fn rough_numbers_have_three_digits() {
        let shown = [0.0, 2.13674, 0.0123456, 12.345, 999.6, 54_996.3].map(rough);
        assert_eq!(shown, ["0", "2.14", "0.0123", "12.3", "1000", "54996"]);
    }

    #[test]
    fn texts_cannot_break_out() {
        let heads = ["<b>".to_string()];
        let found = table("\"a\"", "<c>", &heads, &[("r&".to_string(), vec!["</td>".to_string()])]);
        assert!(
            found.contains("<tr><th scope=\"col\">&lt;c&gt;</th><th scope=\"col\">&lt;b&gt;</th></tr>")
                && found.contains("&lt;/td&gt;")
                && found.contains("aria-label=\"&quot;a")
        );
        let json = script_json(&serde_json::json!("</script><script>alert(1)</script>"));
        assert!(!json.contains('<'), "{json}");
    }
}
