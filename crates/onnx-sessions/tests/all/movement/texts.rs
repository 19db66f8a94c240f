//! Operators on texts and lists, and what is refused.

use lessen_onnx::HostTensor;

use super::{array, check, list, list_of_texts, node, run, six, text, texts, value};
use crate::builder::{Builder, int, ints};

#[test]
fn texts_are_split_joined_and_matched() {
    let digits = |pattern: &str| {
        let all = texts(&[4], &["12", "1a", "١", "1[-"]);
        node("RegexFullMatch", vec![all], vec![text("pattern", pattern)])
    };
    check(vec![
        node(
            "StringConcat",
            vec![texts(&[2, 1], &["a", "b"]), texts(&[2], &["x", ""])],
            vec![],
        )
        .gives(vec![texts(&[2, 2], &["ax", "a", "bx", "b"])]),
        node(
            "StringSplit",
            vec![texts(&[2], &[" a  b c ", ""])],
            vec![int("maxsplit", 1)],
        )
        .gives(vec![texts(&[2, 2], &["a", "b c ", "", ""]), list(&[2i64, 0])]),
        node("StringSplit", vec![texts(&[], &["a,,b"])], vec![text("delimiter", ",")])
            .gives(vec![texts(&[3], &["a", "", "b"]), HostTensor::scalar(3i64)]),
        node(
            "StringNormalizer",
            vec![texts(&[1, 2], &["Monday", "Day"])],
            vec![
                list_of_texts("stopwords", &["DAY"]),
                text("case_change_action", "UPPER"),
            ],
        )
        .gives(vec![texts(&[1, 1], &["MONDAY"])]),
        // Digits are those of ASCII, and a bracket in a class stands for itself.
        digits(r"\d+").gives(vec![list(&[true, false, false, false])]),
        digits(r"[\d[-]+").gives(vec![list(&[true, false, false, true])]),
        digits(r"1|12").gives(vec![list(&[true, false, false, false])]),
        digits(r"\d\B2\b").gives(vec![list(&[true, false, false, false])]),
        node(
            "ai.onnx.ml:LabelEncoder",
            vec![texts(&[3], &["b", "?", "a"])],
            vec![
                list_of_texts("keys_strings", &["a", "b"]),
                ints("values_int64s", &[5, 6]),
            ],
        )
        .gives(vec![list(&[6i64, -1, 5])]),
    ]);
}

#[test]
fn lists_of_arrays() {
    let mut b = Builder::new(18);
    b.graph.input.push(value("x", 7));
    b.graph.input.push(value("at", 7));
    b.node("SplitToSequence", "rows", &["x"], vec![int("keepdims", 0)]);
    b.node("SequenceInsert", "more", &["rows", "last", "at"], vec![]);
    b.node("SequenceErase", "less", &["more", "at"], vec![]);
    b.node("SequenceAt", "last", &["rows", "end"], vec![]);
    b.node(
        "ConcatFromSequence",
        "joined",
        &["more"],
        vec![int("axis", 1), int("new_axis", 1)],
    );
    b.node("SequenceLength", "count", &["less"], vec![]);
    b.node("Optional", "there", &["less"], vec![]);
    b.node("OptionalHasElement", "is_there", &["there"], vec![]);
    b.integers("end", &[-1]);
    for (name, element) in [("joined", 7), ("count", 7), ("is_there", 9)] {
        b.graph.output.push(value(name, element));
    }
    let given = vec![
        ("x".to_string(), six().into()),
        ("at".to_string(), HostTensor::scalar(-2i64).into()),
    ];
    let outputs = run(&b, "", given).unwrap();
    let outputs: Vec<&HostTensor> = outputs.iter().map(|value| &**value.tensor().unwrap()).collect();
    assert_eq!(*outputs[0], array(&[3, 3], vec![4i64, 1, 4, 5, 2, 5, 6, 3, 6]));
    assert_eq!(*outputs[1], HostTensor::scalar(2i64));
    assert_eq!(*outputs[2], HostTensor::scalar(true));
}

#[test]
fn what_cannot_be_is_refused() {
    let huge = 1i64 << 40;
    let cases = [
        (node("ConstantOfShape", vec![list(&[huge, huge])], vec![]), "memory"),
        (node("ConstantOfShape", vec![list(&[1i64 << 31])], vec![]), "4 GiB"),
        (node("Expand", vec![list(&[true]), list(&[huge])], vec![]), "4 GiB"),
        (
            node("Tile", vec![six(), list(&[i64::MAX, i64::MAX])], vec![]),
            "too large",
        ),
        (
            node("Pad", vec![list(&[1u8]), list(&[i64::MAX, i64::MAX])], vec![]),
            "do not fit",
        ),
        (node("Reshape", vec![six(), list(&[-1i64, -1])], vec![]), "two extents"),
        (node("Reshape", vec![six(), list(&[4i64, -1])], vec![]), "extents"),
        (node("Gather", vec![six(), list(&[2i64])], vec![]), "no index 2"),
        (node("GatherND", vec![six(), list(&[i64::MIN])], vec![]), "no index"),
        (
            node("Transpose", vec![six()], vec![ints("perm", &[0, 0])]),
            "is none of 2 axes",
        ),
        (
            node("Split", vec![list(&[1u8, 2, 3])], vec![]).of_opset(13),
            "no 2 equal parts",
        ),
        (
            node(
                "Slice",
                vec![six(), list(&[0i64]), list(&[1i64]), list(&[0i64]), list(&[0i64])],
                vec![],
            ),
            "is 0",
        ),
        (
            node(
                "Range",
                vec![
                    HostTensor::scalar(0i64),
                    HostTensor::scalar(9i64),
                    HostTensor::scalar(0i64),
                ],
                vec![],
            ),
            "delta is 0",
        ),
        (
            node(
                "OneHot",
                vec![list(&[0i64]), HostTensor::scalar(huge), list(&[0u8, 1])],
                vec![],
            ),
            "4 GiB",
        ),
        (
            node(
                "RegexFullMatch",
                vec![texts(&[1], &["a"])],
                vec![text("pattern", "a)|(b")],
            ),
            "is not known",
        ),
    ];
    for (case, part) in cases {
        let why = case.run(if case.op_type == "Split" { 2 } else { 1 }).unwrap_err();
        let sentence = why.message().to_string();
        assert!(sentence.contains(part), "{}: {sentence}", case.op_type);
    }
}
