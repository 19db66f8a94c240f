//! The text form: print and parse are each other's inverse, and parse names the mistake and its line.

use std::collections::BTreeSet;
use std::sync::Arc;

use lessen_graph::{Attr, Attrs, DType, Op, Phase, Registry, Trace, Type, parse, print, verify};

use crate::cases::cases;

#[test]
fn a_graph_with_every_operation_survives() {
    let trace = Trace::new();
    let mut names = BTreeSet::new();
    for (n, case) in cases(31).iter().enumerate() {
        names.insert(case.op.name());
        let declare = |(i, a): (usize, &lessen_graph::Array)| trace.input(&format!("{n}.{i}"), a.ty.dtype, &a.ty.shape);
        let inputs: Vec<_> = case.inputs.iter().enumerate().map(declare).collect();
        let outputs = trace.in_scope("h.0", || {
            trace.in_phase([Phase::Forward, Phase::Backward, Phase::Update][n % 3], || {
                trace.apply_shared(case.op.clone(), &inputs)
            })
        });
        outputs
            .iter()
            .enumerate()
            .for_each(|(k, y)| trace.output(&format!("{n}:{k}"), *y));
    }
    assert!(
        names.iter().copied().eq(Registry::with_collectives().names()),
        "a case is missing: {names:?}"
    );
    let graph = trace.finish();
    let text = print(&graph);
    let parsed = parse(&text, &Registry::with_collectives()).unwrap();
    verify(&parsed).unwrap();
    assert_eq!(print(&parsed), text);
    for (a, b) in graph.nodes.iter().zip(&parsed.nodes) {
        assert_eq!((a.op.name(), a.op.attrs()), (b.op.name(), b.op.attrs()));
        assert_eq!(
            (&a.inputs, &a.outputs, a.phase, &a.scope),
            (&b.inputs, &b.outputs, b.phase, &b.scope)
        );
    }
}

#[test]
fn reads_as_documented() {
    let trace = Trace::new();
    let x = trace.input("x", DType::F32, &[2, 4, 8]);
    let [gamma, beta] = ["gamma", "beta"].map(|name| trace.state(name, DType::F32, &[8]));
    let y = trace.in_scope("h", || trace.in_scope("0", || x.layer_norm(gamma, beta, 1e-5)));
    let loss = y.sum();
    let gradient = loss.grad(&[gamma])[0];
    trace.output("the \"loss\"", loss);
    trace.assign(gamma, gradient);
    let text = print(&trace.finish());
    let expected = "\
input \"x\" %0 : f32[2,4,8]
state \"gamma\" %1 : f32[8]
state \"beta\" %2 : f32[8]
%3, %4, %5 = layer_norm(%0, %1, %2) {eps=1e-5} @h.0 : f32[2,4,8], f32[2,4], f32[2,4]
%6 = reduce(%3) {f=sum, axes=[0,1,2]} : f32[]
backward:
%7 = full() {dtype=f32, shape=[], value=1.0} : f32[]
%8 = reshape(%7) {shape=[1,1,1]} : f32[1,1,1]
%9 = broadcast(%8) {shape=[2,4,8]} : f32[2,4,8]
%10, %11, %12 = layer_norm_backward(%0, %1, %4, %5, %9) {eps=1e-5} @h.0 : f32[2,4,8], f32[8], f32[8]
output \"the \\\"loss\\\"\" = %6
assign %1 = %11
";
    assert_eq!(text, expected);
    assert_eq!(print(&parse(&text, &Registry::standard()).unwrap()), text);
}

#[test]
fn comments_gaps_and_any_numbering_are_read() {
    let text = "
# values keep their order, not their numbers
input \"x\"  %10 : f32[2]
state \"odd \\\\ \\n name\" %3:f32[ 2 ]

update:
%7=relu( %10 ) @\"a scope: with blanks\" :f32[2]
assign %3 = %7
";
    let expected = "\
input \"x\" %2 : f32[2]
state \"odd \\\\ \\n name\" %0 : f32[2]
update:
%1 = relu(%2) @\"a scope: with blanks\" : f32[2]
assign %0 = %1
";
    let graph = parse(text, &Registry::standard()).unwrap();
    verify(&graph).unwrap();
    assert_eq!(print(&graph), expected);
    assert_eq!(print(&parse(expected, &Registry::standard()).unwrap()), expected);
}

#[test]
fn errors_name_the_line() {
    let start = "input \"x\" %0 : f32[2,3]\n";
    for (line, error) in [
        ("%1 = relu(%2) : f32[2,3]", "%2 is not defined yet"),
        ("%1 = rely(%0) : f32[2,3]", "there is no operation `rely`"),
        (
            "%1 = relu(%0) {slope=1.0} : f32[2,3]",
            "relu: there is no attribute `slope`",
        ),
        ("%1 = elu(%0) : f32[2,3]", "elu: attribute `alpha` must be a number"),
        (
            "%1 = elu(%0) {alpha=x} : f32[2,3]",
            "elu: attribute `alpha` must be a number",
        ),
        (
            "%1 = unary(%0) {f=cosh} : f32[2,3]",
            "unary: there is no function `cosh`",
        ),
        (
            "%1 = cast(%0) {dtype=f16} : f32[2,3]",
            "cast: attribute `dtype`: there is no dtype `f16`",
        ),
        ("%1 = relu(%0, %0) : f32[2,3]", "relu: needs 1 inputs, not 2"),
        (
            "%1 = relu(%0) : f32[3,2]",
            "relu gives [f32[2,3]], the text says [f32[3,2]] for 1 values",
        ),
        (
            "%1, %2 = relu(%0) : f32[2,3]",
            "relu gives [f32[2,3]], the text says [f32[2,3]] for 2 values",
        ),
        ("%0 = relu(%0) : f32[2,3]", "%0 is defined twice"),
        ("%1 = relu(%0)", "`:` is missing at the end"),
        ("%1 = relu(%0 : f32[2,3]", "expected `,` at `: f32[2,3]`"),
        ("%1 = relu(%0) : f32[2,3] !", "expected the end of the line at `!`"),
        (
            "%x = relu(%0) : f32[2,3]",
            "expected the number of a value at `x = relu(%0) : f32[2,3]`",
        ),
        ("input \"y %1 : f32[2]", "the closing `\"` is missing"),
        ("input \"y\" %1 : f31[2]", "there is no dtype `f31`"),
        ("input \"y\" %1 : f32[2", "expected `,` is missing at the end"),
        (
            "input \"y\" %1 : f32[99999999999,99999999999]",
            "the type f32[99999999999,99999999999] is too large",
        ),
        (
            "result \"y\" = %0",
            "`result` begins no line: input, state, output, assign or %",
        ),
        (
            "%1 = slice(%0) {axis=0, start=1, len=2} : f32[2,3]",
            "slice: f32[2,3] has no 2 positions from 1 on along an axis 0",
        ),
        (
            "%1 = slice(%0) {axis=-1, start=1, len=2} : f32[2,3]",
            "slice: attribute `axis` must be at least 0 and below 2^48",
        ),
        (
            "%1 = elu(%0) {alpha=1.0, alpha=2.0} : f32[2,3]",
            "the attribute `alpha` is given twice",
        ),
        (
            "%1 = constant() {dtype=f32, shape=[2], data=[1.0]} : f32[2]",
            "constant: f32[2] needs 2 elements, attribute `data` has 1",
        ),
    ] {
        let found = parse(&format!("{start}{line}\n"), &Registry::standard()).unwrap_err();
        let expected = error.replace("expected `,` is missing", "`,` is missing");
        assert_eq!(found.message(), format!("line 2: {expected}"), "{line}");
    }
}

#[test]
fn no_text_makes_the_parser_panic() {
    let trace = Trace::new();
    for (n, case) in cases(32).iter().enumerate() {
        let declare = |(i, a): (usize, &lessen_graph::Array)| trace.input(&format!("{n}.{i}"), a.ty.dtype, &a.ty.shape);
        let inputs: Vec<_> = case.inputs.iter().enumerate().map(declare).collect();
        trace.apply_shared(case.op.clone(), &inputs);
    }
    let text = print(&trace.finish());
    let registry = Registry::standard();
    let mut r = crate::prng::Prng::new(33);
    let lines: Vec<&str> = text.lines().collect();
    let pieces = [
        "0",
        "9",
        "-",
        "99999999999999999",
        "[",
        "]",
        "{",
        "}",
        ",",
        "%",
        "\"",
        ":",
        "=",
        "nan",
        "é",
        " ",
        "",
    ];
    for _ in 0..lessen_base::cases(4_000) {
        // One line changed at one place, after all inputs so that its operands are defined.
        let at = r.below(lines.len());
        let mut line: Vec<char> = lines[at].chars().collect();
        let place = r.below(line.len());
        let piece: Vec<char> = pieces[r.below(pieces.len())].chars().collect();
        line.splice(place..(place + r.below(3)).min(line.len()), piece);
        let changed: String = line.into_iter().collect();
        let inputs = lines.iter().filter(|l| l.starts_with("input") && **l != lines[at]);
        let mut whole: Vec<&str> = inputs.copied().collect();
        whole.push(&changed);
        if let Ok(graph) = parse(&whole.join("\n"), &registry) {
            verify(&graph).unwrap();
        }
    }
}

#[test]
fn names_and_assignments_that_clash_are_refused_at_their_line() {
    let head = "input \"x\" %0 : f32[2]\nstate \"w\" %1 : f32[2]\noutput \"y\" = %0\nassign %1 = %0\n";
    for (line, sentence) in [
        ("input \"x\" %2 : f32[]", "the graph already has an input called `x`"),
        ("state \"x\" %2 : f32[]", "the graph already has an input called `x`"),
        ("input \"w\" %2 : f32[]", "the graph already has an input called `w`"),
        ("output \"y\" = %1", "the graph already has an output called `y`"),
        ("assign %1 = %1", "the state `w` is assigned twice"),
        ("assign %0 = %1", "the input `x` is data, only a state can be assigned"),
    ] {
        let error = parse(&format!("{head}{line}"), &Registry::standard()).unwrap_err();
        assert_eq!(error.message(), format!("line 5: {sentence}"));
    }
}

/// An operation with whatever attributes, as one from outside may have.
#[derive(PartialEq, Debug)]
struct Any(Attrs);

impl Op for Any {
    fn name(&self) -> &'static str {
        "any"
    }

    fn attrs(&self) -> Attrs {
        self.0.clone()
    }

    fn infer(&self, inputs: &[Type]) -> lessen_base::Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }
}

#[test]
fn attributes_of_every_kind_survive() {
    let mut registry = Registry::standard();
    registry
        .register("any", |attrs| Ok(Arc::new(Any(attrs.clone()))))
        .unwrap();
    let words = [
        "plain", "", "true", "12", "1e5", "inf", "nan", "-", "a b", "a,b", "[x]", "{}", "\"", "\\", "a\nb", "é", "x=y",
        "%1", "@",
    ];
    let specials = [
        0.0,
        -0.0,
        1.0,
        0.1,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        5e-324,
        f64::MAX,
    ];
    let mut all: Vec<Attr> = words.iter().map(|w| Attr::Word(w.to_string())).collect();
    all.extend(specials.map(Attr::Float));
    all.extend([0, -1, i64::MIN, i64::MAX].map(Attr::Int));
    all.extend([true, false].map(Attr::Bool));
    all.extend([
        Attr::Ints(vec![]),
        Attr::Ints(vec![3, -4]),
        Attr::Floats(vec![]),
        Attr::Floats(vec![1.0, 2.0]),
        Attr::Floats(specials.to_vec()),
    ]);
    for attr in all {
        let trace = Trace::new();
        let x = trace.input("a \"name\" \\ \n of %0", DType::F32, &[]);
        let attrs = Attrs::new().with("first", attr.clone()).with("last", Attr::Int(7));
        let y = trace.in_scope("a \"scope\"", || trace.apply1(Any(attrs.clone()), &[x]));
        trace.output("y", y);
        let text = print(&trace.finish());
        let parsed = parse(&text, &registry).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(parsed.nodes[0].op.attrs(), attrs, "{text}");
        assert_eq!(print(&parsed), text);
    }
}

#[test]
fn attributes_compare_by_their_text() {
    assert_eq!(Attr::Float(f64::NAN), Attr::Float(-f64::NAN));
    assert_eq!(Attr::Ints(vec![]), Attr::Floats(vec![]));
    assert_ne!(Attr::Ints(vec![1]), Attr::Floats(vec![1.0]));
    assert_ne!(Attr::Float(0.0), Attr::Float(-0.0));
    assert_ne!(Attr::Floats(vec![0.0]), Attr::Floats(vec![-0.0]));
    assert_ne!(Attr::Int(1), Attr::Float(1.0));
}

#[test]
fn operations_with_other_fields_have_other_attributes() {
    let all = cases(34);
    for (i, a) in all.iter().enumerate() {
        for b in &all[..i] {
            let same_type = a.op.name() == b.op.name();
            let same_fields = format!("{:?}", a.op) == format!("{:?}", b.op);
            if same_type {
                assert_eq!(a.op.attrs() == b.op.attrs(), same_fields, "{:?} and {:?}", a.op, b.op);
            }
        }
    }
}
