//! Random modules survive text; no text, however mangled, makes the parser, the printer or the lint
//! panic.

mod common;

use std::sync::LazyLock;

use common::forms::{PER_TYPE, bench, forms, inst};
use proptest::collection::vec;
use proptest::prelude::*;
use ptx::ast::*;

static FORMS: LazyLock<Vec<Op>> = LazyLock::new(forms);

/// Choices by which a form becomes an instruction; each is taken when the result is valid.
#[derive(Clone, Debug)]
struct Choice {
    form: usize,
    guard: Option<(u32, bool)>,
    regs: Vec<u32>,
    immediate: Operand,
    offset: i64,
    label_before: bool,
}

fn immediate() -> impl Strategy<Value = Operand> {
    prop_oneof![
        any::<i64>().prop_map(Operand::Int),
        (-40_i64..300).prop_map(Operand::Int),
        any::<i32>().prop_map(|v| Operand::Int(v.into())),
        any::<u32>().prop_map(|v| Operand::Int(v.into())),
        any::<u32>().prop_map(Operand::F32),
        any::<u64>().prop_map(Operand::F64),
    ]
}

fn choice() -> impl Strategy<Value = Choice> {
    (
        any::<prop::sample::Index>(),
        prop::option::of((0..PER_TYPE, any::<bool>())),
        vec(0..13 * PER_TYPE, 12),
        immediate(),
        prop_oneof![Just(0_i64), -20_i64..2000, any::<i32>().prop_map(i64::from)],
        prop::bool::weighted(0.2),
    )
        .prop_map(|(form, guard, regs, immediate, offset, label_before)| Choice {
            form: form.index(FORMS.len()),
            guard,
            regs,
            immediate,
            offset,
            label_before,
        })
}

/// The first operand that may be an immediate.
fn first_operand(op: &mut Op) -> Option<&mut Operand> {
    match op {
        Op::Mov { a, .. }
        | Op::Int { b: a, .. }
        | Op::Mad { c: a, .. }
        | Op::Float { b: a, .. }
        | Op::Fma { c: a, .. }
        | Op::Setp { a, .. }
        | Op::Selp { b: a, .. }
        | Op::Cvt { a, .. }
        | Op::CvtPack { lo: a, .. }
        | Op::Prmt { sel: a, .. }
        | Op::Bfe { pos: a, .. }
        | Op::Shfl { b: a, .. }
        | Op::Vote { mask: a, .. }
        | Op::Atom { a, .. } => Some(a),
        Op::St { a, .. } | Op::Pack { a, .. } => a.last_mut(),
        _ => None,
    }
}

fn address(op: &mut Op) -> Option<&mut Addr> {
    match op {
        Op::Ld { addr, .. }
        | Op::St { addr, .. }
        | Op::LdMatrix { addr, .. }
        | Op::Atom { addr, .. }
        | Op::CpAsync { dst: addr, .. } => Some(addr),
        _ => None,
    }
}

/// A valid kernel out of random choices.
fn build(name: String, choices: Vec<Choice>, max_ntid: Option<[u32; 3]>) -> Kernel {
    let mut probe = bench();
    let mut valid = |op: &Op| {
        probe.body = vec![inst(op.clone()), Stmt::Label(Label(0))];
        ptx::validate_kernel(&probe).is_ok()
    };
    let mut body = Vec::new();
    let mut labels = 0;
    let mut targets = Vec::new();
    for choice in choices {
        if choice.label_before {
            body.push(Stmt::Label(Label(labels)));
            labels += 1;
        }
        let mut op = FORMS[choice.form].clone();
        // One register slot after another is replaced where the types allow it.
        for (slot, new) in choice.regs.iter().enumerate() {
            let mut changed = op.clone();
            let mut at = 0;
            changed.for_each_reg_mut(&mut |r| {
                if at == slot {
                    *r = Reg(*new);
                }
                at += 1;
            });
            if valid(&changed) {
                op = changed;
            }
        }
        let mut changed = op.clone();
        if let Some(operand) = first_operand(&mut changed) {
            *operand = choice.immediate;
        }
        if valid(&changed) {
            op = changed;
        }
        let mut changed = op.clone();
        if let Some(addr) = address(&mut changed) {
            addr.offset = choice.offset;
        }
        if valid(&changed) {
            op = changed;
        }
        if matches!(op, Op::Bra { .. }) {
            targets.push((body.len(), choice.regs[0]));
        }
        let guard = choice.guard.map(|(reg, negate)| Guard { reg: Reg(reg), negate });
        body.push(Stmt::Inst(Inst { guard, op, pos: Pos::NONE }));
    }
    body.push(Stmt::Label(Label(labels)));
    for (at, random) in targets {
        if let Stmt::Inst(Inst { op: Op::Bra { target, .. }, .. }) = &mut body[at] {
            *target = Label(random % (labels + 1));
        }
    }
    Kernel { name, max_ntid, labels: (0..=labels).map(|i| format!("$L{i}")).collect(), body, ..bench() }
}

fn module() -> impl Strategy<Value = Module> {
    let block = prop::option::of((1_u32..33, 1_u32..5, 1_u32..3).prop_map(|(x, y, z)| [x, y, z]));
    let kernel = (vec(choice(), 0..40), block);
    (vec(kernel, 0..3), 0_u32..3, 0_u32..30).prop_map(|(kernels, minor, target)| {
        let build = |(i, (choices, block))| build(format!("kernel_{i}"), choices, block);
        let kernels: Vec<Kernel> = kernels.into_iter().enumerate().map(build).collect();
        let (version, least) = ptx::least_header(&kernels);
        Module { version: version.max((7, minor)), target: least.max(80 + target), kernels }
    })
}

/// Declared registers in orders and with names that strain the printer's ranges.
fn declarations() -> impl Strategy<Value = Vec<RegDecl>> {
    let name = prop_oneof![
        (prop::sample::select(vec!["%r", "%a", "r", "_", "%r1_", "$"]), 0_u32..4).prop_map(|(p, i)| format!("{p}{i}")),
        "[%_$][a-z0-9_$]{1,6}",
        "[a-zA-Z][a-z0-9_$]{0,6}",
    ];
    let ty = prop::sample::select(vec![Type::B32, Type::B32, Type::U64, Type::F32, Type::Pred]);
    vec((name, ty), 0..24).prop_map(|all| {
        let mut names = std::collections::HashSet::new();
        all.into_iter().filter(|(name, _)| names.insert(name.clone())).map(|(name, ty)| RegDecl { name, ty }).collect()
    })
}

/// Whatever is parsed is valid, prints to a fixed point, and can be linted.
fn consistent(text: &str) {
    if let Ok(module) = ptx::parse(text) {
        ptx::validate(&module).unwrap();
        let printed = ptx::print(&module);
        assert_eq!(ptx::parse(&printed).unwrap(), module);
        let _ = ptx::lint(&module);
    }
}

/// Pieces a text is made of, for texts that get past the first tokens.
fn tokens(text: &str) -> Vec<&str> {
    text.split_inclusive([' ', ',', ';', '\n', '.', '{', '}', '[', ']']).collect()
}

#[derive(Clone, Debug)]
enum Edit {
    Delete,
    Duplicate,
    Swap(prop::sample::Index),
    Insert(String),
}

fn edit() -> impl Strategy<Value = (prop::sample::Index, Edit)> {
    let any_index = any::<prop::sample::Index>;
    let insert = prop_oneof![
        "[ -~]{1,4}",
        any::<char>().prop_map(|c| c.to_string()),
        prop::sample::select(vec![
            "@",
            "!",
            "{",
            "}",
            "[",
            "]",
            "<999999999>",
            "-",
            "0f",
            "0x",
            "/*",
            "//",
            ".f32",
            "%r0",
            "%tid.x",
            "18446744073709551616",
            "L0:",
            "bra L0;",
            "_",
            "|",
        ])
        .prop_map(str::to_owned),
    ];
    let edit = prop_oneof![
        Just(Edit::Delete),
        Just(Edit::Duplicate),
        any_index().prop_map(Edit::Swap),
        insert.prop_map(Edit::Insert),
    ];
    (any_index(), edit)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_modules_survive_text(module in module()) {
        ptx::validate(&module).unwrap();
        let text = ptx::print(&module);
        let again = ptx::parse(&text);
        prop_assert_eq!(again.as_ref(), Ok(&module), "{}", text);
        prop_assert_eq!(ptx::print(&module), text);
    }

    #[test]
    fn the_lint_takes_any_valid_module(module in module()) {
        let findings = ptx::lint(&module);
        // The same findings for the parsed text, apart from places.
        let parsed = ptx::parse(&ptx::print(&module)).unwrap();
        let rules = |all: &[ptx::Finding]| all.iter().map(|f| (f.rule, f.stmt)).collect::<Vec<_>>();
        prop_assert_eq!(rules(&findings), rules(&ptx::lint(&parsed)));
    }

    #[test]
    fn declarations_survive_text(regs in declarations()) {
        let kernel = Kernel {
            regs,
            params: Vec::new(),
            shared: Vec::new(),
            ..build("k".to_owned(), Vec::new(), None)
        };
        let module = Module::new(vec![kernel]);
        // Some random names are taken; what is valid must survive.
        if ptx::validate(&module).is_ok() {
            let text = ptx::print(&module);
            let again = ptx::parse(&text);
            prop_assert_eq!(again.as_ref(), Ok(&module), "{}", text);
        }
    }

    #[test]
    fn mangled_text_never_panics(edits in vec(edit(), 1..6)) {
        let text = ptx::print(&common::all());
        let mut pieces: Vec<String> = tokens(&text).into_iter().map(str::to_owned).collect();
        for (at, edit) in edits {
            let at = at.index(pieces.len());
            match edit {
                Edit::Delete => { pieces.remove(at); }
                Edit::Duplicate => pieces.insert(at, pieces[at].clone()),
                Edit::Swap(other) => {
                    let other = other.index(pieces.len());
                    pieces.swap(at, other);
                }
                Edit::Insert(what) => pieces.insert(at, what),
            }
        }
        consistent(&pieces.concat());
    }

    #[test]
    fn truncated_text_never_panics(cut in any::<prop::sample::Index>()) {
        let text = ptx::print(&common::all());
        consistent(&text[..cut.index(text.len())]);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), body in "\\PC{0,80}") {
        consistent(&String::from_utf8_lossy(&bytes));
        consistent(&format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n{body}\n}}\n"
        ));
    }
}

/// Every form, one after another, rather than those chance picks.
#[test]
fn every_form_survives_text() {
    assert!(FORMS.len() > 500, "{}", FORMS.len());
    let mut kernel = bench();
    kernel.body = FORMS.iter().cloned().map(inst).collect();
    kernel.body.push(Stmt::Label(Label(0)));
    let mut module = Module::new(vec![kernel]);
    (module.version, module.target) = ptx::least_header(&module.kernels);
    assert_eq!(ptx::parse(&ptx::print(&module)).as_ref(), Ok(&module));
}
