//! A compiled template in which every value that an operation makes is checked, before anything else reads it.

use minijinja::machinery::{CodeGenerator, Instruction, Instructions, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

/// The function that checks the result of an operation. No template can call it by this name.
pub(super) const CHECK: &str = "\0check";

/// The function that checks what is to be an attribute of a namespace.
pub(super) const CHECK_ATTRIBUTE: &str = "\0check_attribute";

/// The function that checks a namespace which is used as a whole.
pub(super) const CHECK_NAMESPACE: &str = "\0check_namespace";

/// Compiles a template.
///
/// # Errors
/// A template that is no Jinja.
pub(super) fn compiled<'a>(source: &'a str, syntax: &SyntaxConfig) -> Result<Instructions<'a>, Error> {
    let tree = parse(source, "<template>", syntax.clone())?;
    let mut generator = CodeGenerator::new("<template>", source);
    generator.compile_stmt(&tree);
    with_checks(&generator.finish().0, source)
}

/// The same instructions with checks between them.
fn with_checks<'a>(old: &Instructions<'a>, source: &'a str) -> Result<Instructions<'a>, Error> {
    let all: Vec<&Instruction<'a>> = (0..).map_while(|place| old.get(place)).collect();
    let is_set = |place: usize| matches!(all.get(place + 1), Some(Instruction::SetAttr(_)));
    // The namespace of an attribute is looked up after the value.
    let before = |place: usize| is_set(place).then_some(CHECK_ATTRIBUTE);
    let is_read = |place: usize| {
        matches!(
            all.get(place + 1),
            Some(Instruction::GetAttr(_) | Instruction::SetAttr(_))
        )
    };
    let after = |place: usize| match all[place] {
        Instruction::Lookup(_) if !is_read(place) => Some(CHECK_NAMESPACE),
        own if makes(own) => Some(CHECK),
        _ => None,
    };
    let mut places = Vec::with_capacity(all.len() + 1);
    let mut next = 0;
    for place in 0..all.len() {
        places.push(next);
        let checks = before(place).iter().len() + after(place).iter().len();
        next += 1 + SIZE * checks as u32;
    }
    places.push(next);
    let mut new = Instructions::new("<template>", source);
    for (place, instruction) in all.iter().enumerate() {
        let line = old
            .get_line(place as u32)
            .and_then(|line| u16::try_from(line).ok())
            .unwrap_or(0);
        if is_set(place) && !matches!(instruction, Instruction::Lookup(_)) {
            return Err(Error::new(
                ErrorKind::SyntaxError,
                "an attribute can be set of a namespace that has a name of its own",
            ));
        }
        if let Some(check) = before(place) {
            add_check(&mut new, check, line);
        }
        new.add_with_line(moved(instruction, &places), line);
        if let Some(check) = after(place) {
            add_check(&mut new, check, line);
        }
    }
    Ok(new)
}

/// Instructions of a check.
const SIZE: u32 = 3;

/// Adds the check of the topmost value, which stays.
fn add_check(new: &mut Instructions<'_>, check: &'static str, line: u16) {
    new.add_with_line(Instruction::DupTop, line);
    new.add_with_line(Instruction::CallFunction(check, Some(1)), line);
    new.add_with_line(Instruction::DiscardTop, line);
}

/// Whether an instruction makes a value that may be larger or deeper than those that it reads.
fn makes(instruction: &Instruction<'_>) -> bool {
    use Instruction::*;
    matches!(
        instruction,
        BuildMap(_)
            | BuildList(_)
            | BuildTuple(_)
            | Add
            | Mul
            | ApplyFilter(..)
            | CallFunction(..)
            | CallMethod(..)
            | CallObject(_)
    )
}

/// An instruction whose target is where it has moved to.
fn moved<'a>(instruction: &Instruction<'a>, places: &[u32]) -> Instruction<'a> {
    use Instruction::*;
    let to = |place: &u32| places[*place as usize];
    match instruction {
        Iterate(place) => Iterate(to(place)),
        Jump(place) => Jump(to(place)),
        JumpIfFalse(place) => JumpIfFalse(to(place)),
        JumpIfFalseOrPop(place) => JumpIfFalseOrPop(to(place)),
        JumpIfTrueOrPop(place) => JumpIfTrueOrPop(to(place)),
        BuildMacro(name, place, flags) => BuildMacro(name, to(place), *flags),
        other => other.clone(),
    }
}
