//! Budgets of memory as people write them: a size, a share of the memory that this process can have, or `auto`.

use crate::error::{Error, Result};
use crate::machine;
use crate::size::parse_size;

/// The bytes of a budget: of a size such as `512M`; of a share such as `80%` of the limit of this process's control
/// group or, without one, of the machine's memory; of `auto`, which is that limit or, without one, the memory that the
/// machine has available.
///
/// # Errors
/// Another text, and a share or `auto` where the system does not tell its memory.
pub fn parse_budget(text: &str) -> Result<usize> {
    parse(text, &Machine::of_this_process())
}

/// The memory that budgets are taken from, in bytes, as far as the system tells it.
struct Machine {
    /// The limit of the control groups.
    limit: Option<usize>,
    /// The limit, or else the machine's memory.
    whole: Option<usize>,
    available: Option<usize>,
}

impl Machine {
    fn of_this_process() -> Machine {
        Machine {
            limit: machine::limit_of_groups(),
            whole: machine::whole_bytes(),
            available: machine::available_bytes(),
        }
    }
}

fn parse(text: &str, machine: &Machine) -> Result<usize> {
    let trimmed = text.trim();
    let untold = || {
        Error::user(format!(
            "'{text}' cannot be, since this system does not tell its memory; write a number and a unit, such as 512M or \
             2G"
        ))
    };
    if trimmed.eq_ignore_ascii_case("auto") {
        return machine.limit.or(machine.available).ok_or_else(untold);
    }
    let Some(percent) = trimmed.strip_suffix('%') else {
        return parse_size(text);
    };
    match percent.trim_end().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => {
            let whole = machine.whole.ok_or_else(untold)?;
            Ok((whole as f64 * (percent / 100.0)) as usize)
        }
        _ => Err(Error::user(format!(
            "'{text}' is no share of the memory; write a number above 0 and at most 100, such as 80%"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Machine = Machine {
        limit: None,
        whole: Some(16 << 30),
        available: Some(10 << 30),
    };

    const LIMITED: Machine = Machine {
        limit: Some(4 << 30),
        whole: Some(4 << 30),
        available: Some(3 << 30),
    };

    const UNTOLD: Machine = Machine {
        limit: None,
        whole: None,
        available: None,
    };

    #[test]
    fn a_budget_is_a_size_a_share_or_the_limit() {
        for (text, free, limited) in [
            ("512M", 512 << 20, 512 << 20),
            ("1.5GB", 1_500_000_000, 1_500_000_000),
            ("auto", 10 << 30, 4 << 30),
            (" Auto ", 10 << 30, 4 << 30),
            ("50%", 8 << 30, 2 << 30),
            ("12.5 %", 2 << 30, 1 << 29),
            ("100%", 16 << 30, 4 << 30),
        ] {
            assert_eq!(parse(text, &FREE), Ok(free), "{text}");
            assert_eq!(parse(text, &LIMITED), Ok(limited), "{text}");
        }
        assert_eq!(parse("512M", &UNTOLD), Ok(512 << 20));
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for text in ["0%", "101%", "-5%", "%", "nan%", "automatic", "80 per cent", ""] {
            let error = parse(text, &FREE).unwrap_err();
            assert!(error.to_string().starts_with(&format!("'{text}' is no ")), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
        for text in ["80%", "auto"] {
            let error = parse(text, &UNTOLD).unwrap_err().to_string();
            assert!(error.contains("does not tell its memory"), "{error}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_system_tells_its_memory() {
        let (half, whole) = (parse_budget("50%").unwrap(), parse_budget("100%").unwrap());
        assert!(half > 0 && whole.abs_diff(2 * half) <= 1, "{half} of {whole}");
        assert!(parse_budget("auto").unwrap() <= whole);
    }
}
