//! The rules a kernel must keep so that its bits are a function of its inputs, on every device.
//!
//! [`lint`] checks, for every kernel of a module:
//!
//! | rule | why |
//! |---|---|
//! | `structure` | [`crate::validate()`]: text outside the subset means nothing certain |
//! | `rounding` | an `add`, `sub` or `mul` without rounding may be contracted into an `fma` by `ptxas` |
//! | `approx` | only the special functions a profile models ([`APPROX_ALLOWED`]) have known bits |
//! | `ftz` | flushing is a choice a recipe makes, not an accident ([`LintOptions::allow_ftz`]) |
//! | `divergent-barrier` | `bar.sync` that some threads of the block do not reach hangs or is undefined |
//! | `divergent-warp-op` | `shfl`, `vote`, `mma`, `ldmatrix`, `bar.warp.sync` and `bra.uni` need whole warps |
//! | `undefined-register` | a register read before it is written holds anything |
//! | `fall-off-end`, `no-exit`, `unreachable` | control flow that cannot be meant |
//! | `hardware-id` | `%warpid` names a slot of the hardware, which may differ from run to run |
//! | `too-large` | beyond what the analyses take on; never passed unread |
//!
//! Float atomics have no rule: the syntax tree cannot express them and the parser refuses them.
//!
//! Divergence is decided conservatively by a dataflow analysis (module `uniformity`): a finding may
//! be a false alarm, silence is not a false promise. Data races are not looked for here; the
//! emulator's checker mode finds them.

mod definitions;
mod flow;
mod numeric;
mod uniformity;

use std::fmt;

pub use numeric::{APPROX_ALLOWED, AllowedApprox};

use crate::ast::{Kernel, Module, Pos, Stmt};
use crate::validate::{self, Defect, ValidateError};

/// What a finding is about; the table of this module says why each matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Rule {
    Structure,
    Rounding,
    Approx,
    Ftz,
    DivergentBarrier,
    DivergentWarpOp,
    UndefinedRegister,
    FallOffEnd,
    NoExit,
    Unreachable,
    HardwareId,
    TooLarge,
}

impl Rule {
    /// The stable name of the rule.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Rule::Structure => "structure",
            Rule::Rounding => "rounding",
            Rule::Approx => "approx",
            Rule::Ftz => "ftz",
            Rule::DivergentBarrier => "divergent-barrier",
            Rule::DivergentWarpOp => "divergent-warp-op",
            Rule::UndefinedRegister => "undefined-register",
            Rule::FallOffEnd => "fall-off-end",
            Rule::NoExit => "no-exit",
            Rule::Unreachable => "unreachable",
            Rule::HardwareId => "hardware-id",
            Rule::TooLarge => "too-large",
        }
    }

    /// How grave a breach is. A kernel with an error cannot be registered.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            Rule::Unreachable => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Odd, but it decides no bit.
    Warning,
    /// The kernel cannot be relied on.
    Error,
}

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Its severity.
    pub severity: Severity,
    /// The kernel; empty for the header of the module.
    pub kernel: String,
    /// Index into the kernel's body, when the finding is about one statement.
    pub stmt: Option<usize>,
    /// Where the statement was parsed; [`Pos::NONE`] when it was built.
    pub pos: Pos,
    /// What is wrong and what to do about it.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}[{}]", self.rule.id())?;
        if !self.kernel.is_empty() {
            write!(f, " kernel {}", self.kernel)?;
        }
        if let Some(stmt) = self.stmt {
            write!(f, ", statement {stmt}")?;
        }
        if self.pos != Pos::NONE {
            write!(f, " (line {}, column {})", self.pos.line, self.pos.column)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// What a recipe allows beyond the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LintOptions {
    /// `.ftz` on ordinary arithmetic, comparisons and conversions.
    pub allow_ftz: bool,
    /// Any `.approx`: for kernels whose purpose is to find out what a special function gives.
    pub allow_any_approx: bool,
}

/// Lints a module with the default options. No finding of severity [`Severity::Error`] means that
/// the kernels may be registered.
#[must_use]
pub fn lint(module: &Module) -> Vec<Finding> {
    lint_with(module, &LintOptions::default())
}

/// Lints a module.
#[must_use]
pub fn lint_with(module: &Module, options: &LintOptions) -> Vec<Finding> {
    let mut findings: Vec<Finding> = validate::module_defects(module)
        .into_iter()
        .map(|error| Finding {
            rule: Rule::Structure,
            severity: Severity::Error,
            kernel: error.kernel,
            stmt: None,
            pos: error.pos,
            message: error.defect.to_string(),
        })
        .collect();
    for kernel in &module.kernels {
        let mut report = Report { kernel, findings: &mut findings };
        let defects = validate::defects(kernel);
        let sound = defects.is_empty();
        for defect in defects {
            report.structure(defect);
        }
        numeric::check(options, &mut report);
        // The analyses index the kernel's tables, which an unsound kernel may overrun.
        if sound {
            analyse(&mut report);
        }
    }
    findings
}

fn analyse(report: &mut Report<'_>) {
    let flow = match flow::Flow::new(report.kernel) {
        Ok(flow) => flow,
        Err(why) => return report.add(Rule::TooLarge, None, why.to_owned()),
    };
    flow.findings(report);
    definitions::check(&flow, report);
    uniformity::check(&flow, report);
}

/// Findings about one kernel.
struct Report<'a> {
    kernel: &'a Kernel,
    findings: &'a mut Vec<Finding>,
}

impl Report<'_> {
    fn add(&mut self, rule: Rule, stmt: Option<usize>, message: String) {
        let pos = match stmt.and_then(|i| self.kernel.body.get(i)) {
            Some(Stmt::Inst(inst)) => inst.pos,
            _ => Pos::NONE,
        };
        self.findings.push(Finding {
            rule,
            severity: rule.severity(),
            kernel: self.kernel.name.clone(),
            stmt,
            pos,
            message,
        });
    }

    fn structure(&mut self, error: ValidateError) {
        let rule = match error.defect {
            Defect::Rounding { round: None, .. } => Rule::Rounding,
            _ => Rule::Structure,
        };
        self.add(rule, error.stmt, error.defect.to_string());
    }
}
