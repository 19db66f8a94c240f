//! The way of a run through sections: alternatives that are right for its values, or new ones.

use lessen_base::Result;
use lessen_device::Backend;
use lessen_graph::Trace;

use super::builder::Builder;
use super::interpreter::Interpreter;
use super::program::{Part, Program};
use super::scope::Scope;
use super::section::{Alternative, Item, MOST_ALTERNATIVES, Section};

/// Goes from a section to the end of its graph; the values that are wanted are defined then.
///
/// # Errors
/// A node that cannot be run, with its name; memory that the device does not have.
pub(super) fn follow<B: Backend + ?Sized>(
    interpreter: &Interpreter<'_, B>,
    first: &mut Section,
    scope: &Scope<'_>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<()> {
    let mut section = first;
    loop {
        let mut found = None;
        for (number, alternative) in section.alternatives.iter().enumerate() {
            if alternative.again(interpreter, scope)? {
                found = Some(number);
                break;
            }
        }
        match found {
            Some(number) => section.alternatives[..=number].rotate_right(1),
            None => {
                let alternative = built(interpreter, section, scope, is_wanted)?;
                section.alternatives.insert(0, alternative);
            }
        }
        if section.alternatives.len() > MOST_ALTERNATIVES
            && let Some(last) = section.alternatives.pop()
        {
            last.unload(&mut **interpreter.device.borrow_mut());
        }
        match section
            .alternatives
            .first_mut()
            .and_then(|alternative| alternative.next.as_mut())
        {
            Some(next) => section = next,
            None => return Ok(()),
        }
    }
}

/// Builds an alternative of a section, which is done thereby.
fn built<B: Backend + ?Sized>(
    interpreter: &Interpreter<'_, B>,
    section: &Section,
    scope: &Scope<'_>,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Alternative> {
    let trace = Trace::new();
    let builder = Builder::new(interpreter, scope, section.unsteady.clone(), *trace);
    let built = builder.build(&section.nodes, is_wanted)?;
    let mut program = None;
    if !built.outputs.is_empty() {
        let part = Part {
            graph: trace.finish(),
            constants: built.constants,
            states: built.states,
            outputs: built.outputs,
        };
        let backend = &mut **interpreter.device.borrow_mut();
        let (loaded, time) = Program::load(backend, interpreter.model, part)?;
        interpreter.compile_time.set(interpreter.compile_time.get() + time);
        let ran = loaded.run(backend, scope);
        if let Err(error) = ran {
            loaded.unload(backend);
            return Err(error);
        }
        program = Some(loaded);
    }
    let later = built.items.iter().filter_map(|item| match item {
        Item::Node(node) => Some(node),
        Item::Decision(..) => None,
    });
    let is_read = |name: &String| {
        let mut later = built.rest.iter().chain(later.clone());
        is_wanted(name) || later.any(|node| node.reads().any(|read| read == name))
    };
    let mut fixed = Vec::new();
    for name in built.fixed.iter().filter(|name| is_read(name)) {
        fixed.push((name.clone(), scope.get(name)?));
    }
    let next = (!built.rest.is_empty()).then(|| Box::new(Section::new(built.rest, built.unsteady)));
    Ok(Alternative {
        items: built.items,
        guards: built.guards,
        program,
        fixed,
        next,
    })
}
