//! Chat templates of strangers: whatever a template does, it ends in time, within its bytes, by an error.

use lessen_base::SplitMix64;
use lessen_saved::chat::{ChatOptions, ChatTemplate, Fault, Message};

/// The most bytes of a prompt of these few messages.
const BYTES: usize = 64 << 20;

fn messages() -> Vec<Message> {
    [
        ("system", "You are kind."),
        ("user", "Hi, what's 2 + 2?"),
        ("assistant", "4 <think>"),
        ("user", "Thanks!"),
    ]
    .map(|(role, content)| Message::new(role, content))
    .to_vec()
}

fn applied(source: &str) -> Result<String, (Fault, lessen_base::Error)> {
    let options = ChatOptions {
        variables: ["bos_token", "eos_token"]
            .map(|name| (name.to_string(), "<s>".into()))
            .into_iter()
            .collect(),
        ..ChatOptions::default()
    };
    ChatTemplate::of_source(source).prompt_or_fault(&messages(), &options)
}

/// Statements again and again.
fn repeated(count: usize, statement: &str) -> String {
    statement.repeat(count)
}

#[test]
fn templates_without_bounds_are_refused_in_time() {
    let nested = |inner: &str, count: usize| format!("{{{{ {}{inner}{} }}}}", "[".repeat(count), "]".repeat(count));
    let doubled = repeated(60, "{% set x = [x, x] %}");
    let grown =
        "{% set ns = namespace(x='ab') %}{% for i in range(90) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}";
    let deep = "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}";
    let hostile = [
        ("unary signs", format!("{{{{ {}1 }}}}", "-".repeat(100_000))),
        ("negations", format!("{{{{ {}true }}}}", "not ".repeat(60_000))),
        ("sums", format!("{{{{ 1{} }}}}", " + 1".repeat(60_000))),
        ("joined texts", format!("{{{{ ''{} }}}}", " ~ ''".repeat(50_000))),
        ("filters", format!("{{{{ ''{} }}}}", "|trim".repeat(50_000))),
        ("attributes", format!("{{{{ x{} }}}}", ".x".repeat(100_000))),
        ("calls", format!("{{{{ x{} }}}}", "()".repeat(100_000))),
        ("items", format!("{{{{ x{} }}}}", "[0]".repeat(80_000))),
        ("conditions", format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(20_000))),
        ("comparisons", format!("{{{{ 1{} }}}}", " < 1".repeat(60_000))),
        (
            "parentheses",
            format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        ),
        ("lists", nested("1", 100_000)),
        ("ifs", repeated(20_000, "{% if true %}")),
        (
            "elifs",
            format!("{{% if 0 %}}{}{{% endif %}}", repeated(20_000, "{% elif 0 %}")),
        ),
        ("loops", repeated(10_000, "{% for x in [1] %}")),
        (
            "a namespace in itself",
            "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}".to_string(),
        ),
        (
            "namespaces in each other",
            "{% set a = namespace() %}{% set b = namespace() %}{% set a.b = [b] %}{% set b.a = a %}{{ a|tojson }}"
                .to_string(),
        ),
        (
            "a namespace in a list in itself",
            "{% set ns = namespace() %}{% set x = [ns] %}{% set ns.x = x %}{{ ns ~ '' }}".to_string(),
        ),
        ("a width", "{{ '{:>99999999999999}'.format(1) }}".to_string()),
        ("a precision", "{{ '{:.99999999999999f}'.format(1.0) }}".to_string()),
        (
            "a width that is an argument",
            "{{ '{:>{}}'.format(1, 9999999999) }}".to_string(),
        ),
        (
            "many widths",
            format!("{{{{ '{}'.format(*range(9999)) }}}}", "{:>9999}".repeat(9000)),
        ),
        ("a width in percent", "{{ '%99999999999d'|format(1) }}".to_string()),
        ("a width of time", "{{ strftime_now('%99999999d') }}".to_string()),
        ("doubled texts", grown.to_string()),
        ("doubled texts by signs", grown.replace("ns.x ~ ns.x", "ns.x + ns.x")),
        (
            "doubled texts by join",
            grown.replace("ns.x ~ ns.x", "[ns.x, ns.x]|join"),
        ),
        (
            "doubled texts by the method join",
            grown.replace("ns.x ~ ns.x", "ns.x.join([ns.x, ns.x])"),
        ),
        (
            "doubled texts by replace",
            grown.replace("ns.x ~ ns.x", "ns.x.replace('a', ns.x)"),
        ),
        (
            "doubled texts by the filter replace",
            grown.replace("ns.x ~ ns.x", "ns.x|replace('a', ns.x)"),
        ),
        (
            "doubled texts by format",
            grown.replace("ns.x ~ ns.x", "'{}{}'.format(ns.x, ns.x)"),
        ),
        (
            "doubled texts by percent",
            grown.replace("ns.x ~ ns.x", "'%s%s'|format(ns.x, ns.x)"),
        ),
        (
            "doubled texts by escapes",
            grown.replace("ns.x ~ ns.x", "ns.x|tojson|tojson"),
        ),
        (
            "doubled texts by string",
            grown.replace("ns.x ~ ns.x", "[ns.x, ns.x]|string"),
        ),
        (
            "doubled texts by pprint",
            grown.replace("ns.x ~ ns.x", "[ns.x, ns.x]|pprint"),
        ),
        (
            "doubled texts by indent",
            grown.replace("ns.x ~ ns.x", "('\\n' ~ ns.x)|indent(9999999999)"),
        ),
        (
            "doubled texts in a block",
            grown.replace(
                "{% set ns.x = ns.x ~ ns.x %}",
                "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}",
            ),
        ),
        ("texts times a number", "{{ 'abc' * 99999999999 }}".to_string()),
        ("lists times a number", "{{ ([1] * 99999999)|list }}".to_string()),
        (
            "lists times numbers",
            "{{ [[[[[['a'] * 999] * 999] * 999] * 999] * 999] * 999 }}".to_string(),
        ),
        (
            "doubled lists",
            format!(
                "{{% set x = [1] %}}{}{{{{ x|list|length }}}}",
                repeated(60, "{% set x = x + x %}")
            ),
        ),
        (
            "nested doubled lists shown",
            format!("{{% set x = 'a' %}}{doubled}{{{{ x }}}}"),
        ),
        (
            "nested doubled lists joined",
            format!("{{% set x = 'a' %}}{doubled}{{{{ x ~ '' }}}}"),
        ),
        (
            "nested doubled lists as JSON",
            format!("{{% set x = 'a' %}}{doubled}{{{{ x|tojson }}}}"),
        ),
        (
            "nested doubled lists compared",
            format!("{{% set x = 1 %}}{doubled}{{% set y = x %}}{{% set x = 1 %}}{doubled}{{{{ x == y }}}}"),
        ),
        (
            "nested doubled lists as keys",
            format!("{{% set x = 1 %}}{doubled}{{{{ {{x: 1}} }}}}"),
        ),
        (
            "nested doubled objects",
            format!(
                "{{% set x = 1 %}}{}{{{{ x }}}}",
                repeated(60, "{% set x = {'a': x, 'b': x} %}")
            ),
        ),
        ("deep lists", format!("{deep}{{{{ ns.x }}}}")),
        ("deep lists that are dropped", deep.to_string()),
        (
            "deep batches",
            deep.replace("[ns.x]", "ns.x|batch(1)|list").replace("x=[]", "x=[1]"),
        ),
        (
            "a macro of itself",
            "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_string(),
        ),
        (
            "a macro of itself twice",
            "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}".to_string(),
        ),
        (
            "a caller of itself",
            "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{% call f() %}a{% endcall %}"
                .to_string(),
        ),
        (
            "a loop of itself",
            "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}".to_string(),
        ),
        (
            "loops in loops",
            format!(
                "{}{}",
                repeated(20, "{% for x in range(1000) %}"),
                repeated(20, "{% endfor %}")
            ),
        ),
        ("a range", "{% for x in range(99999999999) %}a{% endfor %}".to_string()),
        (
            "an indent of JSON",
            format!("{{{{ messages|tojson(indent='{}') }}}}", "a".repeat(200_000)),
        ),
        ("slices", "{{ [1]|slice(99999999999)|list }}".to_string()),
        ("batches", "{{ [1]|batch(99999999999, 1)|list }}".to_string()),
        ("a power", "{{ 9 ** 9 ** 9 ** 9 }}".to_string()),
        (
            "an exception",
            format!("{{{{ raise_exception('{}') }}}}", "a".repeat(200_000)),
        ),
        ("a source", "a".repeat(10 << 20)),
    ];
    for (what, source) in hostile {
        match applied(&source) {
            Ok(text) => assert!(
                text.len() < BYTES && !what.starts_with("doubled texts"),
                "{what}: {} bytes",
                text.len()
            ),
            Err((_, error)) => {
                assert_eq!(error.exit_code(), 2, "{what}: {error}");
                assert!(error.message().len() < 2000, "{what}: {error}");
            }
        }
    }
}

#[test]
fn a_template_that_exceeds_a_bound_is_at_fault_and_one_that_refuses_messages_is_not() {
    for source in [
        "{{ 'a' * 99999999 * 9 }}{% for",
        "{{ x|no_filter }}",
        "{{ '{:>999999999}'.format(1) }}",
    ] {
        assert_eq!(applied(source).unwrap_err().0, Fault::Template, "{source}");
    }
    let (fault, error) = applied("{{ raise_exception('roles must alternate') }}").unwrap_err();
    assert_eq!(fault, Fault::Request);
    assert!(error.message().contains("roles must alternate"), "{error}");
}

#[test]
fn what_real_templates_do_is_within_the_bounds() {
    let cases = [
        (
            "{{ true is sameas true }} {{ 1 is sameas true }} {{ none is sameas(none) }}",
            "True False True",
        ),
        (
            "{% set x = [1] %}{{ x is sameas x }} {{ x is not sameas [1] }} {{ messages[0].role is sameas 'system' }}",
            "True True True",
        ),
        ("{{ '{:>5}|{:.2f}|{}'.format(1, 2.5, 'a') }}", "    1|2.50|a"),
        (
            "{% set ns = namespace(all=[], n=0) %}{% for m in messages %}{% set ns.all = ns.all + [m.role] %}\
             {% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }} {{ ns.all|join(',') }}",
            "4 system,user,assistant,user",
        ),
        (
            "{% macro count(of) %}{% set of.n = of.n + 1 %}{{ of.n }}{% endmacro %}{% set ns = namespace(n=1) %}{{ count(ns) }}{{ ns.n }}",
            "22",
        ),
        ("{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}", "12"),
        (
            "{% set a, b = 1, 2 %}{{ a if b > 1 else b }}{{ [1, 2, 3][::-1]|list }}",
            "1[3, 2, 1]",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(
            applied(source).map_err(|(_, error)| error).as_deref(),
            Ok(expected),
            "{source}"
        );
    }
    // A long chat: a thousand messages of a thousand characters, each changed several times.
    let long: Vec<Message> = (0..1000)
        .map(|n| Message::new(["user", "assistant"][n % 2], &"word ".repeat(200)))
        .collect();
    let source = "{% set ns = namespace(last=0) %}{% for m in messages[::-1] %}{% if m.role == 'user' and not ns.last %}\
         {% set ns.last = messages|length - loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}\
         {% set content = m.content.strip() %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}\
         {% endif %}{{ '<|start|>' + m.role + '\\n' + content|trim + '<|end|>\\n' }}{% endfor %}";
    let text = ChatTemplate::of_source(source)
        .prompt(&long, &ChatOptions::default())
        .unwrap();
    assert!(text.len() > 1_000_000, "{} bytes", text.len());
}

/// Templates of the kinds that models have, which are changed at random.
const REAL: [&str; 5] = [
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) and loop.index0 > 9 %}\
     {{ raise_exception('roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}\
     {% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token }}{% else %}{{ '<<SYS>>' ~ message.content|trim ~ '<</SYS>>' }}\
     {% endif %}{% endfor %}",
    "{%- set ns = namespace(found=false, last=messages|length - 1) -%}{%- for message in messages[::-1] -%}\
     {%- set index = (messages|length - 1) - loop.index0 -%}{%- if not ns.found and message.role == \"user\" -%}\
     {%- set ns.found = true -%}{%- set ns.last = index -%}{%- endif -%}{%- endfor -%}{%- for message in messages -%}\
     {{- '<|im_start|>' + message.role + '\\n' + message.content.split('</think>')[-1].lstrip('\\n') + '<|im_end|>' -}}\
     {%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}",
    "{%- macro show(spec, depth=0) -%}{%- if spec is mapping -%}{%- for key, value in spec|items -%}{{ '  ' * depth }}{{ key }}: \
     {{ show(value, depth + 1) }}{%- endfor -%}{%- elif spec is string -%}{{ spec|tojson }}{%- elif spec is iterable -%}\
     {%- for part in spec -%}{{ show(part, depth + 1) }}{%- endfor -%}{%- else -%}{{ spec }}{%- endif -%}{%- endmacro -%}\
     {%- for m in messages -%}{{ show(m) }}{%- endfor -%}{{ messages|tojson(indent=2) }}",
    "{% set system = messages|selectattr('role', 'equalto', 'system')|map(attribute='content')|join('\\n') %}\
     {% set rest = messages|rejectattr('role', 'equalto', 'system')|list %}{% if system %}{{ system.upper()|replace('A', 'b') }}{% endif %}\
     {% for m in rest %}{{ loop.index }}. {{ '%s: %s'|format(m.role|capitalize, m.content|default('-')) }}{% if not loop.last %}{{ '\\n' }}{% endif %}\
     {% endfor %}{{ strftime_now('%Y-%m-%d') }} {{ '{:>8}'.format(rest|length) }}",
    "{% set loops = namespace(texts=[], count=0) %}{% for m in messages recursive %}{% set loops.texts = loops.texts + [m.role ~ ':' ~ m['content'][:40]] %}\
     {% set loops.count = loops.count + 1 %}{% if loops.count is divisibleby 2 %}{% continue %}{% endif %}{% set line %}{{ m.content|wordcount if false else m.content|length }}\
     {% endset %}{{ line|indent(2) }}{% endfor %}{{ loops.texts|batch(2)|map('join', ' ')|list }}{{ {'a': [1, 2.5, none, true]}|tojson }}",
];

/// Parts of expressions and tags that grow, deepen or repeat what they get into.
const PARTS: [&str; 24] = [
    "-",
    "not ",
    "(",
    ")",
    "[",
    "]",
    "~",
    "+",
    "*",
    "**",
    "999999999999",
    "|tojson",
    "|join",
    "|list",
    "|string",
    "|replace('a', 'aaaaaaaa')",
    ".format(1)",
    "{:>99999999}",
    "range(99999)",
    "namespace(a=messages)",
    "{%",
    "%}",
    "{{",
    "}}",
];

/// Statements that do so wherever a statement may stand.
const STATEMENTS: [&str; 14] = [
    "{% set messages = messages + messages %}",
    "{% set messages = messages * 3 %}",
    "{% set x = [x, x, messages] %}",
    "{% set x = {'a': x, 'b': x} %}",
    "{% set x = 'ab' ~ x ~ x %}",
    "{% set x = (x|string) * 9 %}",
    "{% set ns = namespace(x='a') %}{% for i in range(30) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x=[]) %}{% for i in range(300) %}{% set ns.x = [ns.x] %}{% endfor %}",
    "{% set ns = namespace() %}{% set ns.ns = ns %}",
    "{% macro f(x) %}{{ f([x, x]) }}{% endmacro %}{{ f(1) }}",
    "{{ x }}",
    "{{ x|tojson }}{{ x == [x] }}",
    "{% for i in range(9) %}{% for j in range(99) %}{{ messages|length }}{% endfor %}{% endfor %}",
    "{{ '{:>999}'.format(messages|length) }}",
];

/// Changes a template at random.
fn changed(source: &mut String, random: &mut SplitMix64) {
    let mut below = |most: usize| random.below(most as u64) as usize;
    if below(3) > 0 {
        let places: Vec<usize> = source.match_indices("{%").map(|(place, _)| place).collect();
        let place = if places.is_empty() {
            0
        } else {
            places[below(places.len())]
        };
        let statement = STATEMENTS[below(STATEMENTS.len())].repeat(1 + below(40));
        return source.insert_str(place, &statement);
    }
    let place = below(source.len() + 1);
    let end = (place + below(40)).min(source.len());
    if !source.is_char_boundary(place) || !source.is_char_boundary(end) {
        return;
    }
    match below(3) {
        0 => source.replace_range(place..end, ""),
        1 => {
            let copy = source[place..end].repeat(1 + below(300));
            source.insert_str(place, &copy);
        }
        _ => source.insert_str(place, &PARTS[below(PARTS.len())].repeat(1 + below(3))),
    }
}

#[test]
fn a_thousand_changed_templates_end_within_their_bounds() {
    let seed = 57;
    let mut random = SplitMix64::new(seed);
    for source in REAL {
        applied(source).unwrap_or_else(|(_, error)| panic!("{error}"));
    }
    let (mut prompts, mut refused) = (0, 0);
    for case in 0..1200 {
        let mut source = REAL[random.below(REAL.len() as u64) as usize].to_string();
        for _ in 0..1 + random.below(3) {
            changed(&mut source, &mut random);
        }
        match applied(&source) {
            Ok(text) => {
                assert!(text.len() < BYTES, "seed {seed}, case {case}: {} bytes", text.len());
                prompts += 1;
            }
            Err((_, error)) => {
                assert_eq!(error.exit_code(), 2, "seed {seed}, case {case}: {error}");
                refused += 1;
            }
        }
    }
    assert!(prompts > 100 && refused > 100, "{prompts} prompts, {refused} refused");
}
