//! What is tried for data: its recipes, and the reasons.

use super::choice::{Choice, Plan};
use super::draft::Recipe;
use super::facts::{Facts, Kind};
use super::request::ChoiceRequest;
use super::{images, tables, tags, text_alone, texts};
use lessen_base::Result;
use lessen_data::look::Look;

/// Rows that are enough to tell models apart by a point.
const ENOUGH_HELD_OUT: usize = 5000;

/// The plan for data that was looked at.
///
/// # Errors
/// A folder to start from that cannot be read, or has no model for the data.
pub(super) fn plan_of(look: &Look, request: &ChoiceRequest<'_>) -> Result<Plan> {
    let facts = Facts::of(look)?;
    let mut recipe = Recipe::new(&facts, request)?;
    let mut plan = Plan::default();
    plan.choices.push(hold_out(&mut recipe, &facts));
    match facts.kind {
        Kind::Texts(answer) => texts::plan(&mut plan, &mut recipe, &facts, answer, request)?,
        Kind::Tags => tags::plan(&mut plan, &mut recipe, &facts, request)?,
        Kind::TextAlone => text_alone::plan(&mut plan, &mut recipe, &facts, request)?,
        Kind::Table(answer) => tables::plan(&mut plan, &mut recipe, &facts, answer)?,
        Kind::Images => images::plan(&mut plan, &mut recipe, &facts, request)?,
    }
    Ok(plan)
}

/// Chooses the examples that are held out.
fn hold_out(recipe: &mut Recipe, facts: &Facts) -> Choice {
    if facts.has_dev {
        return Choice::new("validation", "the data's own", "it has a split for that", "data.dev");
    }
    let share = match facts.rows {
        0..1000 => 0.2,
        rows if rows > 10 * ENOUGH_HELD_OUT => ENOUGH_HELD_OUT as f64 / rows as f64,
        _ => 0.1,
    };
    recipe.set("data.held_out", format!("{share:?}"));
    let (value, why) = (
        format!("{:.1} % of the rows", 100.0 * share),
        "of each class its share".to_string(),
    );
    Choice::new("validation", value, why, "data.held_out")
}
