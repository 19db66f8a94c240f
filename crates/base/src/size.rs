//! Sizes in bytes as people write them: `512MiB`, `2G`, `1.5GB`.

use crate::error::{Error, Result};

/// Units, each before the units that end like it. Single letters are binary, as in the limits of containers.
const UNITS: [(&str, f64); 13] = [
    ("KiB", 1024.0),
    ("MiB", 1024.0 * 1024.0),
    ("GiB", 1024.0 * 1024.0 * 1024.0),
    ("TiB", 1024.0 * 1024.0 * 1024.0 * 1024.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("B", 1.0),
    ("K", 1024.0),
    ("M", 1024.0 * 1024.0),
    ("G", 1024.0 * 1024.0 * 1024.0),
    ("T", 1024.0 * 1024.0 * 1024.0 * 1024.0),
];

/// The bytes of a size such as `512MiB`.
///
/// # Errors
/// A text that is no positive number followed by one of the units.
pub fn parse_size(text: &str) -> Result<usize> {
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    let unit = UNITS
        .iter()
        .find(|(unit, _)| lower.ends_with(&unit.to_ascii_lowercase()));
    let (number, factor) = match unit {
        Some((unit, factor)) => (&trimmed[..trimmed.len() - unit.len()], *factor),
        None if trimmed
            .parse::<f64>()
            .is_ok_and(|number| number > 0.0 && number.is_finite()) =>
        {
            return Err(Error::user(format!(
                "'{text}' has no unit; write {trimmed}MiB or {trimmed}GiB, or {trimmed}B for bytes"
            )));
        }
        None => (trimmed, 1.0),
    };
    let bytes = number.trim().parse::<f64>().map(|number| (number * factor).round());
    match bytes {
        Ok(bytes) if bytes >= 1.0 && bytes < usize::MAX as f64 => Ok(bytes as usize),
        _ => Err(Error::user(format!(
            "'{text}' is no size; write a number and a unit, such as 512MiB or 2GiB"
        ))),
    }
}

/// A size for people: three digits and the unit that fits.
pub fn show_size(bytes: usize) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1023.5 {
            let digits = if unit == "B" || value >= 99.95 { 0 } else { 1 };
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("512MiB", 512 << 20),
            ("2GiB", 2 << 30),
            ("1.5 kib", 1536),
            ("3GB", 3_000_000_000),
            ("100 B", 100),
            ("7B", 7),
            ("1G", 1 << 30),
            ("512M", 512 << 20),
            ("1.5g", 3 << 29),
            ("64 k", 64 << 10),
            ("2T", 2 << 40),
            ("1.5GB", 1_500_000_000),
            ("0.5GiB", 1 << 29),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for text in [
            "",
            "MiB",
            "-1GiB",
            "0",
            "nan",
            "inf",
            "12 apples",
            "1e400",
            "G",
            "0G",
            "1GG",
            "1 Gi",
            "nanG",
            "-5M",
        ] {
            let error = parse_size(text).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("'{text}' is no size")),
                "{error}"
            );
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn a_number_without_unit_is_refused_with_the_units() {
        for text in ["40", " 1.5 "] {
            let (sentence, number) = (parse_size(text).unwrap_err().to_string(), text.trim());
            assert_eq!(
                sentence,
                format!("'{text}' has no unit; write {number}MiB or {number}GiB, or {number}B for bytes")
            );
        }
    }

    #[test]
    fn sizes_are_shown_with_the_unit_that_fits() {
        assert_eq!(show_size(0), "0 B");
        assert_eq!(show_size(1023), "1023 B");
        assert_eq!(show_size(1536), "1.5 KiB");
        assert_eq!(show_size(512 << 20), "512 MiB");
        assert_eq!(show_size(10 << 30), "10.0 GiB");
    }
}
