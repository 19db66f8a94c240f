//! The estimated time of a step, from the device's rates or from times measured on this machine.

/// Milliseconds in words, with three digits: `0.123 ms`, `48.6 ms`, `1290 ms`.
pub(super) fn show_ms(ms: f64) -> String {
    let digits = match ms {
        ms if ms < 0.9995 => 3,
        ms if ms < 9.995 => 2,
        ms if ms < 99.95 => 1,
        _ => 0,
    };
    format!("{ms:.digits$} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_three_digits() {
        let shown = [0.0, 0.12345, 0.9999, 4.567, 9.999, 48.62, 99.97, 1290.4].map(show_ms);
        let expected = [
            "0.000 ms", "0.123 ms", "1.00 ms", "4.57 ms", "10.0 ms", "48.6 ms", "100 ms", "1290 ms",
        ];
        assert_eq!(shown, expected);
    }
}
