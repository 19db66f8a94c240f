//! What the runs of a point take from runs of other points with the same seed, and the order that follows from it.

use super::reader::Reader;
use lessen_base::{Error, Result};

/// What a point takes from other points.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Follows {
    /// The point whose network it has.
    pub architecture: Option<String>,
    /// The point whose network's cost is its limit.
    pub limit: Option<String>,
    /// Where no bits of its network have that cost, the share of the way from the least cost to the greatest one.
    pub share: Option<f64>,
    /// Whether it is there for those that follow it alone: its network is not trained, and it has no row.
    pub is_untrained: bool,
}

impl Follows {
    /// Reads the keys of a variant.
    ///
    /// # Errors
    /// A wrong value, a share without the point whose cost is wished.
    pub(super) fn read(table: &mut Reader<'_, '_>) -> Result<Follows> {
        let follows = Follows {
            architecture: table.text("architecture_of")?,
            limit: table.text("limit_of")?,
            share: table.number("share")?,
            is_untrained: !table.switch("trained")?.unwrap_or(true),
        };
        match follows.share {
            Some(share) if !(0.0..=1.0).contains(&share) => {
                Err(table.error(&format!("variant.share must be a number from 0 to 1, not {share}")))
            }
            Some(_) if follows.limit.is_none() => {
                Err(table.error("variant.share is of variant.limit_of, which is missing; name a point there"))
            }
            _ => Ok(follows),
        }
    }

    /// The points from which it takes something.
    pub(super) fn points(&self) -> impl Iterator<Item = &str> {
        self.architecture.as_deref().into_iter().chain(self.limit.as_deref())
    }
}

/// The numbers of points, each after those that it follows.
///
/// # Errors
/// A point that there is not; points that follow each other.
pub(super) fn order(points: &[(&str, &Follows)]) -> Result<Vec<usize>> {
    for (name, follows) in points {
        if let Some(other) = follows
            .points()
            .find(|other| points.iter().all(|(own, _)| own != other))
        {
            return Err(Error::user(format!(
                "the point '{name}' follows '{other}', and there is no such point; name one that there is"
            )));
        }
    }
    let (mut order, mut left): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..points.len()).collect());
    while !left.is_empty() {
        let is_left = |name: &str| left.iter().any(|&own| points[own].0 == name);
        let follows_one = |own: &usize| points[*own].1.points().any(is_left);
        let (after, ready): (Vec<usize>, Vec<usize>) = left.iter().copied().partition(follows_one);
        if ready.is_empty() {
            let names: Vec<&str> = after.iter().map(|&own| points[own].0).collect();
            return Err(Error::user(format!(
                "the points '{}' follow each other in a circle; let one of them have an architecture or a limit of its own",
                names.join("', '")
            )));
        }
        order.extend(ready);
        left = after;
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(name: &str) -> Follows {
        Follows {
            limit: (!name.is_empty()).then(|| name.to_string()),
            ..Follows::default()
        }
    }

    #[test]
    fn points_are_after_those_that_they_follow() {
        let [none, first, last] = ["", "first", "last"].map(after);
        let found = order(&[("then", &first), ("first", &last), ("other", &none), ("last", &none)]);
        assert_eq!(found.unwrap(), [2, 3, 1, 0]);
        let circle = order(&[("last", &first), ("first", &last), ("other", &none)]);
        assert_eq!(
            circle.unwrap_err().to_string(),
            "the points 'last', 'first' follow each other in a circle; let one of them have an architecture or a limit of \
             its own"
        );
        assert!(
            order(&[("a", &first)])
                .unwrap_err()
                .to_string()
                .contains("no such point")
        );
    }
}
